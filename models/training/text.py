"""The text encoders' first stage: to tell what scene a caption describes."""

from __future__ import annotations

import random

import torch
from torch import nn

from .captions import training_caption
from .parts import WIDTH, Parts
from .scenes import COLOURS, POSITIONS, RELATIONS, SHAPES, SIZES, Scene, sample_scene

NOTHING = "nothing"
CHOICES: tuple[tuple[str, ...], ...] = (
    tuple(COLOURS),
    (*RELATIONS, NOTHING),
    (*POSITIONS, NOTHING),
    SHAPES,
    tuple(COLOURS),
    SIZES,
    (*SHAPES, NOTHING),
    (*COLOURS, NOTHING),
    (*SIZES, NOTHING),
)
"""What there is to tell: background, relation, position, then each thing's shape, colour and size."""


class SceneReader(nn.Module):
    """Reads a scene off both encoders' states; it is thrown away after this stage."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(len(CHOICES), WIDTH) * 0.1)
        self.from_pooled = nn.ModuleList(nn.Linear(WIDTH, len(choices)) for choices in CHOICES)
        self.from_states = nn.ModuleList(nn.Linear(WIDTH, len(choices)) for choices in CHOICES)

    def forward(self, pooled: torch.Tensor, states: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        """How surprised both readings are by the right answers."""
        focus = (states @ self.queries.T * WIDTH**-0.5).softmax(dim=1)
        read = focus.transpose(1, 2) @ states
        losses = []
        for index, (one, other) in enumerate(zip(self.from_pooled, self.from_states, strict=True)):
            losses.append(nn.functional.cross_entropy(one(pooled), answers[:, index]))
            losses.append(nn.functional.cross_entropy(other(read[:, index]), answers[:, index]))
        return torch.stack(losses).mean()


class TextLoss:
    """The reader's loss on freshly drawn captions."""

    def __init__(self, parts: Parts, reader: SceneReader, batch: int, seed: int) -> None:
        self.parts = parts
        self.reader = reader
        self.batch = batch
        self.random = random.Random(seed)

    def __call__(self) -> torch.Tensor:
        """How badly the scenes are read from their captions."""
        scenes = [sample_scene(self.random, 128, 128) for _ in range(self.batch)]
        captions = [training_caption(self.random, scene) for scene in scenes]
        answers = torch.tensor([scene_answers(scene) for scene in scenes])
        pooled, states = self.parts.encode_text(captions)
        loss: torch.Tensor = self.reader(pooled, states, answers)
        return loss


def scene_answers(scene: Scene) -> list[int]:
    """The number of the right choice, for everything there is to tell."""
    told: list[str] = [scene.background, scene.relation or NOTHING, scene.position or NOTHING]
    for thing in scene.things:
        told += [thing.shape, thing.colour, thing.size]
    told += [NOTHING] * (len(CHOICES) - len(told))
    return [choices.index(answer) for choices, answer in zip(CHOICES, told, strict=True)]
