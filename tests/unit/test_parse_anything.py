"""What fuzzing found (tests/fuzz): each input ended a parser with another exception than
MeasureError, or gave a figure that is none.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.collectors import _counters, _recording, footprint, lengths
from cnibench.cpp import stacks, symbols
from cnibench.errors import InputError, MeasureError
from cnibench.rulepath import legacy, trace
from cnibench.system import ethtool_output
from cnibench.workloads import _common, _iperf3, policy_effect

KALLSYMS = b"ffffffff8201e8b0 t tcp_data_queue\nffffffff8201f740 T tcp_rbtree_insert\n"
STAT = "812 (a) S 1 812 812 0 -1 4194560 1187 99 0 0 12 34 5 6 20 0 7 0 5123 12345678 900 0 1 1 0\n"
STATUS = "RssAnon:\t 1000 kB\nRssShmem:\t 12 kB\n"

IPERF3 = json.loads(
    (Path(__file__).parents[1] / "golden/iperf3/tcp_bidirectional.json").read_text()
)


def huge(*path: str) -> str:
    """A report of iperf3 with a number that is finite, and whose sum or product with another is
    not.
    """
    data = copy.deepcopy(IPERF3)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = 1e308
    return json.dumps(data)


REFUSED: list[tuple[Callable[[Any], Any], Any]] = [
    (_counters.snmp, "Tcp: OutSegs\nTcp: 1x\n"),
    (_counters.snmp, "Tcp: OutSegs\nTcp: ٣\n"),
    (_counters.snmp6, "Udp6OutDatagrams 1 2\n"),
    (_counters.snmp6, "Udp6OutDatagrams\n"),
    (_counters.devices, "\n\neth0: 1 2 3\ufffd\n"),
    (_counters.devices, f"\n\neth0: {'1' * 5000}\n"),
    (_counters.cpu, "cpu 1 2 x\n"),
    (_recording.hertz, "cpu MHz\t: 2593.9G6\n"),
    (_recording.hertz, "cpu MHz\t: inf\n"),
    (lengths.parse, '{"sent": {"64": NaN}}'),
    (lengths.parse, '{"sent": {"64": -1}}'),
    (lengths.parse, f'{{"sent": {{"{"1" * 5000}": 1}}}}'),
    (lengths.parse, "[" * 100_000),
    (lambda text: footprint.look("", text), STATUS),
    (lambda text: footprint.look(text, "RssAnon: 1 kB\n"), STAT),
    (lambda text: footprint.look(text.replace("34", "-"), STATUS), STAT),
    (
        lambda text: symbols.Kallsyms(text).name(0xFFFFFFFF8201F800),
        KALLSYMS.replace(b"8201f740", b"8201f7g0"),
    ),
    (lambda text: legacy.parse_save(text, 4), "*nat\n:\n"),
    (lambda text: legacy.parse_save(text, 4), "*nat\n-A \n"),
    (_iperf3.parse, huge("end", "sum_received", "bits_per_second")),
    (_iperf3.parse, huge("end", "sum_sent", "retransmits")),
    (lambda text: _common.figure(text, "x"), "1e308"),
    (trace.parse_ruleset, "[" * 100_000),
    (trace.parse_ruleset, '{"nftables": [{"chain": {"family": "ip", "table": NaN, "name": "b"}}]}'),
    (
        lambda text: trace.parse_trace([text]),
        f"trace id 1 ip a b rule x # handle {'1' * 5000} (verdict accept)",
    ),
    (
        trace.parse_ruleset,
        (
            '{"nftables": [{"rule": {"family": "ip", "table": "a", "chain": "b", "handle":'
            " Infinity}}]}"
        ),
    ),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_is_refused(number: int) -> None:
    parse, text = REFUSED[number]
    with pytest.raises(MeasureError) as error:
        parse(text)
    assert error.value.message


def test_a_missing_counter_is_named() -> None:
    class Place:
        def read_text(self, path: str) -> str:
            return "Tcp: OutSegs InSegs\nTcp: 1 2\n"

    with pytest.raises(MeasureError, match=r"Tcp\.RetransSegs"):
        _counters.traffic(Place(), "tcp", 4)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ip", "text"),
    [(6, "\n"), (4, "Udp: RcvbufErrors\nUdp:\n"), (4, ""), (6, "Udp6RcvbufErrors\n")],
)
def test_a_counter_of_datagrams_that_is_cut_off(ip: int, text: str) -> None:
    pod = SimpleNamespace(name="a", read_text=lambda path: text)
    with pytest.raises(MeasureError, match="has no counter"):
        policy_effect._udp(pod, ip, "RcvbufErrors")  # type: ignore[arg-type]


def test_a_port_that_is_none_is_passed_over() -> None:
    assert ethtool_output.parse_ports(f"  port {'1' * 5000}, vxlan\n  port 4789, vxlan\n") == (
        ("vxlan", 4789),
    )


@pytest.mark.parametrize("cycles", ["inf", "nan", "-1", "1e999"])
def test_stacks_of_no_number_of_cycles(cycles: str) -> None:
    with pytest.raises(InputError):
        stacks.unfold(f"cell;[user];tcp_sendmsg 3 {cycles}\n")
