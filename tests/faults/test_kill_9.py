"""``kill -9`` at random moments, the set-up included, of the command or of any process that it
started: nothing stays on the machine.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from extent import FULL, SEED
from host import WORK, Machine, descendants
from short_run import ENVIRONMENT, PROGRAM, Outcome, acknowledged, lost, resume, the_run, verified

RUN = [
    "run",
    "--cni",
    "cilium,flannel,calico-wp-xsub",
    "--placement",
    "inter",
    "--method",
    "windows",
    "--workload",
    "tcp-rr",
    "--duration",
    "300ms",
    "--warmup",
    "0s",
    "--blocks",
    "1",
    "--seed",
    "1",
    "--out",
    f"{WORK}/runs",
]
COMMANDS = {
    "run": RUN,
    "slices": [*RUN, "--method", "slices", "--duration", "1s"],
    "offload": ["offload", "--verify", "--cni", "flannel", "--blocks", "1", "--duration", "1s"],
    "calibrate": [
        "calibrate",
        "--rounds",
        "1",
        "--workload",
        "tcp-rr",
        "--duration",
        "200ms",
        "--warmup",
        "0s",
        "--out",
        f"{WORK}/runs",
    ],
    "doctor": ["doctor"],
    "profiles": ["profiles"],
}
MOMENTS = {
    "run": (100, 6),
    "slices": (20, 3),
    "offload": (20, 3),
    "calibrate": (20, 2),
    "doctor": (10, 2),
    "profiles": (10, 2),
}  # in full, else
# Into how many tests the moments are split, so that they run at the same time.
PARTS = {"run": 5, "slices": 2, "offload": 2} if FULL else {}
CASES = [
    (name, part, parts)
    for name in COMMANDS
    for parts in (PARTS.get(name, 1),)
    for part in range(parts)
]
LIMIT = 240.0


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path) as machine:
        yield machine


def begun(machine: Machine, name: str) -> subprocess.Popen[str]:
    # Its drafts have other names than those of the command that resumes the run, as usual.
    program = [word.replace("'feed'", "'dead'") for word in PROGRAM]
    assert program != PROGRAM
    return machine.start(["env", ENVIRONMENT, *program, *COMMANDS[name]])


def killed(process: subprocess.Popen[str], chance: random.Random) -> str:
    """Kills the command itself, in half of the cases, or a process below it; what was killed, ''
    when it had ended.
    """
    below = descendants(process.pid)
    if not below:
        return ""
    victim = below[0] if chance.random() < 0.5 else chance.choice(below)
    try:
        name = (
            f"{Path(f'/proc/{victim}/comm').read_text().strip()},"
            f" {'the command' if victim == below[0] else 'below it'}"
        )
        os.kill(victim, signal.SIGKILL)
    except OSError:
        return ""
    return name


def judged(machine: Machine, folder: Path, name: str) -> list[str]:
    """What is wrong with a run directory that a killed command left."""
    if name not in ("run", "slices") or (run := the_run(folder)) is None:
        return []
    kept = acknowledged(run)
    problems = verified(machine, run)
    again = resume(machine, run)
    now = acknowledged(run)  # a sample may fail by itself: windows are short, machines are busy
    failed = any('"status": "ok"' not in line for lines in now.values() for line in lines)
    problems += lost(kept, run) + again.wrong() + verified(machine, run)
    if again.status != (1 if failed else 0) or len(now) < len(RUN[2].split(",")):
        problems.append(f"--resume: exit status {again.status}: {again.said[-800:]}")
    return problems


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("name", "part", "parts"), CASES)
def test_leaves_nothing(machine: Machine, tmp_path: Path, name: str, part: int, parts: int) -> None:
    before = machine.listing()
    start = time.monotonic()
    with begun(machine, name) as process:
        assert process.wait(LIMIT) in (0, 1), (tmp_path / "err").read_text()
    whole = time.monotonic() - start
    assert machine.left(before) == []
    problems = []
    for number in range(part, MOMENTS[name][0 if FULL else 1], parts):
        chance = random.Random(f"{SEED} {name} {number}")
        moment = chance.uniform(0, whole)
        subprocess.run(["rm", "-rf", tmp_path / "runs"], check=True)
        process = begun(machine, name)
        time.sleep(moment)
        victim = killed(process, chance)
        status = process.wait(LIMIT)
        said = (tmp_path / "out").read_text() + (tmp_path / "err").read_text()
        found = machine.left(before)
        if status != -signal.SIGKILL and status != 128 + signal.SIGKILL:
            found += Outcome(status, said).wrong()
        found += judged(machine, tmp_path, name)
        what = f"{name}, {moment:.2f} of {whole:.2f} s, {victim or 'it had ended'}"
        print(f"KILL {number}: {what}: {found or 'ok'}", file=sys.stderr, flush=True)
        problems += [f"{what}: {problem}" for problem in found]
        if found:  # named once: the next moment is compared with what is there now
            before = machine.listing()
    assert not problems, "\n\n".join(problems)


def test_the_listing_names_what_is_left(machine: Machine) -> None:
    """A listing that sees nothing would pass everything."""
    before = machine.listing()
    words = (
        "sleep 60 >/dev/null 2>&1 & touch /tmp/file; mkdir /run/folder; mount -t tmpfs none"
        " /run/folder; ip link add v0 type veth"
    )
    words += (
        "; nft add table inet ours; sysctl -qw net.ipv4.ip_default_ttl=63; touch ~/note; ipset"
        " create ours hash:ip"
    )
    machine.run(["bash", "-c", words])
    found = " ".join(machine.left(before, limit=0.0))
    for part in (
        "sleep",
        "/tmp/file",
        "/run/folder tmpfs",
        "v0",
        "table inet ours",
        "net/ipv4/ip_default_ttl = 63",
        "note",
        "ipset list -name: ours",
    ):
        assert part in found, found
