"""Machines put back as they were: by the journal that each keeps of what was done to it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cnibench.clusters.ssh import remains
from cnibench.clusters.ssh.machine import Machine, on_both
from cnibench.errors import ClusterError, CnibenchError

_LIMIT = 900.0  # s: packages are removed, and all files are listed
_MOST = 8  # differences that a message names
# Sections of the listing, as they are counted for the user.
_TITLES = {
    "package": ("package",),
    "file": ("file", "content", "link", "f", "d", "l", "s", "p", "c", "b"),
    "device": ("device", "address"),
    "rule": ("netfilter", "ipset", "rule", "route"),
    "sysctl": ("sysctl",),
    "module": ("module",),
    "unit": ("unit",),
    "mount": ("mount", "swap", "cgroup"),
}


@dataclass(frozen=True)
class Comparison:
    """A machine now, and before the run. ``failed`` says what could not be undone; ``gone`` and
    ``new`` are lines of its listing; ``compared`` counts those that were compared, by section.
    ``restarted``: the machine was, in between.
    """

    failed: tuple[str, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]
    compared: dict[str, int]
    restarted: bool = False

    @property
    def same(self) -> bool:
        """Is it as it was, but for what the kernel loaded on demand?"""
        return not (self.failed or self.gone or remains.of_others(self.new))

    def words(self) -> str:
        """``as it was before: 4123 files, 112 packages, ... compared``, or what differs, each with
        the command that removes it.
        """
        if self.same and not self.compared:
            return "nothing had been changed"
        sizes = ", ".join(
            f"{count} {name}{'s' * (count != 1)}" for name, count in self.compared.items() if count
        )
        more = remains.loaded(self.new)
        more += "; it was restarted in the meantime" if self.restarted else ""
        if self.same:
            return f"as it was before, no difference in {sizes}{more}"
        found = [*self.failed, *remains.differences(self.gone, self.new)]
        rest = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
        return f"not as it was before: {'; '.join(found[:_MOST])}{rest}{more}"

    @property
    def remedy(self) -> str:
        """About differences that the run did not make."""
        if self.restarted:
            return "a restart ends what was set by hand: set it again, where it is gone"
        return "what is named appeared during the run; cnibench did not create it"


def comparison(output: str) -> Comparison:
    """Out of what scripts/putback.sh prints."""
    failed, gone, new, counts, restarted = [], [], [], Counter[str](), False
    for line in output.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "failed:":
            failed.append(rest)
        elif kind == "-":
            gone.append(rest)
        elif kind == "+":
            new.append(rest)
        elif kind == "compared":
            section, _, number = rest.partition(" ")
            counts[_title(section)] += int(number)
        elif kind == "restarted":
            restarted = True
    return Comparison(tuple(failed), tuple(gone), tuple(new), dict(counts), restarted)


def compared(before: Sequence[str], look: Callable[[], Sequence[str]], limit: float) -> Comparison:
    """Two listings of a machine; ``look`` is asked again for ``limit`` s while they differ, for
    what has just ended is gone a little later.
    """
    end = time.monotonic() + limit
    while True:
        after = set(look())
        gone = [line for line in before if line not in after]
        new = sorted(after - set(before))
        counts = Counter(_title(line.partition(" ")[0]) for line in before)
        found = Comparison((), tuple(gone), tuple(new), dict(counts))
        if found.same or time.monotonic() > end:
            return found


def _title(section: str) -> str:
    return next((one for one, of in _TITLES.items() if section in of), section)


def put_back(machines: Sequence[Machine], run: str) -> list[Comparison | CnibenchError]:
    """What that run changed, on all of them at the same time, each whatever becomes of the other.
    Call it for machines that are held (bringup.hold): what another run changed is not ours.
    """

    def one(machine: Machine) -> Comparison | CnibenchError:
        try:
            done = machine.run("putback", run, timeout=_LIMIT, check=False)
        except CnibenchError as error:
            return error
        if done.returncode not in (0, 4):
            return ClusterError(f"{machine.address}: {done.stderr.strip()[-300:]}")
        return comparison(done.stdout)

    return on_both(machines, one)
