"""What is fuzzed: each parser and importer with what the tool really printed, and how its input is
mutated.
"""

from __future__ import annotations

import atexit
import gzip
import json
import lzma
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from cnibench.collectors import _counters, _recording, footprint, lengths
from cnibench.cpp import perfdata, stacks, symbols, taxonomy
from cnibench.errors import CnibenchError, InputError, MeasureError, MissingError, UsageError
from cnibench.importers import writer
from cnibench.importers.batch import Given
from cnibench.model.profile import builtin, read_profile
from cnibench.offload import stack
from cnibench.planning.cells import cells
from cnibench.planning.plan import read_plan
from cnibench.registry import provider, providers
from cnibench.rulepath import legacy, trace, walk
from cnibench.system import ethtool_output
from cnibench.workloads import _ab as ab
from cnibench.workloads import _common, _load, _netperf, tcp_crr
from tests import _import_samples as samples
from tests.fuzz import mutate

GOLDEN = Path(__file__).parents[1] / "golden"
_PARSERS: tuple[type[CnibenchError], ...] = (MeasureError,)
_FILES: tuple[type[CnibenchError], ...] = (InputError, UsageError)


@dataclass(frozen=True)
class Target:
    """``seeds`` are what is mutated by ``change``; ``parse`` may raise ``allowed`` and gives what
    must hold finite numbers only.
    """

    seeds: Callable[[], Sequence[Any]]
    change: Callable[[Any, random.Random], Any]
    parse: Callable[[Any], Any]
    allowed: tuple[type[CnibenchError], ...] = _PARSERS


def _texts(*patterns: str) -> Callable[[], list[str]]:
    return lambda: [
        file.read_text(errors="replace")
        for pattern in patterns
        for file in sorted(GOLDEN.glob(pattern))
    ]


def _either(
    one: Callable[[Any, random.Random], Any], number: int = 2
) -> Callable[[tuple[Any, ...], random.Random], tuple[Any, ...]]:
    """Changes one part of a tuple, now and then another one, too."""

    def change(parts: tuple[Any, ...], at: random.Random) -> tuple[Any, ...]:
        found = list(parts)
        for _ in range(at.choice((1, 1, 2))):
            which = at.randrange(number)
            found[which] = one(found[which], at)
        return tuple(found)

    return change


def _netperf_all(text: str) -> list[Any]:
    """Every test that reads such output, each as far as it comes."""
    found = []
    for workload in providers("workloads").values():
        if isinstance(workload, _netperf.Netperf):
            try:
                wanted = (*_netperf._ALWAYS, *workload.selectors)
                found.append(workload.interpret(_netperf.parse(text, text[-300:], wanted, 1.0)))
            except MeasureError as error:
                found.append(error.message)
    return found


def _iperf3_all(text: str) -> list[Any]:
    found = []
    for name, module in providers("workloads").items():
        if name in ("iperf3-tcp", "iperf3-udp", "tcp-stream-series"):
            try:
                found.append(
                    module.measurements(_sample_context({"client.stdout": text}, module.params({})))
                )
            except MeasureError as error:
                found.append(error.message)
    return found


