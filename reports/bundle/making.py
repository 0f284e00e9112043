"""Makes a bundle of a run directory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from cnibench import __version__
from cnibench.analysis.build import analyse
from cnibench.errors import UsageError
from cnibench.model.cell import SCHEMA
from cnibench.reports.bundle import call_stacks, container, figures, signature
from cnibench.reports.bundle.publishing import pseudonyms_of, published
from cnibench.reports.bundle.unpacked import unpacked
from cnibench.rundir import chain
from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify


def bundle(reader: RunReader, key: Path | None = None) -> bytes:
    """The bundle of a finished run, signed with ``key`` where one is given. The same run gives the
    same bytes.

    Raises UsageError for a run that is not finished, damaged, or has no chain of hashes, and as
    ``published`` and ``signature.sign``.
    """
    problems = verify(reader, raw=True)
    if problems:
        raise UsageError(
            f"{reader.path}: {problems[0]}", f"'cnibench verify {reader.path}' names all problems"
        )
    if not reader.chain.chained or any(
        event.event == chain.ADOPTED for event in reader.chain.events
    ):
        raise UsageError(
            f"{reader.path}: an older version wrote it, and nothing proves that it is unchanged",
            "measure again",
        )
    if not reader.finished:
        raise UsageError(
            f"{reader.path}: it is not finished; a run that somebody ended when its figures pleased"
            " proves nothing",
            f"cnibench run --resume {reader.path}",
        )
    names = pseudonyms_of(reader)
    files = published(reader, names, container.LARGEST_CONTENTS)
    with ThreadPoolExecutor(1) as beside:
        begun = beside.submit(container.packed, files)  # zlib takes a CPU of its own
        with unpacked(files) as folder:
            stated = figures.of(analyse([RunReader(folder)], only_stated=True))
    added = {
        container.CONTENTS: msgspec.json.encode(
            Contents(
                schema=SCHEMA,
                run=reader.id,
                tool_version=__version__,
                origin=Origin(events=reader.chain.count, last=reader.chain.last),
                figures_version=figures.VERSION,
                figures=stated,
            )
        )
    }
    if stacks := call_stacks.of(reader, names):
        added[container.STACKS] = stacks
    size = sum(len(data) for data in [*files.values(), *added.values()])
    archive = container.packed(added, begun.result())
    if size > container.LARGEST_CONTENTS or len(archive) > container.LARGEST_FILE:
        raise UsageError(
            f"{reader.path}: {size:,} bytes are more than a bundle may have",
            "publish fewer blocks or cells in one run",
        )
    text = container.message(chain.digest(archive))
    return container.sealed(archive, signature.sign(text, key) if key else "")


class Origin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run directory that a bundle was made of: the number of its events and the hash of the
    last one, as ``cnibench verify RUN`` prints it.
    """

    events: int
    last: str


class Contents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """bundle.json. ``tool_version`` is that of the cnibench that made the bundle."""

    schema: int
    run: str
    tool_version: str
    origin: Origin
    figures_version: int
    figures: list[dict[str, object]]
