"""The provisional ranking on the screen while a run measures."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from cnibench.analysis.provisional import Logs, SoFar
from cnibench.analysis.text.provisional import lines, title
from cnibench.errors import CnibenchError
from cnibench.model.metrics import cost_of
from cnibench.registry import provider
from cnibench.run.progress import Progress
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Manifest

_log = logging.getLogger(__name__)
_PART = 0.01  # of the run's time that it takes at most


class Shown:
    """A run.ranking.Ranking: what it is told goes to ``progress``, at its pace, and the less often
    the longer it takes.
    """

    def __init__(self, path: Path, manifest: Manifest, progress: Progress) -> None:
        self._path, self._progress = path, progress
        self._most = manifest.max_blocks if manifest.target_ci else manifest.blocks
        in_turn = provider("clusters", manifest.cluster).slices == "in turn"
        self._so_far = SoFar(manifest, in_turn)
        costs = {workload: cost_of(metric) for workload, metric in manifest.main.items()}
        self._costs = SoFar(manifest, in_turn, costs)
        self._finished = 0
        self._next_show = self._next_read = 0.0
        self._read()

    def due(self) -> bool:
        return time.monotonic() >= self._next_show

    def rounds(self, block: int, logs: Logs, costs: Logs) -> None:
        self._so_far.rounds(block, logs)
        self._costs.rounds(block, costs)
        self._show()

    def meanwhile(self) -> None:
        self._show()

    def finished(self, blocks: int) -> None:
        self._finished = blocks
        if time.monotonic() >= self._next_read:
            self._read()
        if blocks < self._most:  # else the answer is next
            self._show()

    def _read(self) -> None:
        """What is stored, also by earlier sessions."""
        began = time.monotonic()
        try:
            reader = RunReader(self._path)
            self._so_far.read(reader)
            self._costs.read(reader)
            blocks = {one.block for one in reader.chain.events if one.event == "block-finished"}
            self._finished = max(self._finished, len(blocks))
        except CnibenchError as error:  # the run itself does not need it
            _log.warning("what is stored is not in the provisional ranking: %s", error)
        now = time.monotonic()
        self._next_read = now + (now - began) / _PART

    def _show(self) -> None:
        if not self.due():
            return
        began = time.monotonic()
        if rankings := self._so_far.rankings():
            said = title(rankings, self._finished, self._most, self._so_far.level)
            self._progress.ranking(said, lines(rankings, self._costs.rankings()))
        now = time.monotonic()
        self._next_show = now + max(self._progress.pace, (now - began) / _PART)
