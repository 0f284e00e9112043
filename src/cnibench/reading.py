"""Reading a run directory: a copied one, a read-only one, one that a crash cut off in the middle of a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cnibench.cell import SCHEMA, Attestation, Cell, Sample
from cnibench.errors import InputError
from cnibench.layout import ATTESTATIONS, ENVIRONMENT, EVENTS, PLAN, RAW, SAMPLES, Manifest, Record, migrate, record_file

STALLS = "stalls"  # the records of what stood still, one a sample
T = TypeVar("T")


class RunReader:
    """One run directory; nothing is written. ``warnings`` tells what was cut off or unreadable in the files read so far.

    Raises InputError when it is no run directory or was written by a newer version.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.warnings: list[str] = []
        if not self.path.is_dir():
            raise InputError(f"{self.path}: no such run directory", "'cnibench runs' lists the runs")
        self.plan = self._document(PLAN, Manifest)

    @property
    def id(self) -> str:
        return self.plan.id

    @property
    def environment(self) -> Record:
        """env.json; empty when the run ended before it was written."""
        if not (self.path / ENVIRONMENT).exists():
            return {}
        return self._document(ENVIRONMENT, dict[str, Any])

    @property
    def started(self) -> str:
        """RFC 3339; when the run was planned if it never started."""
        return next((str(event["time"]) for event in self.events() if event.get("event") == "run-started"), self.plan.created)

    @property
    def finished(self) -> str:
        """RFC 3339; '' while cells are missing."""
        last = ""
        for event in self.events():
            if event.get("event") == "run-finished":
                last = str(event["time"])
            elif event.get("event") == "run-resumed":
                last = ""
        return last

    def samples(self) -> Iterator[Sample]:
        """Every line of samples.jsonl in order, failed ones too."""
        return iter(self._lines(SAMPLES, Sample))

    def attestations(self) -> list[Attestation]:
        """Every check in the order of time; a resumed run attests again, so one check may be there more than once."""
        return self._lines(ATTESTATIONS, Attestation)

    def events(self) -> list[Record]:
        """{schema, time, event, ...} in the order of time."""
        return self._lines(EVENTS, dict[str, Any])

    def records(self, name: str) -> Iterator[Record]:
        """The records of NAME.jsonl (cpp, sizes, ...), each with the coordinates of its sample; none when there is no such file.

        Those of disturbed samples are left out; what is stored of the disturbances themselves, ``stalls``, is whole.
        """
        found = self._lines(record_file(name), dict[str, Any])
        return iter(found) if name == STALLS else (record for record in found if not record.get("disturbed"))

    def record_names(self) -> list[str]:
        """The record files that this run has."""
        known = {SAMPLES, ATTESTATIONS, EVENTS}
        return sorted(file.stem for file in self.path.glob("*.jsonl") if file.name not in known)

    def raw(self, cell: Cell | str, block: int) -> Path:
        """The folder with the raw output of that sample."""
        return self.path / RAW / (cell if isinstance(cell, str) else cell.id) / str(block)

    def done(self) -> set[tuple[str, int]]:
        """(cell id, block) of all that is finished, whether it succeeded or failed: what a resumed run leaves out."""
        lines: dict[tuple[str, int], int] = {}
        for sample in self._lines(SAMPLES, _Place):  # a tenth of the memory of whole samples
            lines[sample.cell, sample.block] = lines.get((sample.cell, sample.block), 0) + 1
        found = set()
        for event in self.events():
            if event.get("event") == "cell-finished":
                key = (event["cell"], event["block"])
                if lines.get(key, 0) >= event["lines"]:
                    found.add(key)
        return found

    def _document(self, name: str, kind: type[T]) -> T:
        path = self.path / name
        try:
            data = msgspec.json.decode(path.read_bytes())
        except FileNotFoundError:
            raise InputError(f"{self.path}: not a run directory, there is no {name} in it", "'cnibench runs' lists the runs") from None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}", "check the path and its permissions") from None
        except msgspec.DecodeError as error:
            raise InputError(f"{path}: not JSON: {error}", "take the file from a whole copy of the run") from None
        if not isinstance(data, dict):
            raise InputError(f"{path}: expected an object", "is this a run directory of cnibench?")
        try:
            return msgspec.convert(migrate(str(path), data), kind)
        except msgspec.ValidationError as error:
            raise InputError(f"{path}: {error}", "take the file from a whole copy of the run") from None

    def _lines(self, name: str, kind: type[T]) -> list[T]:
        path = self.path / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}", "check the path and its permissions") from None
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            line = data.count(b"\n", 0, whole) + 1
            self._warn(f"{path}, line {line}: cut off in the middle; read up to line {line - 1}")
        # The usual case is decoded as one buffer: 100,000 samples take well below a second.
        try:
            probe = msgspec.json.Decoder(_Version).decode_lines(data[:whole])
            if all(item.schema == SCHEMA for item in probe):
                return msgspec.json.Decoder(kind).decode_lines(data[:whole])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            pass
        return list(self._one_by_one(path, data[:whole], kind))

    def _one_by_one(self, path: Path, data: bytes, kind: type[T]) -> Iterator[T]:
        """Lines of older versions, and files with a broken line: that line is left out and told."""
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            try:
                record = msgspec.json.decode(line, type=dict[str, Any])
                yield msgspec.convert(migrate(f"{path}, line {number}", record), kind)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                self._warn(f"{path}, line {number}: left out, it cannot be read: {error}")

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


class _Version(msgspec.Struct):
    schema: int


class _Place(msgspec.Struct, frozen=True, gc=False):
    """As much of a Sample as says where it belongs."""

    cell: str
    block: int
