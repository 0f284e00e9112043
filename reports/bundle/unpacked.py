"""The files of a bundle as a run directory for a while, for whatever reads run directories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cnibench.system import scratch


@contextmanager
def unpacked(files: Mapping[str, bytes]) -> Iterator[Path]:
    """A private folder with these files, whose names were checked; it goes at the end."""
    with scratch.folder() as folder:
        run = folder / "run"
        run.mkdir()
        for name, content in files.items():
            (run / name).write_bytes(content)
        yield run
