"""What a denoiser is made of, and what each of its blocks needs of the others: told without a weight.

A run on torch's ``meta`` device computes shapes alone. Each tensor that a block gives is marked in autograd's graph;
from what a block is given the graph is walked back to the nearest marks. Whatever happens between blocks (sums,
concatenations of a UNet's skip connections) is walked through, so that no model needs a description of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

Port = tuple[str, int]
"""A tensor that a block gives: the block's name, and its place among what it gives."""

_SAMPLE: Port = ("", 0)  # the latents, which every step changes


@dataclass(frozen=True, slots=True)
class Shape:
    """What a block gives: its structure, and of each leaf the size and number format; None where it is no tensor."""

    tree: TreeSpec
    leaves: tuple[tuple[tuple[int, ...], torch.dtype] | None, ...]

    def size_bytes(self, place: int) -> int:
        """Bytes of one leaf."""
        leaf = self.leaves[place]
        return 0 if leaf is None else leaf[1].itemsize * torch.Size(leaf[0]).numel()

    def unflatten(self, leaves: list[Any]) -> Any:
        """The structure with these leaves."""
        return tree_unflatten(leaves, self.tree)


@dataclass(slots=True)
class Block:
    """A part of a denoiser that is run as a whole.

    ``needs`` are the tensors of other blocks that it is given, as they are or worked on; ``steady`` says that none of
    it comes of the latents: an embedding of the prompt or of the time, which is computed wherever it is needed.
    """

    name: str
    needs: frozenset[Port]
    steady: bool
    shape: Shape
    call: tuple[tuple[Any, ...], dict[str, Any]] = field(default=((), {}), repr=False)


@dataclass(frozen=True, slots=True)
class Trace:
    """The blocks in the order in which they run, and which of their tensors the output is made of."""

    blocks: Mapping[str, Block]
    output: frozenset[Port]

    @property
    def flowing(self) -> tuple[str, ...]:
        """The blocks that work on the latents."""
        return tuple(name for name, block in self.blocks.items() if not block.steady)


class _Mark(torch.autograd.Function):
    """Changes nothing, and is found again in the graph by its port."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, port: Port) -> torch.Tensor:
        ctx.port = port
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError("marks are for looking at")


def blocks_of(module: torch.nn.Module, prefix: str = "") -> Iterator[tuple[str, torch.nn.Module]]:
    """The blocks that a denoiser can be cut between, by their full names.

    A part that has a list of others, such as a level of a UNet, is run through; any other is one block. What has no
    weights costs next to nothing and is no block: every stage runs it.
    """
    for name, child in module.named_children():
        lists = isinstance(child, torch.nn.ModuleList) or any(
            isinstance(one, torch.nn.ModuleList) and len(one) for one in child.children()
        )
        if lists:
            yield from blocks_of(child, f"{prefix}{name}.")
        elif any(True for _ in child.parameters()):
            yield f"{prefix}{name}", child


def trace(module: torch.nn.Module, call: Callable[..., Any], arguments: Mapping[str, Any]) -> Trace:
    """Run a denoiser on ``meta`` and look on.

    ``module`` has its weights on ``meta``; ``call`` is the module, or what wraps it, and takes ``arguments``, whose
    tensors may lie anywhere and are not read.
    """
    watch = _Watch()
    handles = []
    for name, block in blocks_of(module):
        handles.append(block.register_forward_pre_hook(watch.before(name), with_kwargs=True))
        handles.append(block.register_forward_hook(watch.after(name)))
    sample = next(name for name in inspect.signature(type(module).forward).parameters if name != "self")
    try:
        with torch.enable_grad():
            given = {name: tree_map(_meta, value) for name, value in arguments.items()}
            given[sample] = _mark(given[sample], _SAMPLE)
            output = call(**{**given, "return_dict": False})[0]
    finally:
        for handle in handles:
            handle.remove()
    return Trace(watch.blocks, frozenset(_ports(output)))


class _Watch:
    """Notes the blocks as they run."""

    def __init__(self) -> None:
        self.blocks: dict[str, Block] = {}
        self._given: dict[str, tuple[Any, ...]] = {}

    def before(self, name: str) -> Callable[..., None]:
        def note(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._given[name] = (args, kwargs)

        return note

    def after(self, name: str) -> Callable[..., Any]:
        def note(_: Any, __: Any, output: Any) -> Any:
            args, kwargs = self._given.pop(name)
            needs = frozenset(port for leaf in tree_flatten((args, kwargs))[0] for port in _ports(leaf))
            steady = all(port != _SAMPLE and self.blocks[port[0]].steady for port in needs)
            leaves, tree = tree_flatten(output)
            told = tuple((tuple(x.shape), x.dtype) if isinstance(x, torch.Tensor) else None for x in leaves)
            call = tree_map(_bare, (args, kwargs))
            self.blocks[name] = Block(name, needs - {_SAMPLE}, steady, Shape(tree, told), call)
            return tree_unflatten([_marked(leaf, (name, place)) for place, leaf in enumerate(leaves)], tree)

        return note


def _meta(value: Any) -> Any:
    """A tensor of the same shape that autograd follows; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_like(value, device="meta", requires_grad=value.is_floating_point())


def _bare(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _mark(tensor: torch.Tensor, port: Port) -> torch.Tensor:
    marked: torch.Tensor = _Mark.apply(tensor, port)  # type: ignore[no-untyped-call]
    return marked


def _marked(value: Any, port: Port) -> Any:
    followed = isinstance(value, torch.Tensor) and value.is_floating_point() and value.requires_grad
    return _mark(value, port) if followed else value


def _ports(value: Any) -> set[Port]:
    """The nearest marks behind a tensor."""
    if not isinstance(value, torch.Tensor) or value.grad_fn is None:
        return set()
    found: set[Port] = set()
    seen, pending = {value.grad_fn}, [value.grad_fn]
    while pending:
        node = pending.pop()
        port = getattr(node, "port", None)
        if port is not None:
            found.add(port)
            continue
        for behind, _ in node.next_functions:
            if behind is not None and behind not in seen:
                seen.add(behind)
                pending.append(behind)
    return found