class _Raw:
    """A raw folder without a disk below it."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def __truediv__(self, name: str) -> Any:
        return SimpleNamespace(
            read_text=lambda **_: self._files.get(name, ""), stat=lambda: SimpleNamespace(st_size=0)
        )


def _sample_context(files: Mapping[str, str], params: Mapping[str, Any]) -> Any:
    return SimpleNamespace(raw=_Raw(files), duration=1.0, cell=SimpleNamespace(params=params))


def _ab(text: str) -> Any:
    report = ab.parse(text, text[-300:])
    ab.check(report, 0, 1, round(report.document))
    return report, report.whole_rate, report.failed


def _walk(parts: tuple[str, str]) -> Any:
    ruleset, events = trace.parse_ruleset(parts[0]), trace.parse_trace(parts[1].splitlines())
    passed = walk.hooks(events, ruleset, ("inet", "cnibench_path"))
    return walk.totals(walk.packet(passed, 1, 2)), walk.document(passed)


_SAVE = """\
*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "a b" -j KUBE-SERVICES
-A OUTPUT -g KUBE-SERVICES
-A KUBE-SERVICES -d 10.0.0.1/32 -p udp -j DNAT --to-destination 10.1.0.2:53
COMMIT
*filter
:OUTPUT ACCEPT [0:0]
-A OUTPUT -m mark --mark 0x1 -j LOG
-A OUTPUT -j RETURN
COMMIT
"""


def _legacy(parts: tuple[str, bytes]) -> Any:
    listing = legacy.parse_save(parts[0], 4)
    groups = legacy.parse_capture(parts[1], listing)
    passed = [walk.Hook(name) for name in ("output", "postrouting")]
    legacy.add(passed, groups, listing)
    return walk.totals(passed)


def _change_legacy(parts: tuple[str, bytes], at: random.Random) -> tuple[str, bytes]:
    save, capture = parts
    if at.random() < 0.5:
        save = mutate.of_text(save, at)
    return (save, capture) if at.random() < 0.4 else (save, mutate.of_bytes(capture, at))


def _rulesets() -> list[str]:
    """Some of the rules of each: the others are of the same kinds."""
    every = [json.loads(text)["nftables"] for text in _texts("nft/*.ruleset.json")()]
    return [json.dumps({"nftables": items[:: max(1, len(items) // 20)]}) for items in every]


def _walks() -> list[tuple[str, str]]:
    """Traces with the chains through which the packet came, and no other ones."""
    found = []
    for text, passed in zip(
        _texts("nft/*.ruleset.json")(), _texts("nft/*.trace.txt")(), strict=True
    ):
        events = trace.parse_trace(passed.splitlines())
        chains = {event.chain for event in events}
        chains |= {(*event.chain[:2], event.target) for event in events}
        items = []
        for item in json.loads(text)["nftables"]:
            of = item.get("chain") or item.get("rule") or {}
            if (of.get("family"), of.get("table"), of.get("name") or of.get("chain")) in chains:
                items.append({**item, "rule": {**of, "expr": []}} if "rule" in item else item)
        found.append((json.dumps({"nftables": items}), passed))
    return found


def _traces() -> list[str]:
    """The beginning and the end of each."""
    every = [text.splitlines(keepends=True) for text in _texts("nft/*.trace.txt")()]
    return ["".join(part) for lines in every for part in (lines[:15], lines[-15:])]


@cache
def _recordings() -> list[bytes]:
    return [
        lzma.decompress((GOLDEN / "perf" / f"{kind}.data.xz").read_bytes())
        for kind in ("pipe", "file")
    ]


@cache
def _kallsyms() -> bytes:
    return lzma.decompress((GOLDEN / "perf" / "kallsyms.xz").read_bytes())


def _short_recordings() -> list[bytes]:
    """Beginnings, so that what is changed is met: all kinds of records stand there, too."""
    return [*(data[:size] for data in _recordings() for size in (4096, 40_000)), *_recordings()]


def _perf(data: bytes) -> Any:
    recording = perfdata.read(data)
    table = symbols.Symbols([(2**63, 2**64 - 4096, "tcp_sendmsg")])
    found = stacks.named(recording, table, 2e9, {1}, taxonomy.load().is_network)
    return recording.samples, found, stacks.unfold(stacks.fold(found))


def _symbols() -> list[bytes]:
    text = _kallsyms()
    return [
        text[:6000],
        text[len(text) // 2 :][:6000].partition(b"\n")[2],
        text[-5000:].partition(b"\n")[2],
    ]


def _look_up(data: bytes) -> Any:
    table = symbols.Kallsyms(data, [(2**63 + 4096, 64, "bpf_prog_x")])
    return [
        table.find(address)
        for address in (0, 2**63 + 4100, 0xFFFFFFFF81000000, 0xFFFFFFFFC0000000, 2**64 - 1)
    ]


def _network(parts: tuple[str, str]) -> Any:
    """/proc/net/snmp and snmp6 at both ends of a window."""
    place = SimpleNamespace(read_text=lambda path: parts[1] if path.endswith("6") else parts[0])
    return [_counters.traffic(place, *how) for how in (("tcp", 4), ("udp", 4), ("udp", 6))]


def _devices(text: str) -> Any:
    return _counters.devices(text), _load.sent(text, "eth0")


_STAT = (
    "812 (a b) c) S 1 812 812 0 -1 4194560 1187 99 0 0 12 34 5 6 20 0 7 0 5123 12345678 900"
    " 18446744073709551615 1 1 0\n"
)
_STATUS = "Name:\ta b\nVmRSS:\t  1234 kB\nRssAnon:\t 1000 kB\nRssShmem:\t 12 kB\nThreads:\t3\n"
_TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:3241 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1 0 100 0 0 10 0
   1: 0100007F:3241 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0 100 0 0 10 0
"""  # noqa: E501
_SOCKSTAT = (
    "sockets: used 9\nTCP: inuse 5 orphan 0 tw 3 alloc 6 mem 1\n",
    "TCP6: inuse 2\n",
    "32768\t60999\n",
)
_TUNNELS = (
    "Tunnel information for eth0:\n  UDP port table 0:\n    Size: 4\n    Types: vxlan\n    Entries"
    " (2):\n      port 4789, vxlan\n      port 8472, vxlan\n"
)
_HASH = (
    "UDP over IPV4 flows use these fields for computing Hash flow key:\nIP SA\nIP DA\nL4 bytes 0 &"
    " 1 [TCP/UDP src port]\n"
)
_STACK = "eth0/device\nbond0/lower_eth0\nbond0/lower_eth1\nbr0/lower_bond0\neth1/device\n"
_CPUINFO = "processor\t: 0\ncpu MHz\t\t: 2600.000\nprocessor\t: 1\ncpu MHz\t\t: 2593.906\n"
_LENGTHS = '{"sent": {"64": 10, "1448": 3}, "received": {"66": 4}}\n'
_RESULTS = "DTS_BW=9412345678\nDTS_RTS=12\nDTS_CLIENT_SYSTEM=1.5\nDTM_BW=\nDUS_BW=900000000\nDUS_LOST=0.5\nIDLE_CLIENT_MEM=1048576\n"  # noqa: E501
_DOCUMENT = (
    '[{"profile": "TCP_STREAM", "duration": 10, "hostNetwork": false, "driver": "netperf",'
    ' "parallelism": 1, "local": false, "throughput": 9876.5, "latency": 12.5, "tputMetric":'
    ' "Mb/s", "ltcyMetric": "usec", "messageSize": 1024, "tcpRetransmits": 3, "clientNodeInfo":'
    ' {"nodeName": "a"}, "serverNodeInfo": {"nodeName": "b"}, "timestamp": "2024-01-02T03:04:05Z",'
    ' "metadata": {"kernel": "6.1.0", "mtu": 1500}}, {"profile": "TCP_RR", "driver": "netperf",'
    ' "throughput": 1234, "latency": 90, "tputMetric": "OP/s", "ltcyMetric": "usec", "messageSize":'
    ' 64, "service": true, "local": true, "burst": 1}]\n'
)
_ROWS = (
    "Driver,Profile,Same node,Host Network,Service,Duration,Parallelism,# of Samples,Message"
    " Size,Burst,Avg Throughput,Throughput Metric,"
    "99%tile Observed Latency,Latency"
    " Metric\nnetperf,TCP_STREAM,false,false,false,10,1,3,1024,0,9876.5,Mb/s,12.5,usec\n"
    "netperf,TCP_RR,true,false,true,10,1,3,64,0,1234,OP/s,90,usec\n"
)


