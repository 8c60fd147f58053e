"""``safelight doctor --plan`` of a model in stages: who runs what, what is sent to whom, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.engine.parallel.stages.telling import Edge, Node, warnings_of
from safelight.cli.app import app

PLAN = '\n[models.scenes.parallel]\nkind = "async"\ndevices = 3\nstride = 2\n'


@pytest.fixture
def config(settings: dict[str, str]) -> Path:
    """A settings file with the shipped model in three stages."""
    file = Path(settings["SAFELIGHT_CONFIG"])
    file.write_text(file.read_text() + PLAN)
    return file


def test_the_graph_is_printed_and_saved(config: Path, tmp_path: Path) -> None:
    """All blocks are some rank's, and what a rank sends is told in bytes."""
    saved = tmp_path / "graph.json"
    command = ["doctor", "--plan", "--size", "64x64", "--save", str(saved), "--config", str(config)]
    shown = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert "async-3 warm-up 2 stride 2 · 64x64, batch 1 · timed on cpu" in shown.output
    graph = json.loads(saved.read_text())
    blocks = [name for rank in graph["ranks"] for name in rank["blocks"]]
    assert (blocks[0], blocks[-1], len(blocks)) == ("x_embedder", "proj_out", 9)
    assert graph["ranks"][0]["steady"] == ["time_text_embed", "context_embedder"]
    assert [(link["source"], link["target"]) for link in graph["links"]] == [(0, 1), (1, 2)]
    floats = {"x_embedder": 160 * 16, "transformer_blocks.0": 160 * (16 + 24)}
    first = graph["ranks"][0]["blocks"][-1]
    assert graph["links"][0]["bytes"] == 4 * floats.get(first, 160 * (16 + 24))
    assert all(rank["ms"] > 0 and rank["weights"] > 0 for rank in graph["ranks"])


def test_there_is_nothing_to_save_of_a_model_on_one_device(settings: dict[str, str], tmp_path: Path) -> None:
    """Said so, and no file is written."""
    command = ["doctor", "--plan", "--save", str(tmp_path / "graph.json"), "--config", settings["SAFELIGHT_CONFIG"]]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "is not cut into stages" in refused.output
    assert not (tmp_path / "graph.json").exists()


def node(rank: int, ms: float) -> Node:
    """A rank that takes so long."""
    return Node(rank=rank, blocks=(f"b{rank}",), steady=(), weights=1, ms=ms)


def link(source: int, target: int, size: int, link_gb_s: float) -> Edge:
    """So many bytes a round."""
    return Edge(source=source, target=target, tensors=("b#0",), bytes=size, ms=size / (link_gb_s * 1e6))


def test_a_bad_split_is_warned_of_with_numbers() -> None:
    """One stage that the others wait for, and links that take longer than the computing."""
    assert warnings_of([node(0, 4.0), node(1, 3.0)], [link(0, 1, 10**6, 1.0)], 1.0) == []
    (uneven,) = warnings_of([node(0, 4.0), node(1, 2.0)], [link(0, 1, 10**6, 1.0)], 1.0)
    assert "rank 0 takes 4.00 ms a round, 2.0 times rank 1's 2.00 ms" in uneven
    links = [link(0, 2, 3 * 10**6, 1.0), link(1, 2, 2 * 10**6, 1.0)]
    (busy,) = warnings_of([node(0, 4.0), node(1, 4.0), node(2, 4.0)], links, 1.0)
    assert "rank 2 has 5.00 MB a round to send or to receive, 5.00 ms at 1 GB/s" in busy
