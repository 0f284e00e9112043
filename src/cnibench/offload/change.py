"""Changes features of a node's device for a while, and brings the old values back whatever happens
to us.

Before anything changes, a script that restores the old values is on the node's disk, and a guardian
process runs there in a session of its own: it carries the script out when our lease on it, a file
that is touched for as long as our connection to the node is open, is gone or has grown old. So a
client that is killed (``kill -9`` too) or cut off leaves nothing changed; and what a node's crash
left behind, the next start restores before it reads anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from cnibench.errors import ClusterError, UsageError
from cnibench.system.ethtool_output import parse_features
from cnibench.system.process import Process
from cnibench.testbed.place import Node

FOLDER = "/var/lib/cnibench/offload"  # on the node's disk
LEASE = 20  # s without a sign of life after which the guardian restores
_LIMIT = 30.0  # s

# $1 the restoring script, $2 the lease, $3 seconds
_GUARDIAN = """
: > "$2.guarded"
while [ -e "$2" ] && [ $(( $(date +%s) - $(stat -c %Y "$2" 2>/dev/null || echo 0) )) -le "$3" ]; do sleep 0.5; done
if [ -e "$1" ]; then sh "$1" && rm -f "$1"; fi
rm -f "$2"
folder=${1%/*}; rmdir "$folder" "${folder%/*}" 2>/dev/null
"""  # noqa: E501
_BEAT = 'while [ -e "$0" ]; do touch -c "$0"; sleep 2; done'
# $0 the folder, $1 seconds: what has given no sign of life for longer is restored; $2 seconds in
# which it may come to that
_RESTORE_ALL = """
end=$(( $(date +%s) + $2 ))
for file in "$0"/*.restore; do
  lease=${file%.restore}.lease
  while [ -e "$lease" ] && [ $(( $(date +%s) - $(stat -c %Y "$lease" 2>/dev/null || echo 0) )) -le "$1" ]; do
    [ "$(date +%s)" -lt "$end" ] || continue 2
    sleep 1
  done
  [ -e "$file" ] || continue
  sh "$file" && rm -f "$file" "$lease"
done
rmdir "$0" "${0%/*}" 2>/dev/null
true
"""  # noqa: E501


class Lease:
    """The right to change features of one device of one node, for as long as it is kept alive."""

    def __init__(self, place: Node, device: str, seconds: int = LEASE) -> None:
        if not re.fullmatch(r"[^\s/]{1,15}", device):
            raise UsageError(f"'{device}' is no name of a network device")
        self._place = place
        self._device = device
        self._seconds = seconds
        self._folder = folder(place)
        self._restore, self._lease = (
            f"{self._folder}/{device}.restore",
            f"{self._folder}/{device}.lease",
        )
        self.before: dict[str, bool] = {}

    def take(self, features: Mapping[str, bool]) -> None:
        """Stores the present values of those features and starts the guardian. Raises ClusterError;
        nothing is changed then.
        """
        restore_left(self._place)
        now = self._read()
        if unknown := sorted(features.keys() - now.keys()):
            raise ClusterError(
                f"{self._place.name}: {self._device} has no feature {', '.join(unknown)}"
            )
        if (
            self._place.run(["test", "-e", self._restore], timeout=_LIMIT, check=False).returncode
            == 0
        ):
            raise ClusterError(
                f"{self._place.name}: another run is changing features of {self._device}",
                "wait until it has ended",
            )
        self.before = {name: now[name] for name in features}
        words = " ".join(f"{name} {'on' if on else 'off'}" for name, on in self.before.items())
        script = f"ethtool -K {shlex.quote(self._device)} {words}\n"
        self._sh(
            'mkdir -p "$0" && cat > "$1.new" && sync "$1.new" && mv "$1.new" "$1" && : > "$2"',
            input=script,
        )
        guardian = (
            "setsid sh -c "
            + shlex.quote(_GUARDIAN)
            + ' cnibench-guardian "$1" "$2" "$3" </dev/null >/dev/null 2>&1 &\n'
        )
        # It is waited for: until it has a session of its own, it would end with the shell that
        # starts it.
        self._sh(guardian + 'until [ -e "$2.guarded" ]; do sleep 0.02; done; rm -f "$2.guarded"')

    def set(self, features: Mapping[str, bool]) -> None:
        """Sets features that ``take`` stored. Raises ClusterError when one does not become what was
        asked, or the lease was lost.
        """
        self.renew()
        words = [word for name, on in features.items() for word in (name, "on" if on else "off")]
        self._place.run(["ethtool", "-K", self._device, *words], timeout=_LIMIT)
        now = self._read()
        if wrong := [name for name, on in features.items() if now.get(name) != on]:
            raise ClusterError(
                f"{self._place.name}: {self._device}: {', '.join(wrong)} cannot be changed"
            )

    def renew(self) -> None:
        """A sign of life. Raises ClusterError when the guardian has restored meanwhile."""
        argv = ["sh", "-c", '[ -e "$0" ] && [ -e "$1" ] && touch "$1"', self._restore, self._lease]
        if self._place.run(argv, timeout=_LIMIT, check=False).returncode:
            words = (
                f"{self._place.name}: {self._device} was restored meanwhile, after no sign of life"
                f" from us for {self._seconds} s"
            )
            raise ClusterError(words, "was the node, or this machine, halted?")

    def beating(self) -> Process:
        """The sign of life while its ``with`` block lasts: a process on the node, which ends with
        our connection to it.
        """
        return self._place.spawn(["sh", "-c", _BEAT, self._lease])

    def give_back(self) -> None:
        """Restores the old values. Raises ClusterError when they are not there again."""
        self._sh(
            'if [ -e "$1" ]; then sh "$1"; fi; rm -f "$1" "$2"; rmdir "$0" "${0%/*}" 2>/dev/null;'
            " true"
        )
        now = self._read()
        if wrong := [name for name, on in self.before.items() if now.get(name) != on]:
            raise ClusterError(
                f"{self._place.name}: {self._device}: {', '.join(wrong)} could not be restored"
            )

    def _read(self) -> dict[str, bool]:
        text = self._place.run(["ethtool", "-k", self._device], timeout=_LIMIT).stdout
        return {name: feature.on for name, feature in parse_features(text).items()}

    def _sh(self, script: str, input: str | None = None) -> None:
        argv = ["sh", "-c", script, self._folder, self._restore, self._lease, str(self._seconds)]
        self._place.run(argv, timeout=_LIMIT, input=input)


@contextmanager
def leased(
    place: Node, device: str, features: Mapping[str, bool], seconds: int = LEASE
) -> Iterator[Lease]:
    """The device's features, stored before and restored at the block's end. Raises ClusterError."""
    lease = Lease(place, device, seconds)
    lease.take(features)
    try:
        with lease.beating():
            yield lease
        lease.renew()  # or it was restored meanwhile
    finally:
        lease.give_back()


def folder(place: Node) -> str:
    """Where the old values are, as programs on the node see it."""
    return place.disk + FOLDER


def restore_left(place: Node) -> None:
    """Restores what a run left that lost its guardian too; one whose lease is fresh is somebody's
    who is at work.
    """
    place.run(restoring(folder(place), 2 * LEASE), timeout=_LIMIT)


def restoring(where: str, age: int, patience: int = 0) -> list[str]:
    """The program that restores, in that folder, what has given no sign of life for ``age``
    seconds, or comes to that within ``patience`` seconds.
    """
    return ["sh", "-c", _RESTORE_ALL, where, str(age), str(patience)]
