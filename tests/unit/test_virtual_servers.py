"""Virtual servers as net/netfilter/ipvs/ip_vs_ctl.c prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.listing import virtual_servers
from cnibench.listing.virtual_servers import VirtualServer, parsed

TEXT = """IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr
  -> AC120002:192B      Masq    1      3          7
UDP  0A60000A:0035 rr persistent 10800
TCP  [fd00:0010:0096:0000:0000:0000:0000:0001]:01BB rr
  -> [fd00:0000:0000:0000:0000:0000:0000:0002]:192B      Masq    1      0          0
  -> [fd00:0000:0000:0000:0000:0000:0000:0001]:192B      Masq    1      0          0
FWM  00000001 rr
  -> AC120003:192B      Masq    1      0          0
"""


def test_each_has_its_real_servers() -> None:
    api, dns, six = parsed(TEXT)
    assert api == VirtualServer("tcp", "10.96.0.1", 443, "rr", (("172.18.0.2", 6443, "Masq", 1),))
    assert dns == VirtualServer("udp", "10.96.0.10", 53, "rr persistent 10800")
    assert [target[0] for target in six.targets] == ["fd00::2", "fd00::1"]


def test_lines_leave_out_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_servers, "_FILE", tmp_path / "ip_vs")
    assert virtual_servers.lines() == []  # a kernel without them
    (tmp_path / "ip_vs").write_text(TEXT)
    assert virtual_servers.lines() == [
        "tcp 10.96.0.1:443 rr -> 172.18.0.2:6443 Masq weight 1",
        "tcp [fd00:10:96::1]:443 rr -> [fd00::1]:6443 Masq weight 1 [fd00::2]:6443 Masq weight 1",
        "udp 10.96.0.10:53 rr persistent 10800 ->",
    ]
