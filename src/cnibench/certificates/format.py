"""What a certificate says, and how it is written to a file and read from one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cnibench.errors import InputError
from cnibench.system.files import read_named

SCHEMA = 1
_LARGEST = 8 << 20  # bytes


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """``part`` of a ``place`` (a node, a Pod, a packet's way) is not what the model has: the lines
    that only the model has, and those that only the agent has.
    """

    place: str
    part: str
    expected: list[str] = []
    found: list[str] = []


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent's deployment delivers, over what the model's does, measured in the same rounds
    of slices: ``ratio`` with its interval, from ``n`` blocks.
    """

    workload: str
    placement: str
    metric: str
    n: int
    ratio: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """The program that was run. ``version`` as it prints it; ``sha256`` of the file."""

    name: str
    version: str
    sha256: str


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison. ``model`` is the digest of the model's description, ``tool_version`` that of
    cnibench; ``date`` is UTC (RFC 3339). ``lines`` of the kernel's state were compared, and the
    ``packets`` named were followed; ``ip`` are the families that both had. ``apart`` names what is
    the same in both by construction, so that nothing is certified of it.
    """

    schema: int = SCHEMA
    profile: str
    model: str
    tool_version: str
    agent: Agent
    kernel: str
    architecture: str
    date: str
    settings: dict[str, str] = {}
    ip: tuple[int, ...] = (4,)
    programs: dict[str, str] = {}
    lines: int = 0
    packets: list[str] = []
    apart: list[str] = []
    differences: list[Difference] = []
    rates: list[Rate] = []
    notes: list[str] = []


def text(certificate: Certificate) -> str:
    """As its file holds it."""
    return msgspec.json.format(msgspec.json.encode(certificate), indent=1).decode() + "\n"


def read(path: Path) -> Certificate:
    """Raises InputError."""
    remedy = "remove the file, or make it again with 'cnibench fidelity'"
    try:
        found = msgspec.json.decode(read_named(path, _LARGEST), type=Certificate)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "check the path") from None
    except msgspec.DecodeError as error:  # ValidationError is one of these
        raise InputError(f"{path}: not a certificate: {error}", remedy) from None
    if found.schema != SCHEMA:
        raise InputError(f"{path}: a certificate of schema {found.schema}, not {SCHEMA}", remedy)
    return found
