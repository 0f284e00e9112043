"""``cnibench fidelity`` with the real flanneld: the models are what it makes, what is not is found,
and whatever happens nothing stays.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _commands import PROGRAM, until
from kind import binaries

pytestmark = pytest.mark.timeout(1800)  # a cold cache builds these programs first
LIMIT = 300.0  # s: on a machine that does something else as well


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a user has it: the programs of Kubernetes, flanneld, and the plugins in cni/. No
    cluster is needed for them.
    """
    folder = tmp_path_factory.mktemp("programs")
    (folder / "cni").mkdir()
    built = binaries.kubernetes()
    for name in ("kube-apiserver", "etcd"):
        (folder / name).symlink_to(built / name)
    (folder / "flanneld").symlink_to(binaries.flannel() / "flanneld")
    for path in (*(built / "cni").iterdir(), binaries.flannel_cni() / "flannel"):
        (folder / "cni" / path.name).symlink_to(path)
    return folder


def _argv(profile: str, agent: Path, programs: Path, out: Path, *more: str) -> list[str]:
    words = ["fidelity", "--cni", profile, "--agent", str(agent), "--programs", str(programs)]
    return [*PROGRAM, *words, "--out", str(out / "runs"), "--into", str(out), "--json", *more]


def _fidelity(*given: Any) -> subprocess.CompletedProcess[str]:
    argv = _argv(*given)
    return subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT, check=False)


def _script(folder: Path, text: str) -> Path:
    path = folder / "agent"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def _left(marker: Path) -> Iterator[str]:
    """Processes whose command line or environment names something of the test."""
    for entry in Path("/proc").glob("[0-9]*"):
        if entry.name == str(os.getpid()):
            continue
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(marker).encode() in words:
            yield words.decode(errors="replace")


def _certified(done: subprocess.CompletedProcess[str], folder: Path) -> dict[str, Any]:
    """What it said: the model is what flanneld makes, and there is a certificate of it."""
    assert done.returncode == 0, done.stderr + done.stdout
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["differences"] == []
    assert said["lines"] > 1000
    assert said["agent"]["version"] == binaries.FLANNEL
    (file,) = folder.glob("*.json")
    assert json.loads(file.read_text())["agent"] == said["agent"]
    return said


def test_the_model_of_udp_is_what_flanneld_makes(programs: Path, tmp_path: Path) -> None:
    _certified(
        _fidelity("flannel-udp", programs / "flanneld", programs, tmp_path, "--blocks=0"), tmp_path
    )


def test_a_packet_meets_the_same_rules_at_the_same_rate(programs: Path, tmp_path: Path) -> None:
    said = _certified(
        _fidelity("flannel", programs / "flanneld", programs, tmp_path, "--blocks=1"), tmp_path
    )
    assert len(said["packets"]) == 4
    assert {(rate["workload"], rate["placement"]) for rate in said["rates"]} == {
        (workload, placement)
        for workload in ("tcp-rr", "tcp-stream")
        for placement in ("intra", "inter")
    }
    assert Path(said["run"]).is_dir()


def test_what_the_agent_does_otherwise_is_found(programs: Path, tmp_path: Path) -> None:
    agent = _script(
        tmp_path,
        "ip route add 198.51.100.0/24 dev eth0\n"
        "iptables -I FORWARD -m comment --comment strange -j ACCEPT\n"
        f'exec {programs / "flanneld"} "$@"',
    )
    done = _fidelity("flannel", agent, programs, tmp_path, "--blocks=0")
    assert done.returncode == 1, done.stderr
    found = {(one["place"], one["part"]): one for one in json.loads(done.stdout)["differences"]}
    assert found.keys() == {
        (node, part) for node in "ab" for part in ("routes", "iptables-nft-save")
    }
    assert found["a", "routes"]["expected"] == []
    assert "198.51.100.0/24" in found["a", "routes"]["found"][0]
    assert "strange" in found["b", "iptables-nft-save"]["found"][0]


def test_what_it_writes_does_not_reach_the_machine(programs: Path, tmp_path: Path) -> None:
    agent = _script(
        tmp_path,
        "set -e; mkdir -p /etc/cnibench-agent /var/lib/cnibench-agent\n"
        "date > /etc/cnibench-agent/x\n"
        f'exec {programs / "flanneld"} "$@"',
    )
    _certified(_fidelity("flannel-host-gw", agent, programs, tmp_path, "--blocks=0"), tmp_path)
    assert not Path("/etc/cnibench-agent").exists()
    assert not Path("/var/lib/cnibench-agent").exists()
    assert not Path("/run/flannel").exists()


def test_an_agent_that_ends_is_told_with_its_last_lines(programs: Path, tmp_path: Path) -> None:
    agent = _script(tmp_path, "echo first; echo 'the last word' >&2; exit 3")
    done = _fidelity("flannel", agent, programs, tmp_path)
    assert done.returncode == 1
    assert "flanneld on node a ended with 3: first | the last word" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.json"))
    assert not list(_left(tmp_path))


def test_an_agent_that_ends_while_it_is_measured_is_not_certified(
    programs: Path, tmp_path: Path
) -> None:
    agent = _script(
        tmp_path,
        f'test "$1" != --version || exec {programs / "flanneld"} --version\n'
        f'{programs / "flanneld"} "$@" &\n'
        f"while [ ! -e {tmp_path}/end ]; do sleep 0.1; done\n"
        "kill $!; exit 7",
    )
    argv = _argv("flannel", agent, programs, tmp_path, "--blocks=3")
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        until(lambda: any((tmp_path / "runs").glob("*/events.jsonl")))
        (tmp_path / "end").touch()
        _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    assert b"what was measured until then is no certificate" in said
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_when_it_is_ended(number: int, programs: Path, tmp_path: Path) -> None:
    agent = _script(tmp_path, f'echo begun > {tmp_path}/begun; exec sleep 1000 "$@"')
    argv = _argv("flannel", agent, programs, tmp_path)
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        until((tmp_path / "begun").exists)
        process.send_signal(number)
        assert process.wait(60) in (130, -signal.SIGKILL)
    until(lambda: not list(_left(tmp_path)))
    assert not list(tmp_path.glob("*.json"))
