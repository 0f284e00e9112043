"""The real bundle that the tests tamper with, its parts, and the keys that may sign it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cnibench.reports.bundle import container, signature
from cnibench.system import process
from tests.unit._bundles import GOLDEN, Files, Record, parts, refigured

SAMPLES, EVENTS, PLAN, ENV = "samples.jsonl", "events.jsonl", "plan.json", "env.json"
FILES = refigured(parts(GOLDEN.read_bytes()))  # whatever this version computes
ARCHIVE = container.packed(FILES)


@dataclass(frozen=True)
class Keys:
    owner: Path
    stranger: Path
    signers: Path
    bundle: bytes


def make_keys(folder: Path) -> Keys:
    """The bundle, signed by its owner, and a list of signers that has nobody else."""
    for name in ("owner", "stranger"):
        key = ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
        process.run(["ssh-keygen", *key], timeout=30)
    public = (folder / "owner.pub").read_text()
    (folder / "signers").write_text(f"owner@example.org {public}")
    return Keys(
        folder / "owner", folder / "stranger", folder / "signers", signed(FILES, folder / "owner")
    )


def signed(files: Files, key: Path) -> bytes:
    archive = container.packed(files)
    text = container.message(container.digest(archive))
    return container.sealed(archive, signature.sign(text, key))


def factor(one: Record, by: float) -> Record:
    return one | {"value": one["value"] and one["value"] * by}


def without(name: str) -> Callable[[], Files]:
    return lambda: {key: value for key, value in FILES.items() if key != name}
