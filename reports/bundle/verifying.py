"""Verifies a bundle: its seal and signature, the chain of hashes, every figure from the samples,
and what the run says about its testbed as far as that can be checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from cnibench import __version__
from cnibench.analysis.build import analyse
from cnibench.analysis.model import Analysis
from cnibench.analysis.samples.series import gather
from cnibench.cpp import summary
from cnibench.errors import CnibenchError, InputError
from cnibench.model.cell import SCHEMA
from cnibench.reports.bundle import call_stacks, container, figures, signature, statements
from cnibench.reports.bundle.making import Contents
from cnibench.reports.bundle.unpacked import unpacked
from cnibench.rundir.chain import ADOPTED
from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify


@dataclass
class Verified:
    """What verification found. Figures may be used when ``problems`` is empty. ``signer`` is None
    for an unsigned bundle. ``stacks`` are the call stacks of the ``groups`` of cycles per packet,
    None where it has none.
    """

    path: Path
    sha256: str
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    signer: signature.Signer | None = None
    run: str = ""
    origin: str = ""
    samples: int = 0
    figures: int = 0
    stacks: call_stacks.CallStacks | None = None
    groups: Sequence[summary.Group] = ()


@contextmanager
def verified(
    path: Path, signers: Path | None = None
) -> Iterator[tuple[Verified, RunReader, Analysis | None]]:
    """What was found, the run for as long as the context lasts, and its analysis as far as bundles
    state one (``only_stated``; None where the run is not intact). With ``signers``, a file of
    allowed signers, the bundle must be signed by one.

    Raises InputError for a file that is no bundle, was changed, or is of a newer version;
    MissingError without ssh-keygen where there is a signature.
    """
    seal, files = container.opened(path, container.read(path))
    found = Verified(path, seal.sha256)
    _signature(found, seal, signers)
    stated = files.pop(container.CONTENTS, b"")
    stacks = files.pop(container.STACKS, b"")
    with unpacked(files) as folder:
        try:
            reader = RunReader(folder)
            analysis = _run(found, reader, stated, set(files))
        except CnibenchError as error:
            words = error.message.replace(f"{folder}/", "").replace(str(folder), "the run")
            raise InputError(f"{path}: {words}", error.remedy) from None
        if stacks and analysis is not None:
            _call_stacks(found, reader, stacks)
        yield found, reader, analysis


def _signature(found: Verified, seal: container.Seal, signers: Path | None) -> None:
    if seal.signature:
        try:
            text = container.message(seal.sha256, seal.version)
            found.signer = signature.check(text, seal.signature, signers)
        except InputError as error:
            found.problems.append(error.message)
    elif signers is not None:
        found.problems.append(f"it is not signed, and {signers} says who has to sign")


def _run(found: Verified, reader: RunReader, stated: bytes, files: set[str]) -> Analysis | None:
    found.run = reader.id
    found.problems += [str(problem) for problem in verify(reader, raw=True)]
    if not reader.chain.chained or any(one.event == ADOPTED for one in reader.chain.events):
        found.problems.append("events.jsonl: it has no chain of hashes from its first event on")
    if not reader.finished or reader.unsealed:
        found.problems.append("events.jsonl: the run is not finished, or its end is missing")
    known = {*reader.files(), *reader.chain.documents(), "events.jsonl", "seal.json"}
    found.problems += [f"{name}: no event commits it" for name in sorted(files - known)]
    if found.problems:
        return None
    found.samples = len(reader.done())
    said = statements.Statements(reader)
    gathered = gather([reader], said.look)
    found.problems += said.found
    if reader.problems:  # of lines that cannot be decoded
        found.problems += list(map(str, reader.problems))
        return None
    analysis = analyse([reader], only_stated=True, gathered=gathered)
    found.problems += list(map(str, reader.problems))
    _figures(found, reader, analysis, stated)
    found.warnings += reader.warnings
    return analysis


def _call_stacks(found: Verified, reader: RunReader, stacks: bytes) -> None:
    try:
        found.stacks = call_stacks.decoded(stacks)
        found.groups = summary.groups(reader.records("cpp"))
    except InputError as error:
        found.problems.append(f"{container.STACKS}: {error.message}")
        return
    words = call_stacks.contradictions(found.stacks, found.groups)
    found.problems += [f"{container.STACKS}: {one}" for one in words]


def _figures(found: Verified, reader: RunReader, analysis: Analysis, stated: bytes) -> None:
    name = container.CONTENTS
    try:
        contents = msgspec.json.decode(stated, type=Contents)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        found.problems.append(f"{name}: it cannot be read: {error}")
        return
    if msgspec.json.encode(contents) != stated:
        found.problems.append(f"{name}: it is not in the form that cnibench writes")
    if contents.run != reader.id:
        found.problems.append(f"{name}: it is of the run {contents.run[:80]!a}, not {reader.id!a}")
    found.origin = contents.origin.last
    for what, version, known in (
        ("schema", contents.schema, SCHEMA),
        ("version of its figures", contents.figures_version, figures.VERSION),
    ):
        if version > known:
            raise InputError(
                f"{name}: written by a newer cnibench ({what} {version}, this one reads up to"
                f" {known})",
                "install a newer cnibench",
            )
        if version < 1:
            found.problems.append(f"{name}: there is no {what} {version}")
            return
    if contents.figures_version < figures.VERSION:
        found.warnings.append(
            f"the figures that it states were computed in another way (version"
            f" {contents.figures_version}, this cnibench has {figures.VERSION}) and are not"
            " compared: those shown are computed from the samples"
        )
        return
    ours = figures.of(analysis)
    found.figures = figures.count(ours)
    differ = figures.differences(contents.figures, ours)
    if differ and contents.tool_version != __version__:
        differ.append(
            f"it was made by cnibench {contents.tool_version[:40]}, this is {__version__}"
        )
    found.problems += [f"{name}: {one}" for one in differ]
