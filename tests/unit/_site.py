"""Runs with everything that a site shows, and its pages as a browser parses them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec

from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Unsupported, coordinates
from tests.unit._runs import synthetic

HOSTILE = (
    "</script><script>alert(1)</script>\x1b[31m\x00\u202eevil\u2028<img src=x onerror=alert(2)>{{"
    " 191 * 7919 }}😀'\"&"
)
TRUTH = {"flannel": 1.0, "calico-wp-xsub": 1.2, "cilium": 1.0}
FIDELITY = {"veth-baseline": "baseline"}
# The shapes that workloads/pods.py and workloads/rule_path.py write.
POD = {
    "number": 0,
    "pod": "p",
    "ready": 0.02,
    "network": 0.01,
    "steps": [{"step": "link", "seconds": 0.01}, {"step": "address", "seconds": 0.002}],
}
CHAIN = {"family": "ip", "table": "nat", "chain": "KUBE-SERVICES", "evaluated": 21, "matched": 2}
PATH = [{"hook": "prerouting", "chains": [CHAIN]}, {"hook": "postrouting", "chains": []}]
RULES = {
    "packet": "first",
    "hooks": 2,
    "chains": 1,
    "rules": 21,
    "matched": 2,
    "nodes": [{"node": "a", "hooks": 2, "chains": 1, "rules": 21, "matched": 2, "path": PATH}],
}
RECORDS: Mapping[str, dict[str, Any]] = {  # one of each kind that a site shows
    "cdf": {
        "metric": "latency",
        "unit": "s",
        "shares": [0.0, 0.5, 0.99, 1.0],
        "values": [1e-5, 2e-5, 3e-4, 1e-3],
    },
    "series": {
        "metric": "throughput",
        "unit": "bit/s",
        "times": [0.1, 0.2, 0.3],
        "values": [1e9, 2e9, 3e9],
    },
    "pods": POD,
    "rulepath": RULES,
}
NIC = {
    "node": "this machine",
    "name": "eth9",
    "driver": "mlx5_core",
    "version": "",
    "firmware": "14.2",
    "hardware": True,
    "source": "netlink",
    "problem": "",
    "ports": None,
    "queues": 8,
    "udp_hash": "sdfn",
    "underlay": True,
    "virtual": "",
}
TUNNEL = {
    "node": "this machine",
    "nic": "eth9",
    "outcome": "offloaded",
    "reason": "it is on",
    "command": "",
}
OFFLOAD = {
    "nics": [NIC],
    "other": [
        {"node": "this machine", "nic": "eth9", "checksum": "at any offset", "scaling": "8 queues"}
    ],
    "tunnels": [
        {**TUNNEL, "tunnel": "vxlan"},
        {**TUNNEL, "tunnel": "ipip", "outcome": "fixed-off"},
    ],
    "vxlan_ports": [],
    "asymmetries": [],
    "notes": ["one node was asked"],
}


class Page(HTMLParser):
    """The elements, links and text of a page, as a browser would take them apart."""

    def __init__(self, file: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self._in = ""
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in = tag

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        (self.scripts if self._in == "script" else self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def add_records(reader: RunReader, name: str, record: dict[str, Any]) -> None:
    """The same record for every cell of the run, in each block."""
    plan = reader.plan
    lines = [
        {**coordinates(cell, block), "schema": 1, **record}
        for cell in plan.cells
        for block in range(plan.blocks)
        if cell.window == "speed"
    ]
    (reader.path / f"{name}.jsonl").write_bytes(
        b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    )


def add_site_records(run: RunReader) -> None:
    """RECORDS, for every cell."""
    for name, record in RECORDS.items():
        add_records(run, name, record)


def check_links(site: Path, pages: Sequence[str]) -> None:
    """Every link leads to a file of the site; nothing outside is named."""
    for name in pages:
        page = Page(site / name)
        ids = {attributes.get("id") for _, attributes in page.tags}
        for tag, attributes in page.tags:
            for key in ("href", "src"):
                link = attributes.get(key)
                if link is None or link == "data:,":
                    continue
                file, _, anchor = link.partition("#")
                assert not re.match(r"[a-z]+:|//", link), (name, tag, link)
                assert (site / file).exists(), (name, link)
                assert not anchor or file or anchor in ids, (name, link)
        unique_ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(unique_ids) == len(set(unique_ids)), name


def runs_of_a_site(folder: Path, truth: Mapping[str, float], **more: Any) -> list[RunReader]:
    """Two runs with everything that a site shows, one failed sample, and a profile that this
    machine lacks something for.
    """
    lacking = Unsupported(
        label="calico-wp-ipip",
        profile="calico-wp-ipip",
        lacks="CONFIG_NET_IPIP",
        remedy="use --kernel vm",
    )
    runs = []
    for number in (1, 2):
        run = synthetic(
            folder,
            truth,
            seed=number,
            name=f"run{number}",
            unsupported=[lacking],
            fidelity=FIDELITY,
            fail=[("flannel", 3)],
            **more,
        )
        add_site_records(run)
        runs.append(run)
    return runs
