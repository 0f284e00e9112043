"""The raw output of a sample, as its event recorded it."""

from __future__ import annotations

from pathlib import Path

from cnibench.errors import InputError
from cnibench.rundir.chain import Chain, Problem, digest
from cnibench.rundir.reading.findings import Findings
from cnibench.rundir.schema import LONGEST_RAW, RAW, raw_folder
from cnibench.system.files import read_beneath


def content(
    path: Path, chain: Chain, findings: Findings, identity: str, block: int, name: str
) -> bytes:
    """A raw file of that sample. Raises InputError when it is not there; one that was changed
    is reported in ``problems``.
    """
    last = chain.latest.get((identity, block))
    folder = f"{RAW}/{raw_folder(identity, block, last.attempt if last else 1)}"
    file = f"{folder}/{name}"
    known = last.raw.get(name) if last else None
    try:
        data = read_beneath(path, file, LONGEST_RAW)
    except OSError as error:
        if known:
            findings.add(
                Problem(
                    kind="lost",
                    file=file,
                    detail="the raw file is missing",
                    cell=identity,
                    block=block,
                )
            )
        raise InputError(
            f"{path / file}: {error.strerror}", "this needs the run's raw folder"
        ) from None
    if chain.chained and digest(data) != known:
        findings.add(
            Problem(
                kind="changed",
                file=file,
                detail="it is not what was recorded",
                cell=identity,
                block=block,
            )
        )
        raise InputError(
            f"{path / file}: is not what was recorded", "'cnibench verify' names all that is wrong"
        )
    return data
