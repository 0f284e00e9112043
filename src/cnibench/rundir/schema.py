"""The run directory: which files it has, their schema version, and how an older version becomes the
present one.

- ``plan.json``: the manifest: what was asked, the cells, the seed, what is unsupported (Manifest)
- ``env.json``: kernel, CPU, memory, tools, testbed, wire; ``env-N.json`` is that of session N
- ``events.jsonl``: what happened and when, chained by hashes (chain.py); each ``cell-finished``
  commits the lines of one sample
- ``samples.jsonl``: one metric of one cell in one block a line (cell.Sample)
- ``attestations.jsonl``: the checks of each installed profile
- ``NAME.jsonl``: records of collectors and workloads (cpp, sizes, ...) with their coordinates
- ``raw/CELL/BLOCK/``: raw output of the tools, kept before anything parses it;
  ``BLOCK.attempt-N`` of a sample measured again, ``BLOCK.crosscheck`` of its cross-check
- ``seal.json``: which line of events.jsonl the finished run ended with
- ``NAME.orphan-N``: what an interrupted run had written without an event that commits it
- ``run.log``: the log, for people. No figure needs it: no event commits it, no reader opens it,
  and the site leaves it out

docs/run-directory.md says more.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from cnibench.errors import InputError
from cnibench.model import context
from cnibench.model.cell import SCHEMA, Cell

PLAN, ENVIRONMENT, SEAL = "plan.json", "env.json", "seal.json"
LOG, REPORT = "run.log", "report.md"  # for people; not part of the evidence
CALIBRATION = "calibration.json"  # what 'cnibench calibrate' found, beside its samples
EVENTS, SAMPLES, ATTESTATIONS, RAW = "events.jsonl", "samples.jsonl", "attestations.jsonl", "raw"
CROSS_CHECKS = "crosscheck"  # the records of windows beside slices, and their raw folders' suffix
SLICES = "slices.jsonl"  # in the raw folder of a sample that was measured in slices

# Bytes that are read of a file at most, so that no file fills the memory.
LONGEST_DOCUMENT, LONGEST_EVENTS, LONGEST_LINES, LONGEST_RAW = (
    64 << 20,
    512 << 20,
    4 << 30,
    256 << 20,
)
LONGEST_PIECE = 256 << 20  # of lines that one event commits
MOST_BLOCKS, MOST_CELLS, LONGEST_NAME, LONGEST_WINDOW = (
    1_000_000,
    100_000,
    1000,
    1e6,
)  # of a manifest; the window in seconds

Record = dict[str, Any]
Step = Callable[[str, Record], Record]

# Version n to the step that makes a record of version n + 1 of it; the step is given the file's
# name and the record.
MIGRATIONS: dict[int, Step] = {1: lambda file, record: record}  # 2 adds fields that have defaults


class Unsupported(msgspec.Struct, frozen=True, kw_only=True):
    """A profile that was asked for and cannot be measured here; found before anything was
    started.
    """

    label: str
    profile: str
    lacks: str
    remedy: str


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """How many blocks ``auto`` planned for one workload, and from what: fractions are of the value
    itself (0.02 is 2 %).

    ``noise`` is the standard deviation of the log of one profile's value between blocks, the
    largest over the placements; ``source`` says where it is from. ``blocks`` is what was planned;
    ``wished`` what the resolution takes, more than ``blocks`` where that was too many, 0 where it
    is beyond all bounds; ``finds`` the smallest difference that so many blocks find with a power of
    0.8.
    """

    workload: str
    pairs: int
    resolution: float
    noise: float
    source: str
    assumed: bool
    blocks: int
    wished: int
    finds: float


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """plan.json. ``profiles`` maps each label to the whole profile as it was then, ``plan`` is the
    plan as it was asked for.

    ``duration`` and ``warmup`` in seconds. ``target_ci`` is the half width at which the run stops
    by itself (0: never), ``max_blocks`` bounds it; ``blocks`` is the number of blocks that is
    carried out otherwise. ``until_decided``: the run ends earlier when all pairs are decided, each
    significantly different or proven to differ by less than ``resolution``. ``budget`` in s: no
    block is started that would probably end later than that (0: no limit). ``deployment_blocks``:
    as many blocks are measured on one deployment, then all profiles are deployed again (0: slices
    deploy in each block, windows in the lab once). ``calibrates``: the resolution that 'cnibench
    calibrate' was asked for (0: the run is no calibration). ``facts`` are what the user said of the
    run, by name.
    """

    schema: int = SCHEMA
    id: str
    name: str
    created: str
    command: list[str]
    tool_version: str
    seed: int
    blocks: int
    duration: float
    warmup: float
    cluster: str
    cells: list[Cell]
    profiles: dict[str, Record]
    unsupported: list[Unsupported] = []
    notes: list[str] = []  # what was left out or estimated, in words
    target_ci: float = 0.0
    max_blocks: int = 30
    until_decided: bool = False
    resolution: float = 0.05
    budget: float = 0.0
    deployment_blocks: int = 0
    calibrates: float = 0.0
    planned: list[Planned] = []
    main: dict[
        str, str
    ] = {}  # workload to the metric that decides; without one metrics.MAIN_ORDER does
    plan: Record = {}
    facts: dict[str, str] = {}
    extra: Record = {}  # ClusterOptions that were given, and keep

    def cell(self, identity: str) -> Cell | None:
        """The cell of that id."""
        return next((cell for cell in self.cells if cell.id == identity), None)


def check(manifest: Manifest, file: str) -> None:
    """Raises InputError for a field that is out of bounds, before it becomes a path, a loop or a
    wait.
    """
    for what, value, low, high in _bounded(manifest):
        if value is not None and not low <= value <= high:
            raise InputError(
                f"{file}: {what}: expected {low:g} to {high:g}, found {str(value)[:40]}", _WHOLE
            )
    for name in (
        manifest.id,
        manifest.name,
        manifest.cluster,
        *manifest.profiles,
        *(text for fact in manifest.facts.items() for text in fact),
        *(name for cell in manifest.cells for name in (cell.label, cell.profile, cell.workload)),
    ):
        if len(name) > LONGEST_NAME:
            raise InputError(
                f"{file}: a name has {len(name)} characters, at most {LONGEST_NAME} are allowed",
                _WHOLE,
            )


_WHOLE = "take the file from a complete copy of the run"


def _bounded(manifest: Manifest) -> Iterator[tuple[str, float | None, float, float]]:
    """(what, value, least, most) of each number of a manifest; a value of None is not given."""
    yield "blocks", manifest.blocks, 0, MOST_BLOCKS
    yield "max_blocks", manifest.max_blocks, 0, MOST_BLOCKS
    yield "deployment_blocks", manifest.deployment_blocks, 0, MOST_BLOCKS
    yield "number of cells", len(manifest.cells), 0, MOST_CELLS
    yield "duration", manifest.duration, 0, LONGEST_WINDOW
    yield "warmup", manifest.warmup, 0, LONGEST_WINDOW
    yield "target_ci", manifest.target_ci, 0, LONGEST_WINDOW
    yield "resolution", manifest.resolution, 0, 1
    yield "calibrates", manifest.calibrates, 0, 1
    yield "budget", manifest.budget, 0, LONGEST_WINDOW
    yield "seed", manifest.seed, -(2**63), 2**64
    for cell in manifest.cells:
        label = f"{cell.label[:80]!a}"
        yield f"duration of {label}", cell.duration, 0, LONGEST_WINDOW
        yield f"blocks of {label}", cell.blocks, 0, MOST_BLOCKS
        yield f"pair of {label}", cell.pair, 0, MOST_BLOCKS
        yield f"ip of {label}", cell.ip, 0, 6
        yield f"mtu of {label}", cell.mtu, 0, 2**31


def raw_folder(cell: str, block: int, attempt: int = 1) -> str:
    """Where the raw output of that sample is, below raw/."""
    return f"{cell}/{block}" + (f".attempt-{attempt}" if attempt > 1 else "")


def environment_file(session: int) -> str:
    """The environment of that session, counted from 1."""
    return ENVIRONMENT if session <= 1 else f"env-{session}.json"


def coordinates(cell: Cell, block: int, attempt: int = 1) -> Record:
    """What every line of a record file says about where it belongs."""
    return {
        "schema": SCHEMA,
        "attempt": attempt,
        "cell": cell.id,
        "block": block,
        **context.of_cell(cell),
    }


def now() -> str:
    """RFC 3339 in UTC, with fraction."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def new_id(name: str) -> str:
    """A run id: sorts by time, says the run's name, safe as a folder's name."""
    word = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:40]
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{word + '-' if word else ''}{secrets.token_hex(2)}"


