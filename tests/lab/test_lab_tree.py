"""The tree: what is in it, what comes out of it, and that nothing of it stays on the machine,
whatever kills it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

_LIMIT = 60.0
_PRELUDE = """
import os, signal, subprocess, sys, time
from pathlib import Path
from cnibench.clusters.lab.namespaces import tree
"""


def start(code: str) -> subprocess.Popen[str]:
    """A program of its own that calls ``tree.carry``, ``code`` being the body of its main."""
    text = (
        _PRELUDE
        + "def main():\n"
        + textwrap.indent(textwrap.dedent(code), "    ")
        + "\nsys.exit(tree.carry(main))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=_LIMIT)
    finally:
        process.kill()
    return process.returncode, out, err


def outside(code: str) -> subprocess.CompletedProcess[str]:
    """A program of its own that is in no tree yet."""
    environment = {key: value for key, value in os.environ.items() if key != "CNIBENCH_TREE"}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        env=environment,
        check=False,
    )


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _LIMIT
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def machine() -> dict[str, list[str]]:
    """What of this (outer) machine a run could have changed."""

    def said(*argv: str) -> list[str]:
        return subprocess.run(
            argv, capture_output=True, text=True, check=True, timeout=20
        ).stdout.splitlines()

    return {
        "links": said("ip", "-o", "link"),
        "namespaces": said("ip", "netns"),
        "rules": [line for line in said("iptables-save") if not line.startswith("#")],
        "mounts": Path("/proc/thread-self/mountinfo").read_text().splitlines(),
        "run": sorted(os.listdir("/run")),
    }


def with_argument(word: str) -> list[int]:
    """The processes of this machine that have ``word`` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_main_is_alone_in_its_tree_and_its_status_comes_out() -> None:
    code, out, err = finish(
        start("""
            print(os.getpid(), sorted(os.listdir("/sys/class/net")), sorted(os.listdir("/run/cnibench")), tree.kind())
            print(len([name for name in os.listdir("/proc") if name.isdigit()]), Path("/proc/net/dev").read_text().count(":"))
            return 7
        """)  # noqa: E501
    )
    assert (code, err) == (7, "")
    assert out == "2 ['lo'] ['bpf', 'netns', 'tmp'] root\n2 1\n"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("sys.exit(3)", 3),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("raise ValueError('x')", 1),
    ],
)
def test_every_way_to_end_has_its_status(code: str, status: int) -> None:
    assert finish(start(code))[0] == status


