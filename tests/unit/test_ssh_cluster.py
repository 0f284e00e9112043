"""What a run over ssh asks before it changes a machine, and what it leaves to another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.kubernetes.images import Engine
from cnibench.clusters.ssh.cluster import SshCluster
from cnibench.clusters.ssh.inspection.report import Seen, seen
from cnibench.clusters.ssh.machine import Machine
from cnibench.errors import EndedError
from cnibench.model.profile import builtin
from cnibench.system.process import Done
from cnibench.testbed.cluster import Options
from cnibench.testbed.cluster_options import ClusterOptions

GOLDEN = Path(__file__).parent.parent / "golden" / "ssh" / "inspect.txt"


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """(machine, script) of all that was carried out on two bare machines."""
    found: list[tuple[str, str]] = []

    def inspect(machine: Machine) -> Seen:
        own = {"address": f"10.0.0.{ord(machine.name)}", "boot": machine.name}
        facts = {**seen(GOLDEN.read_text()).facts, **own, "apt_kubeadm": "1.34.4-1.1"}
        machine.seen = Seen(facts)
        return machine.seen

    def run(machine: Machine, script: str, *words: str, **more: Any) -> Done:
        found.append((machine.name, script))
        return Done((script,), 0, "nothing\n", "", 0.0)

    monkeypatch.setattr(Machine, "inspect", inspect)
    monkeypatch.setattr(Machine, "run", run)
    return found


def cluster(**given: Any) -> SshCluster:
    options = Options(cluster=ClusterOptions(allow_install=True, **given))
    made = SshCluster.at("ssh://root@one,ssh://root@two")(options)
    assert isinstance(made, SshCluster)
    return made


@pytest.mark.parametrize(("free", "put_back"), [("a", ["a"]), ("", [])])
def test_what_another_run_has_is_not_put_back(
    free: str, put_back: list[str], ran: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machine, "hold", lambda machine: machine.name in free)
    made = cluster()
    with pytest.raises(EndedError, match="a run of cnibench uses it"), made:
        made.install("host", builtin()["host"])
    assert ran == [(name, "putback") for name in put_back]


def test_images_are_asked_for_before_anything_is_changed(ran: list[Any]) -> None:
    lacks = [one.lacks for one in cluster(image_archive=("/no.tar",), registry="r").missing()]
    assert lacks == ["there is no image archive /no.tar"]
    assert cluster(registry="r").missing() == []
    assert ran == []


def test_without_a_registry_this_machine_must_have_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cnibench.clusters.kubernetes.images.engine", lambda: Engine("none"))
    monkeypatch.setattr(Engine, "has", lambda engine, image: False)
    (found,) = cluster().missing()
    assert found.remedy == "cnibench images build"