@lru_cache(maxsize=256)
def is_lines(name: str) -> bool:
    """Is this the name of a file of lines that events commit: samples, attestations, records?"""
    return name != EVENTS and bool(_LINES.fullmatch(name))


@lru_cache(maxsize=256)
def is_document(name: str) -> bool:
    """Is this the name of a file that is written at once and named by an event?"""
    return bool(_DOCUMENT.fullmatch(name))


def is_below(name: str) -> bool:
    """Is this a relative path that does not lead out of its folder?"""
    parts = name.split("/")
    return "\0" not in name and not {"", ".", ".."}.intersection(parts)


_RECORD = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_LINES = re.compile(rf"{_RECORD.pattern}\.jsonl")
_DOCUMENT = re.compile(r"(plan|env)(-[0-9]{1,9})?\.json|calibration\.json")


def record_file(name: str) -> str:
    """The file of records of that name. Raises InputError for a name that is not a plain word."""
    if not _RECORD.fullmatch(name):
        raise InputError(
            f"'{name}' is not a name of a record file",
            "plain lower-case words, cpp or sizes for instance",
        )
    return f"{name}.jsonl"


def migrate(
    file: str, record: Record, steps: Mapping[int, Step] | None = None, target: int = SCHEMA
) -> Record:
    """``record`` in schema version ``target``, one step after the other. Raises InputError when it
    is newer, or older than any step.
    """
    steps = MIGRATIONS if steps is None else steps
    version = record.get("schema")
    if not isinstance(version, int) or isinstance(version, bool):
        raise InputError(
            f"{file}: expected a schema version", "is this a run directory of cnibench?"
        )
    if version > target:
        raise InputError(
            f"{file}: written by a newer cnibench (schema {version}, this one reads up to"
            f" {target})",
            "install a newer cnibench",
        )
    while version < target:
        if version not in steps:
            raise InputError(
                f"{file}: schema {version} is unknown", "is this a run directory of cnibench?"
            )
        record = {**steps[version](file, record), "schema": version + 1}
        version += 1
    return record
