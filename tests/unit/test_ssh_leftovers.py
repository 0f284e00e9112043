"""What earlier runs left on two machines, one of which may be away."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.clusters.kubernetes.ownership import state
from cnibench.clusters.ssh.cluster import SshCluster
from cnibench.clusters.ssh.inspection.report import Seen, seen
from cnibench.clusters.ssh.machine import Machine
from cnibench.errors import ClusterError
from cnibench.testbed.cluster import Options

GOLDEN = Path(__file__).parent.parent / "golden" / "ssh" / "inspect.txt"


def cluster(monkeypatch: pytest.MonkeyPatch, away: str) -> SshCluster:
    """Machines a and b with a journal of ours; those in ``away`` cannot be reached."""

    def inspect(machine: Machine) -> Seen:
        if machine.name in away:
            raise ClusterError(f"{machine.address}: it cannot be reached", "check the address")
        left = {"journal": "yes", "used": "no", "run": "cnibench-1", "owner": state.owner()}
        return Seen({**seen(GOLDEN.read_text()).facts, **left})

    monkeypatch.setattr(Machine, "inspect", inspect)
    made = SshCluster.at("ssh://root@one,ssh://root@two")(Options())
    assert isinstance(made, SshCluster)
    return made


def test_a_machine_that_is_away_comes_last_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = cluster(monkeypatch, "a").leftovers()
    assert first.what == "what the run cnibench-1 changed on ssh://root@two"
    assert first.kept == ""
    assert second.what == "what a run may have changed on ssh://root@one"
    with pytest.raises(ClusterError, match="cannot be reached"):
        second.remove()


def test_two_that_are_away_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match="root@one: it cannot be reached"):
        cluster(monkeypatch, "ab").leftovers()
