"""Virtual servers out of what a kernel answered (tests/golden/ipvs)."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from cnibench.errors import ClusterError
from cnibench.listing import virtual_servers
from cnibench.listing.dumps import GENERIC
from cnibench.listing.virtual_servers import VirtualServer

RECORDED = json.loads(
    (Path(__file__).parents[1] / "golden" / "ipvs" / "netlink.json").read_text(encoding="utf-8")
)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the kernel that gave the answers; another request than recorded is an error."""
    given = {one["request"]: one["answers"] for one in RECORDED["requests"]}

    def dump(protocol: int, kind: int, body: bytes) -> list[tuple[int, bytes]]:
        assert (protocol, kind) == (GENERIC, RECORDED["family"])
        return [(kind, bytes.fromhex(answer)) for answer in given[body.hex()]]

    monkeypatch.setattr(virtual_servers, "dump", dump)
    monkeypatch.setattr(virtual_servers, "family", {"IPVS": RECORDED["family"]}.get)
    file = tmp_path / "ip_vs"
    file.write_text(RECORDED["proc"])
    monkeypatch.setattr(virtual_servers, "_FILE", file)
    return file


@pytest.mark.usefixtures("kernel")
def test_each_has_its_real_servers() -> None:
    api = VirtualServer("tcp", "10.96.0.1", 443, "rr", (("172.18.0.2", 6443, "Masq", 1),))
    dns = VirtualServer("udp", "10.96.0.10", 53, "rr persistent 10800")
    ends = (("fd00::1", 6443, "Masq", 1), ("fd00::2", 6443, "Masq", 1))
    six = VirtualServer("tcp", "fd00:10:96::1", 443, "rr", ends)
    assert sorted(virtual_servers.virtual_servers()) == [api, six, dns]
    bare = virtual_servers.virtual_servers(targets=False)
    assert sorted(bare) == [one._replace(targets=()) for one in (api, six, dns)]


def test_lines_of_a_kernel_with_and_without_them(kernel: Path) -> None:
    assert virtual_servers.lines() == [
        "tcp 10.96.0.1:443 rr -> 172.18.0.2:6443 Masq weight 1",
        "tcp [fd00:10:96::1]:443 rr -> [fd00::1]:6443 Masq weight 1 [fd00::2]:6443 Masq weight 1",
        "udp 10.96.0.10:53 rr persistent 10800 ->",
    ]
    kernel.write_text("".join(RECORDED["proc"].splitlines(keepends=True)[:3]))
    assert virtual_servers.lines() == []  # nothing but the heading
    kernel.unlink()
    assert virtual_servers.lines() == []


@pytest.mark.usefixtures("kernel")
def test_a_node_answers_with_addresses_or_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def denied(*args: object) -> None:
        raise ClusterError("netlink dump 0x22: Operation not permitted")

    monkeypatch.setattr("sys.stdin", io.StringIO('{"number": 7}\n'))
    virtual_servers.main()
    monkeypatch.setattr("sys.stdin", io.StringIO('{"number": 8}\n'))
    monkeypatch.setattr(virtual_servers, "dump", denied)
    virtual_servers.main()
    told, failed = map(json.loads, capsys.readouterr().out.splitlines())
    assert told == {"addresses": ["10.96.0.1", "10.96.0.10", "fd00:10:96::1"], "number": 7}
    assert (failed["number"], "not permitted" in failed["message"]) == (8, True)
