"""Records of collectors that can be used: a run directory may come from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Record


def usable(
    readers: Sequence[RunReader],
    numbers: Sequence[int],
    name: str,
    check: Callable[[Record], bool],
    lacks: str,
) -> Iterator[tuple[Record, int]]:
    """(record, number of its environment) of the records ``name`` that pass ``check``; the reader
    of another one warns that it has no usable ``lacks``. ``numbers`` are the readers' environments.
    """
    for reader, environment in zip(readers, numbers, strict=True):
        for record in reader.records(name):
            if check(record):
                yield record, environment
            else:
                reader.warnings.append(
                    f"a record of {name}.jsonl (cell {record.get('cell')!r}) has no usable {lacks}"
                    " and is left out"
                )
