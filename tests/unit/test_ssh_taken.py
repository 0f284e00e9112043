"""A machine that another run has is left alone, by the run that came too late as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.ssh.cluster import SshCluster
from cnibench.clusters.ssh.inspection import Seen, seen
from cnibench.clusters.ssh.machine import Machine
from cnibench.errors import EndedError
from cnibench.model.profile import builtin
from cnibench.system.process import Done
from cnibench.testbed.cluster import Options
from cnibench.testbed.cluster_options import ClusterOptions

GOLDEN = Path(__file__).parent.parent / "golden" / "ssh" / "inspect.txt"


@pytest.mark.parametrize(("free", "put_back"), [("a", ["a"]), ("", [])])
def test_what_another_run_has_is_not_put_back(
    free: str, put_back: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, str]] = []

    def inspect(machine: Machine) -> Seen:
        own = {"address": f"10.0.0.{ord(machine.name)}", "boot": machine.name}
        facts = {**seen(GOLDEN.read_text()).facts, **own, "apt_kubeadm": "1.34.4-1.1"}
        machine.seen = Seen(facts)
        return machine.seen

    def run(machine: Machine, script: str, *words: str, **more: Any) -> Done:
        ran.append((machine.name, script))
        return Done((script,), 0, "nothing\n", "", 0.0)

    monkeypatch.setattr(Machine, "inspect", inspect)
    monkeypatch.setattr(Machine, "hold", lambda machine: machine.name in free)
    monkeypatch.setattr(Machine, "run", run)
    options = Options(cluster=ClusterOptions(allow_install=True))
    cluster = SshCluster.at("ssh://root@one,ssh://root@two")(options)
    with pytest.raises(EndedError, match="a run of cnibench uses it"), cluster:
        cluster.install("host", builtin()["host"])
    assert ran == [(name, "putback") for name in put_back]
