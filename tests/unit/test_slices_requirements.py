"""What slices take is tried before anything is deployed: the default falls back to windows, a
request for slices is refused.
"""

from __future__ import annotations

import ctypes
import errno
import json
import platform
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from cnibench.errors import NoSlicesError
from cnibench.run.slices.requirements import require
from tests.unit._call import Outcome, call, call_in_child

SOCKET = {"x86_64": 41, "aarch64": 198}.get(platform.machine(), -1)
NETLINK, SOCK_DIAG = 16, 4
RUN = ["run", "--cni", "flannel,cilium", "--workload", "tcp-rr", "--placement", "inter"]


def without_sock_diag() -> None:
    """Every sock_diag socket is refused with EPROTONOSUPPORT from here on, as by a kernel that was
    built without it (seccomp(2), SECCOMP_SET_MODE_FILTER by prctl).
    """
    load, equal, give = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
    program = [
        (load, 0, 0, 0),  # the system call's number
        (equal, 0, 5, SOCKET),
        (load, 0, 0, 16),  # its first argument
        (equal, 0, 3, NETLINK),
        (load, 0, 0, 32),  # its third one
        (equal, 0, 1, SOCK_DIAG),
        (give, 0, 0, 0x00050000 | errno.EPROTONOSUPPORT),
        (give, 0, 0, 0x7FFF0000),
    ]
    code = b"".join(struct.pack("=HBBI", *line) for line in program)
    held = ctypes.create_string_buffer(code, len(code))
    head = ctypes.create_string_buffer(
        struct.pack("=H6xQ", len(program), ctypes.addressof(held)), 16
    )
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((38, 1, 0, 0, 0), (22, 2, ctypes.byref(head), 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """A fork has what its parent imported, and need not import it again."""
    done = call([*RUN, "--dry-run"])
    assert done.exit_code == 0, done.stderr


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))


def cnibench(limits: Callable[[], None], folder: Path, *more: str) -> Outcome:
    """The limits cannot be taken back: a process of its own has them."""
    return call_in_child(limits, [*RUN, "--dry-run", "--out", str(folder), *more])


LIMITS = [
    pytest.param(
        without_sock_diag,
        "this kernel does not report a connection's counters (Protocol not supported)",
        "use --method windows, or a kernel with CONFIG_INET_DIAG",
        id="no-inet-diag",
        marks=pytest.mark.skipif(SOCKET < 0, reason="the number of socket(2) is not known here"),
    ),
    pytest.param(
        few_files,
        "4 cells need 320 open files, and the limit is 300",
        "raise the limit (ulimit -Hn)",
        id="few-files",
    ),
]


@pytest.mark.parametrize(("limits", "lacks", "remedy"), LIMITS)
def test_the_default_falls_back_to_windows_and_says_so(
    tmp_path: Path, limits: Callable[[], None], lacks: str, remedy: str
) -> None:
    done = cnibench(limits, tmp_path, "--json", "--blocks", "7")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert {cell["method"] for cell in found["cells"]} == {"windows"}
    assert found["notes"][0] == f"measured in windows, not in slices: {lacks}"
    assert found["seconds"] == pytest.approx(4 * 7 * 12, rel=0.2), "windows of the usual length"
    told = cnibench(limits, tmp_path).stdout
    assert f"note: measured in windows, not in slices: {lacks}" in " ".join(told.split())


@pytest.mark.parametrize(("limits", "lacks", "remedy"), LIMITS)
def test_slices_that_were_asked_for_are_refused(
    tmp_path: Path, limits: Callable[[], None], lacks: str, remedy: str
) -> None:
    for asked in ("--method=slices", "--priority=real-time"):
        done = cnibench(limits, tmp_path, asked)
        assert done.exit_code == 3
        assert done.stderr.startswith(f"error: {lacks}\n  remedy: ")
        assert remedy in done.stderr
    assert list(tmp_path.iterdir()) == []
    windows = cnibench(limits, tmp_path, "--method", "windows")
    assert windows.exit_code == 0, windows.stderr


def test_this_machine_has_what_slices_take() -> None:
    require(2)
    with pytest.raises(NoSlicesError, match=r"^100000000 cells have a load generator each"):
        require(100_000_000)