@cache
def _folder() -> Path:
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="cnibench-fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _file(content: str | bytes, name: str) -> Path:
    path = _folder() / name
    text = isinstance(content, str)
    path.write_bytes(content.encode("utf-8", "surrogatepass") if text else content)
    return path


def _imported(form: str, name: str, **said: str) -> Callable[[Any], Any]:
    def parse(content: str | bytes) -> Any:
        given = Given(placement="inter", **said)
        batch = provider("importers", form).read(_file(content, name), given)
        environment = {"testbed": "cluster", "wire": "nic", "wire_offload": ""}
        return [
            writer._samples(cell, block, one, environment, "2026-01-01T00:00:00Z")
            for cell, block, one in writer._placed(batch.results)
        ]

    return parse


def _events() -> list[str]:
    """iperf3's reports as the events of --json-stream."""
    return [
        "".join(
            json.dumps({"event": name, "data": report[name]}) + "\n"
            for name in ("start", "error", "end")
            if name in report
        )
        for report in map(json.loads, _texts("iperf3/*.json")())
    ]


def _packed(content: bytes) -> bytes:
    """As the .tar.gz that knb makes: a change of compressed bytes would be met by zlib alone."""
    return gzip.compress(content, 1)


def _plan(content: str) -> Any:
    return cells(
        read_plan(_file(content, "plan.yaml")),
        providers("workloads"),
        {"flannel": builtin()["flannel"]},
    )


