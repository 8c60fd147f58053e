"""A denoiser whose repeated blocks are compiled (regional compilation): most of the speed in little of the time.

https://docs.pytorch.org/tutorials/recipes/regional_compilation.html. The blocks' code is compiled once for one row and
once for several, whatever the size of the picture.
"""

from __future__ import annotations

from collections import Counter

import structlog
import torch
from torch._dynamo.exc import FailOnRecompileLimitHit

from actors.engine.devices import is_out_of_memory
from actors.engine.families.base import Inputs
from actors.engine.passes import Eager, resized, run_without_grad
from actors.engine.stepping import BatchKey

_log = structlog.get_logger(__name__)

# Beyond so many versions of one function dynamo raises an error in fullgraph code. Its own limit of 8 is soon reached:
# there is one for a row, one for several, and again for each LoRA adapter (not for each weight of it).
_VERSIONS = 64


class Regional:
    """Passes of a denoiser with compiled blocks. Where compiling fails, eager ones from then on.

    The blocks are compiled in place: whoever else calls the denoiser runs compiled code too, until ``undo``.
    """

    def __init__(self, denoiser: torch.nn.Module, model: str, *, frozen: bool = False) -> None:
        """Nothing is compiled before the first pass.

        ``frozen`` compiles the weights' values in, packed for the CPU's matrix product: faster, at the cost of a second
        copy of them. Only for weights that never change.
        """
        self._eager = Eager(denoiser)
        self.frozen = frozen
        self._model = model
        self._blocks = repeated_blocks(denoiser)
        self._full = False
        self.compiles = 0
        """How many graphs have been compiled so far."""
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _VERSIONS)
        for block in self._blocks:
            block.compile(fullgraph=True, dynamic=True, options={"freezing": True} if frozen else None)

    @property
    def mode(self) -> str:
        """``eager`` where there is nothing to compile, or where it failed."""
        return "regional" if self._blocks else "eager"

    def run(self, inputs: Inputs, key: BatchKey) -> torch.Tensor:
        """One pass: [rows, ...]. The first one compiles, and so does the first one of several rows."""
        if not self._blocks:
            return self._eager.run(inputs, key)
        before = _compiled_so_far()
        try:
            return self._compiled(inputs, key)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            failed = _words(error)  # the error itself would keep the pass's tensors alive
        finally:
            self.compiles += _compiled_so_far() - before
        self.undo()
        output = self._eager.run(inputs, key)  # if this fails too, compiling was not at fault: it raises
        _log.warning(
            "compiling failed, passes run eager from now on",
            action="engine.compile_failed",
            model=self._model,
            error=failed,
        )
        return output

    def _compiled(self, inputs: Inputs, key: BatchKey) -> torch.Tensor:
        if not self._full:
            try:
                return self._eager.run(inputs, key)
            except FailOnRecompileLimitHit:
                self._full = True
            _log.warning(
                "too many versions of compiled code, new ones run eager",
                action="engine.compile_full",
                model=self._model,
                versions=torch._dynamo.config.recompile_limit,
            )
        with torch.compiler.set_stance("eager_on_recompile"):
            return self._eager.run(inputs, key)

    def padding(self, rows: int, key: BatchKey) -> int:  # noqa: ARG002
        """None: compiled code takes any number of rows."""
        return 0

    def warm(self, inputs: Inputs, key: BatchKey, limit: int) -> None:
        """Compile for one row, and for several: code for one is compiled apart."""
        for rows in (1,) if limit == 1 else (1, 2):
            run_without_grad(self, resized(inputs, rows * inputs.rows), key)

    def idle(self) -> bool:
        """Nothing to do."""
        return False

    def release(self) -> bool:
        """Compiled code holds no memory of the device worth a word."""
        return False

    def undo(self) -> None:
        """Make the denoiser what it was."""
        for block in self._blocks:
            block._compiled_call_impl = None
        self._blocks = []


def repeated_blocks(denoiser: torch.nn.Module) -> list[torch.nn.Module]:
    """The blocks that diffusers says repeat, of the denoiser or of the models inside it.

    Where it names none (SD3): those of the denoiser's own lists whose kind comes more than once. Empty without any.
    """
    names = {name for module in denoiser.modules() for name in getattr(module, "_repeated_blocks", None) or ()}
    if names:
        return [module for module in denoiser.modules() if type(module).__name__ in names]
    listed = [block for part in denoiser.children() if isinstance(part, torch.nn.ModuleList) for block in part]
    kinds = Counter(type(block) for block in listed)
    return [block for block in listed if kinds[type(block)] > 1]


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300] if str(error).strip() else ''}"


def _compiled_so_far() -> int:
    """Graphs compiled in this process: only the engine's thread compiles."""
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])
