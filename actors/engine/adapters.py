"""LoRA adapters of one pipeline: loaded when first wanted, switched without a trace, at most a few at a time."""

from __future__ import annotations

import itertools
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from actors.engine.devices import is_device_lost, is_out_of_memory
from actors.engine.errors import AdapterUnusableError, InvalidRequestError, ModelUnavailableError, OutOfMemoryError
from actors.engine.stepping import Adapters

if TYPE_CHECKING:
    import torch

    from safelight.config import AdapterSettings, ModelSettings

_log = structlog.get_logger(__name__)

_ROOM = 4
_USUAL_FILE = "pytorch_lora_weights.safetensors"  # what diffusers looks for first
_FACTOR = re.compile(r"^(?P<part>[^.]+)\.(?P<layer>.+)\.lora_(?P<side>[AB])\.weight$")


Place = tuple[str, str, str]
"""Where a factor goes: the pipeline's component, the layer in it, and which of the two factors (A comes first)."""


class LoraAdapters:
    """The adapters of a model's settings, over its diffusers pipeline. Belongs to the engine's thread.

    Loading wraps layers of the denoiser (and of text encoders, where the file has a part for them); after that,
    switching only says which factors are added: without any, a layer computes what it did before the first was loaded,
    bit for bit. The weights of the model stay where they are. ``before_leaving`` is called before an adapter's factors
    leave the device: a CUDA graph that reads them must go first.
    """

    def __init__(self, pipeline: Any, adapters: Mapping[str, AdapterSettings], room: int = _ROOM) -> None:
        """``room`` is how many stay loaded; one request may want more for its time."""
        self._pipeline = pipeline
        self._adapters = adapters
        self._room = room
        self._loaded: OrderedDict[str, str] = OrderedDict()  # peft's name by ours, the one used last at the end
        self._numbers = itertools.count()
        self._active: Adapters | None = ()  # None where a switch failed half-way
        self.before_leaving: Callable[[], object] = lambda: None

    def check(self, wanted: Adapters) -> None:
        """Raise InvalidRequestError where one is not in the model's settings."""
        unknown = [name for name, _ in wanted if name not in self._adapters]
        if unknown:
            known = ", ".join(sorted(self._adapters)) or "none"
            raise InvalidRequestError(f"adapters: the model has no {', '.join(unknown)}; it has {known}")
        if wanted and not hasattr(self._pipeline, "load_lora_weights"):
            raise InvalidRequestError("adapters: the model's pipeline takes none")

    def fetch(self) -> None:
        """Bring the files of hub adapters into the local cache, while the model loads and is given the time for it.

        One that can't be had is told of when it is asked for.
        """
        for name, adapter in self._adapters.items():
            if Path(adapter.path).is_absolute() or not hasattr(self._pipeline, "lora_state_dict"):
                continue
            source, options = _source(adapter)
            try:
                self._pipeline.lora_state_dict(source, **options)
            except Exception as error:  # whatever the hub's client and the file's reader raise
                words = _words(error)
                _log.warning("adapter not fetched", action="engine.adapter_not_fetched", adapter=name, error=words)

    def inspect(self, name: str) -> bool:
        """Compare an adapter's file with the model's layers, those of a skeleton too. Loads and fetches nothing.

        True where it fits, False where its layers go by names that only loading understands. Raises
        AdapterUnusableError where it never can be used, InvalidRequestError where the pipeline takes none, and
        ModelUnavailableError where the file is not here.
        """
        self.check(((name, 1.0),))
        try:
            source, options = _kept(self._adapters[name])
            found = self._pipeline.lora_state_dict(source, **options)
            factors = _factors(found[0] if isinstance(found, tuple) else found)
            _check_fit(factors, self._parts())
        except Exception as error:
            raise _unusable(name, error) from error
        return bool(factors)

    def use(self, wanted: Adapters) -> None:
        """Let these, and no others, act from now on. Loads them if need be.

        Raises InvalidRequestError, OutOfMemoryError, and ModelUnavailableError where a file is missing or doesn't fit;
        then all is as before.
        """
        if wanted == self._active:
            return
        self.check(wanted)
        for name, _ in wanted:
            if name in self._loaded:
                self._loaded.move_to_end(name)
            else:
                self._load(name)
        self._switch(wanted)
        self._make_room(len(wanted))

    @property
    def loaded(self) -> tuple[str, ...]:
        """Those in memory, the one used last at the end."""
        return tuple(self._loaded)

    def bytes(self) -> int:
        """What the loaded adapters take."""
        own = [re.compile(rf"\.{own}(\.|$)") for own in self._loaded.values()]
        return sum(
            weight.nbytes
            for component in self._parts().values()
            for name, weight in component.named_parameters()
            if any(pattern.search(name) for pattern in own)
        )

    def _load(self, name: str) -> None:
        adapter = self._adapters[name]
        own = f"adapter{next(self._numbers)}"  # peft's names take no dots
        source, options = _source(adapter)
        with self._explained(name, own):
            found = self._pipeline.lora_state_dict(source, **options)
            factors = _factors(found[0] if isinstance(found, tuple) else found)
            _check_fit(factors, self._parts())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # peft's: there are two adapters, quantised weights can't merge
                self._pipeline.load_lora_weights(source, adapter_name=own, **options)
            if own not in {each for names in self._pipeline.get_list_adapters().values() for each in names}:
                raise _MisfitError("it has nothing for this model's layers")
            _widen(factors, self._parts(), own)
        self._loaded[name] = own
        _log.info("adapter loaded", action="engine.adapter_loaded", adapter=name, revision=adapter.revision)

    def _switch(self, wanted: Adapters) -> None:
        """Let these act. Where that fails, nobody relies on what does: the next use switches anew."""
        self._active = None
        if wanted:
            self._pipeline.enable_lora()
            self._pipeline.set_adapters([self._loaded[name] for name, _ in wanted], [weight for _, weight in wanted])
        else:
            self._pipeline.disable_lora()
        self._active = wanted

    def _make_room(self, wanted: int) -> None:
        while len(self._loaded) > max(self._room, wanted):
            name, own = self._loaded.popitem(last=False)
            self.before_leaving()
            self._pipeline.delete_adapters(own)
            _log.info("adapter let go", action="engine.adapter_dropped", adapter=name)

    @contextmanager
    def _explained(self, name: str, own: str) -> Iterator[None]:
        """Whatever loading raises in words for the job; the pipeline is left as it was."""
        try:
            yield
        except Exception as error:
            if is_device_lost(error):  # there is nothing left to undo, and the adapter is not to blame
                raise
            self._undo(own)
            if is_out_of_memory(error):
                raise OutOfMemoryError(f"adapter {name!r} does not fit into the device's memory") from error
            raise _unusable(name, error) from error

    def _undo(self, own: str) -> None:
        """Take out what a failed load has left behind."""
        if not hasattr(next(iter(self._parts().values()), None), "peft_config") and not self._loaded:
            return
        if self._loaded:
            self._pipeline.delete_adapters(own)
            if self._active is not None:
                self._switch(self._active)
        else:
            self._pipeline.unload_lora_weights()

    def _parts(self) -> dict[str, torch.nn.Module]:
        """The components that adapters may change, by name."""
        names = getattr(self._pipeline, "_lora_loadable_modules", ())
        components = {name: getattr(self._pipeline, name, None) for name in names}
        return {name: component for name, component in components.items() if component is not None}


