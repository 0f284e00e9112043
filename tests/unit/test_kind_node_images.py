"""Only images that a node lacks are loaded into a kind cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.clusters.kind.node_images import absent
from cnibench.clusters.kubernetes import images

WANTED = ("localhost/agent:1", "localhost/workload:1")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Answers ``exec NODE ctr ... images list --quiet`` with the file NODE, as podman does."""
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\n[ "$1 $3" = "exec ctr" ] && exec cat {tmp_path}/"$2"\n')
    program.chmod(0o755)
    monkeypatch.setattr(images, "engine", lambda: images.Engine(str(program)))
    return tmp_path


@pytest.mark.parametrize(
    ("one", "two", "lacking"),
    [
        (WANTED, WANTED, []),
        (WANTED, WANTED[:1], [WANTED[1]]),
        ((), WANTED, list(WANTED)),
        (["localhost/agent:10", "other/agent:1"], WANTED, list(WANTED)),
    ],
)
def test_what_all_nodes_have_is_not_lacking(
    one: list[str], two: list[str], lacking: list[str], engine: Path
) -> None:
    for name, found in (("one", one), ("two", two)):
        (engine / name).write_text("".join(f"{image}\n" for image in found))
    assert absent(["one", "two"], WANTED) == lacking


def test_a_node_that_does_not_answer_has_none(engine: Path) -> None:
    (engine / "one").write_text("\n".join(WANTED))
    assert absent(["one", "two"], WANTED) == list(WANTED)