def test_orphans_are_reaped() -> None:
    code, out, _ = finish(
        start("""
            subprocess.run(["sh", "-c", "sleep 0.05 & exec true"], check=True)
            deadline = time.monotonic() + 10
            while len([name for name in os.listdir("/proc") if name.isdigit()]) > 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            print(len([name for name in os.listdir("/proc") if name.isdigit()]))
            return 0
        """)  # noqa: E501
    )
    assert (code, out) == (0, "2\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_main_once(number: signal.Signals) -> None:
    process = start("""
        print("ready", flush=True)
        count = 0
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            count += 1
        try:
            time.sleep(0.2)
        except KeyboardInterrupt:
            count += 1
        return 130 if count == 1 else 99
    """)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert finish(process)[0] == 130


@pytest.mark.parametrize("victim", ["outer", "middle", "init", "main"])
def test_kill_9_leaves_nothing(victim: str) -> None:
    before = machine()
    mark = f"cnibench-test-{os.getpid()}-{victim}"
    process = start(f"""
        from cnibench.testbed.cluster import Options
        from cnibench.clusters.lab.deployment import LabDeployment
        from cnibench.model.profile import builtin
        deployment = LabDeployment("x", builtin()["veth-baseline"], Options(), 1)
        deployment.a.spawn([sys.executable, "-c", "import time; time.sleep(600)", "{mark}"])
        subprocess.Popen(["setsid", sys.executable, "-c", "import time; time.sleep(600)", "{mark}"])  # one that escapes our process groups
        import tempfile
        Path(tempfile.mkdtemp(prefix="{mark}-"), "output").write_text("of a client")
        print("ready", flush=True)
        time.sleep(600)
        return 0
    """)  # noqa: E501
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    until(
        lambda: (
            len(
                [
                    pid
                    for pid in with_argument(mark)
                    if pid != process.pid and "sleep(600)" in text(pid)
                ]
            )
            >= 2
        ),
        "the programs run",
    )
    chain = [process.pid]
    for _ in range(3):
        chain.append(
            int(Path(f"/proc/{chain[-1]}/task/{chain[-1]}/children").read_text().split()[0])
        )
    os.kill(chain[("outer", "middle", "init", "main").index(victim)], signal.SIGKILL)
    finish(process)
    assert process.returncode in (137, -9)
    until(lambda: not with_argument(mark), "all processes are gone")
    assert machine() == before
    assert not list(Path(tempfile.gettempdir()).glob(f"{mark}-*"))


def text(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_normal_end_leaves_nothing() -> None:
    before = machine()
    code, _, err = finish(
        start("""
            from cnibench.testbed.cluster import Options
            from cnibench.clusters.lab.cluster import LabCluster
            from cnibench.model.profile import builtin
            with LabCluster(Options(ip=(4, 6))) as cluster:
                for name in ("host", "veth-baseline"):
                    assert all(item.passed for item in cluster.install(name, builtin()[name]).attest())
            return 0
        """)  # noqa: E501
    )
    assert (code, err) == (0, "")
    assert machine() == before


def test_an_unprivileged_user_has_a_tree_too() -> None:
    """In a user namespace; what is then missing is said. The rehearsal as root loads all modules:
    ours may be where others cannot read.
    """
    code = """
        import ctypes
        from cnibench.testbed.cluster import Options
        from cnibench.clusters.lab.cluster import LabCluster
        from cnibench.model.profile import builtin

        def lab():
            with LabCluster(Options()) as cluster:
                found = cluster.install("veth", builtin()["veth-baseline"]).attest()
                deployment = cluster.install("again", builtin()["veth-baseline"])
                deployment.a.ns.run(["iptables-restore"], input="*filter\\n-A FORWARD -j ACCEPT\\nCOMMIT\\n")
                return [item for item in found if not item.passed]

        def main():
            print(lab(), tree.kind(), "perf" in tree.lacks())
            return 0

        with tree.entered():
            lab()
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as any program of that user is
        os.chdir("/")
        sys.exit(tree.carry(main))
    """  # noqa: E501
    done = outside(_PRELUDE + textwrap.dedent(code))
    assert (done.returncode, done.stdout) == (0, "[] user True\n"), done.stderr


def test_the_lab_outside_a_tree_is_refused() -> None:
    text = (
        "from cnibench.testbed.cluster import Options\nfrom cnibench.clusters.lab.cluster import"
        " LabCluster\nfrom cnibench.model.profile import builtin\n"
    )
    text += "LabCluster(Options()).install('x', builtin()['host'])"
    done = outside(text)
    assert done.returncode == 1
    assert "namespaces of its own" in done.stderr


def test_a_tree_that_the_kernel_refuses_is_an_error_with_a_remedy() -> None:
    """A kernel may refuse any step: a socket for lo here."""
    process = start("""
        raise AssertionError("main was called")
    """)
    assert finish(process)[0] == 1  # main's own errors stay what they are
    code = """
        import errno
        from cnibench.errors import MissingError
        def refused():
            raise OSError(errno.EPROTONOSUPPORT, os.strerror(errno.EPROTONOSUPPORT))
        tree.loopback_up = refused
        try:
            tree.carry(lambda: 0)
        except MissingError as error:
            print(error.message, "|", error.remedy)
    """
    done = subprocess.run(
        [sys.executable, "-c", _PRELUDE + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
    )
    assert "Protocol not supported | 'cnibench doctor'" in done.stdout, done.stderr
    assert "Traceback" not in done.stderr