def make_adapters(pipeline: Any, settings: ModelSettings) -> LoraAdapters:
    """The adapters of a model's settings, over its loaded pipeline. Loads none yet."""
    return LoraAdapters(pipeline, settings.adapters)


class _MisfitError(Exception):
    """The file is for another model."""


def _source(adapter: AdapterSettings) -> tuple[str, dict[str, Any]]:
    """Where diffusers finds an adapter. Only safetensors: other formats run code when they are read."""
    options: dict[str, Any] = {"use_safetensors": True}
    path = Path(adapter.path)
    if path.is_absolute():
        return str(path.parent), {**options, "weight_name": path.name, "local_files_only": True}
    return adapter.path, {**options, "weight_name": adapter.file, "revision": adapter.revision or None}


def _kept(adapter: AdapterSettings) -> tuple[str, dict[str, Any]]:
    """The same of what is on this machine: a hub's file from its cache. Raises OSError."""
    if Path(adapter.path).is_absolute():
        return _source(adapter)
    from huggingface_hub import snapshot_download

    folder = Path(snapshot_download(adapter.path, revision=adapter.revision or None, local_files_only=True))
    names = [adapter.file] if adapter.file else sorted(file.name for file in folder.glob("*.safetensors"))
    usual = [name for name in names if name == _USUAL_FILE] or names
    if not usual or not (folder / usual[0]).is_file():
        raise FileNotFoundError(f"{adapter.path} has no {adapter.file or '.safetensors file'} in the hub's cache")
    return str(folder), {"use_safetensors": True, "weight_name": usual[0], "local_files_only": True}


