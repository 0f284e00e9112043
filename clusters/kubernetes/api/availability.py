"""Whether the API server answers: outages are noted with their length, and waited for with a
limit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from cnibench.errors import EndedError
from cnibench.model.units import duration
from cnibench.rundir.schema import now
from cnibench.testbed.capabilities.outages import Outage

_log = logging.getLogger(__name__)
_FIRST, _MOST = 0.5, 5.0  # s between two questions
_GROWTH = 1.5
_JOINED = 1.0  # s; two with less between them are one: a request that is refused again and again


class Availability:
    """``probe`` says why the API server does not answer, '' when it does. ``patience`` in s; 0:
    nobody waits.
    """

    def __init__(self, probe: Callable[[], str], name: str) -> None:
        self.patience = 0.0
        self.notify: Callable[[str], None] = lambda text: None
        self._probe = probe
        self._name = name
        self._lock = threading.Lock()  # of the notes
        self._waiting = threading.Lock()  # one thread asks for all
        self._since: float | None = None
        self._began = ""
        self._reason = ""
        self._ended: list[Outage] = []
        self._last = 0.0, 0.0  # beginning and end of the last of them
        self._over: EndedError | None = None

    def failed(self, reason: str, ago: float = 0.0) -> None:
        """A request got no answer; it was sent ``ago`` s before now."""
        with self._lock:
            if self._since is None:
                self._since, self._began, self._reason = time.monotonic() - ago, now(), reason
                _log.info("%s does not answer: %s", self._name, reason)

    def answered(self) -> None:
        """A request was answered: an outage that was noted is over."""
        with self._lock:
            if self._since is not None:
                end = time.monotonic()
                _log.info("%s answers again after %.1f s", self._name, end - self._since)
                if self._ended and self._since - self._last[1] < _JOINED:
                    self._ended[-1] = replace(
                        self._ended[-1], seconds=round(end - self._last[0], 3)
                    )
                    self._last = self._last[0], end
                else:
                    seconds = round(end - self._since, 3)
                    self._ended.append(Outage(self._began, seconds, self._reason))
                    self._last = self._since, end
                self._since = None

    @property
    def over(self) -> bool:
        """Has an outage lasted for too long?"""
        return self._over is not None

    def down(self) -> bool:
        """Is there an outage that has not ended, as far as is known?"""
        return self._since is not None

    def take(self) -> list[Outage]:
        """Outages that have ended since the last call."""
        with self._lock:
            ended, self._ended = self._ended, []
            return ended

    def wait(self) -> None:
        """Returns when the API server answers. Raises EndedError when the outage has lasted for
        ``patience``, and ever after.
        """
        with self._waiting:
            if self._over is not None:
                raise self._over
            pause, logged = _FIRST, False
            while said := self._probe():
                self.failed(said)
                waited = time.monotonic() - (self._since or time.monotonic())
                if waited >= self.patience:
                    self.patience = 0.0
                    self._over = EndedError(
                        f"{self._name} has not answered for {duration(waited)}: {said}",
                        "see that it is up (kubectl get nodes); --patience TIME waits longer",
                    )
                    raise self._over
                if not logged:
                    logged = True
                    self.notify(
                        f"{self._name} does not answer ({said}): waiting up to"
                        f" {duration(self.patience)}"
                    )
                time.sleep(min(pause, self.patience - waited))
                pause = min(pause * _GROWTH, _MOST)
            self.answered()