def _yaml(folder: str) -> Callable[[], list[str]]:
    """Without comments and with short texts and lists: what is changed is then something that is
    read.
    """
    root = Path(__file__).parents[2]
    return lambda: [
        yaml.safe_dump(_shortened(yaml.safe_load(file.read_text())), sort_keys=False)
        for file in sorted((root / folder).glob("*.yaml"))
        if file.stat().st_size < 6000
    ][:12]


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value[:2]]
    return value.splitlines()[0][:60] if isinstance(value, str) and value else value


def _folded(text: str) -> Any:
    return stacks.unfold(text)


TARGETS: dict[str, Target] = {
    "netperf": Target(_texts("netperf/*.stdout", "netperf/*.stderr"), mutate.of_text, _netperf_all),
    "iperf3": Target(_texts("iperf3/*.json"), mutate.of_json, _iperf3_all),
    "ab": Target(_texts("ab/*.stdout"), mutate.of_text, _ab),
    "perf-data": Target(_short_recordings, mutate.of_bytes, _perf),
    "kallsyms": Target(_symbols, mutate.of_bytes, _look_up, (MeasureError, MissingError)),
    "folded-stacks": Target(
        lambda: ["cell;[user];do_syscall_64;tcp_sendmsg 3 1000\nkernel;do_idle 1 5\n"],
        mutate.of_text,
        _folded,
        _FILES,
    ),
    "nft-ruleset": Target(_rulesets, mutate.of_json, trace.parse_ruleset),
    "nft-trace": Target(_traces, mutate.of_text, lambda text: trace.parse_trace(text.splitlines())),
    "nft-walk": Target(_walks, _either(mutate.of_text), _walk),
    "iptables-save": Target(
        lambda: [_SAVE], mutate.of_text, lambda text: legacy.parse_save(text, 6)
    ),
    "pcap": Target(
        lambda: [(_SAVE, (GOLDEN / "nft/legacy-output.pcap").read_bytes())], _change_legacy, _legacy
    ),
    "packet-lengths": Target(lambda: [_LENGTHS], mutate.of_json, lengths.parse),
    "snmp": Target(
        lambda: list(zip(_texts("proc/snmp")(), _texts("proc/snmp6")(), strict=True)),
        _either(mutate.of_text),
        _network,
    ),
    "netdev": Target(_texts("proc/netdev"), mutate.of_text, _devices),
    "proc-stat": Target(_texts("proc/stat"), mutate.of_text, _counters.cpu),
    "process": Target(
        lambda: [(_STAT, _STATUS)], _either(mutate.of_text), lambda parts: footprint.look(*parts)
    ),
    "sockets": Target(
        lambda: [_TCP], mutate.of_text, lambda text: _common.sockets(text, 12865, "0A")
    ),
    "sockstat": Target(
        lambda: [_SOCKSTAT], _either(mutate.of_text, 3), lambda parts: tcp_crr.parse_ports(*parts)
    ),
    "cpuinfo": Target(lambda: [_CPUINFO], mutate.of_text, _recording.hertz),
    "ethtool-features": Target(
        _texts("ethtool/*.k.txt"), mutate.of_text, ethtool_output.parse_features
    ),
    "ethtool-driver": Target(
        _texts("ethtool/*.i.txt"), mutate.of_text, ethtool_output.parse_driver
    ),
    "ethtool-tunnels": Target(lambda: [_TUNNELS], mutate.of_text, ethtool_output.parse_ports),
    "ethtool-hash": Target(lambda: [_HASH], mutate.of_text, ethtool_output.parse_hash),
    "device-stack": Target(
        lambda: [_STACK], mutate.of_text, lambda text: stack.parse(text.split()).below("br0")
    ),
    "import-netperf": Target(
        _texts("import/netperf*"), mutate.of_text, _imported("netperf", "netperf.txt"), _FILES
    ),
    "import-iperf3": Target(
        _texts("iperf3/*.json"), mutate.of_json, _imported("iperf3", "iperf3.json"), _FILES
    ),
    "import-netperf-headless": Target(
        lambda: [
            "131072  16384  16384    1.13      565.90   \n",
            "16384  131072 1 1 1.00 4711.39\n",
        ],
        mutate.of_text,
        _imported("netperf", "netperf.txt", workload="tcp-stream", unit="m"),
        _FILES,
    ),
    "import-iperf3-events": Target(
        _events, mutate.of_text, _imported("iperf3", "iperf3.jsonl"), _FILES
    ),
    "import-knb": Target(
        _texts("import/knb*"), mutate.of_text, _imported("knb", "knb.json"), _FILES
    ),
    "import-knb-data": Target(
        lambda: [samples.knb_data(compressed=False)],
        mutate.of_bytes,
        lambda content: _imported("knb", "knb.knbdata")(_packed(content)),
        _FILES,
    ),
    "import-perf-tests": Target(
        lambda: [samples.PERF_TESTS, samples.QPERF],
        mutate.of_text,
        _imported("perf-tests", "netperf.csv"),
        _FILES,
    ),
    "import-tiger-bench": Target(
        lambda: [json.dumps(samples.TIGER_BENCH)],
        mutate.of_json,
        _imported("tiger-bench", "results.json"),
        _FILES,
    ),
    "import-cilium-perf": Target(
        lambda: [json.dumps(samples.CILIUM_JSON), json.dumps(samples.CILIUM_OLD)],
        mutate.of_json,
        _imported("cilium-perf", "cilium.json"),
        _FILES,
    ),
    "import-cilium-perf-tables": Target(
        lambda: [samples.CILIUM_TABLES],
        mutate.of_text,
        _imported("cilium-perf", "cilium.txt"),
        _FILES,
    ),
    "import-traffic-flow-tests": Target(
        lambda: [samples.flows(json.loads(_texts("iperf3/tcp.json")()[0]))],
        mutate.of_json,
        _imported("traffic-flow-tests", "flows.json"),
        _FILES,
    ),
    "import-infrabuilder": Target(
        lambda: [_RESULTS], mutate.of_text, _imported("infrabuilder", "all.results"), _FILES
    ),
    "import-k8s-netperf": Target(
        lambda: [_DOCUMENT], mutate.of_json, _imported("k8s-netperf", "k8s.json"), _FILES
    ),
    "import-k8s-netperf-csv": Target(
        lambda: [_ROWS], mutate.of_text, _imported("k8s-netperf", "result-k8s.csv"), _FILES
    ),
    "profile": Target(
        _yaml("cni-profiles"),
        mutate.of_text,
        lambda text: read_profile(_file(text, "profile.yaml")),
        _FILES,
    ),
    "plan": Target(_yaml("src/cnibench/planning/plans"), mutate.of_text, _plan, _FILES),
}