def _factors(state: Mapping[str, torch.Tensor]) -> dict[Place, torch.Tensor]:
    """An adapter's factors by their place, of a state dict in diffusers' names. Names of other forms are left out."""
    matches = {key: _FACTOR.match(key) for key in state}
    return {(match["part"], match["layer"], match["side"]): state[key] for key, match in matches.items() if match}


def _check_fit(factors: Mapping[Place, torch.Tensor], parts: Mapping[str, torch.nn.Module]) -> None:
    """Compare factors with the layers that they are for, before anything is changed. Raises _MisfitError."""
    layers = {name: dict(part.named_modules()) for name, part in parts.items()}
    for (part, name, side), factor in factors.items():
        layer: Any = layers.get(part, {}).get(name)
        if layer is None:
            raise _MisfitError(f"it is for another model: this one has no layer {part}.{name}")
        base = layer.get_base_layer() if hasattr(layer, "get_base_layer") else layer
        has, wants = (base.weight.shape[1], factor.shape[1]) if side == "A" else (base.weight.shape[0], factor.shape[0])
        if has != wants:
            raise _MisfitError(f"it is for another model: {part}.{name} is {has} wide here, {wants} there")


def _widen(factors: Mapping[Place, torch.Tensor], parts: Mapping[str, torch.nn.Module], own: str) -> None:
    """Give back the factors' precision where peft took over that of a layer that is stored in float8.

    No device computes with those; those of other names come back rounded.
    """
    for part, component in parts.items():
        for name, weight in component.named_parameters():
            if f".{own}." not in name or weight.dtype.itemsize > 1:
                continue
            layer, _, rest = name.rpartition(".lora_")
            whole = factors.get((part, layer, rest[:1]), weight.data.float())
            weight.data = whole.to(weight.device)


def _unusable(name: str, error: Exception) -> AdapterUnusableError | ModelUnavailableError:
    """What can't be read now may be there later; a file that doesn't fit never will."""
    kind = ModelUnavailableError if isinstance(error, OSError) else AdapterUnusableError
    return kind(f"adapter {name!r} can't be used: {_words(error)}")


def _words(error: Exception) -> str:
    """An error in one line, without this machine's folders: clients read it."""
    if isinstance(error, _MisfitError):
        return str(error)
    if isinstance(error, ImportError) or "PEFT backend" in str(error):
        return "peft is not installed: pip install 'safelight[worker]'"
    line = str(error).strip().partition("\n")[0][:300]
    return re.sub(r"(?<![:/\w])(?:/[\w.@+-]+)+/(?=[\w.@+-])", "", line) or type(error).__name__
