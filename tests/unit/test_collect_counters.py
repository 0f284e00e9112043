"""Counters of the kernel: the real files of Linux 6.18, and what is said when a counter falls."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnibench.collectors import _counters, _recording, cpu, lengths, perf
from cnibench.errors import CnibenchError, MeasureError
from cnibench.registry import providers
from cnibench.run.collector import Collector
from cnibench.run.sample_context import Measurements

GOLDEN = Path(__file__).parent.parent / "golden" / "proc"
OURS = {"packets", "retransmits", "cpu", "sizes", "lengths", "perf"}


def test_the_collectors_are_found_and_only_sampling_ones_stay_out_of_speed_windows() -> None:
    found = providers("collectors")
    assert found.keys() >= OURS
    assert all(isinstance(found[name], Collector) and found[name].title for name in OURS)
    assert {name for name in OURS if "speed" not in found[name].windows} == {"perf", "lengths"}
    # The packet sockets of lengths are closed before perf begins: collectors are entered in this
    # order.
    order = list(found)
    assert order.index("lengths") < order.index("perf")


def test_real_files_of_proc() -> None:
    four = _counters.snmp((GOLDEN / "snmp").read_text())
    assert four.keys() >= {
        "Tcp.OutSegs",
        "Tcp.InSegs",
        "Tcp.RetransSegs",
        "Udp.OutDatagrams",
        "Udp.InDatagrams",
        "Ip.FragCreates",
    }
    assert four["Tcp.MaxConn"] == -1
    assert _counters.snmp6((GOLDEN / "snmp6").read_text()).keys() >= {
        "Udp6OutDatagrams",
        "Udp6InDatagrams",
    }
    assert _counters.devices((GOLDEN / "netdev").read_text())["lo"]["tx_packets"] == 2
    assert _counters.devices((GOLDEN / "netdev").read_text())["lo"]["rx_bytes"] == 168
    assert _counters.cpu((GOLDEN / "stat").read_text()).keys() >= {
        "user",
        "nice",
        "system",
        "irq",
        "softirq",
        "steal",
    }


class _Machine:
    """A node whose counters were written down: how long interrupts take cannot be ordered."""

    name = "a"

    def __init__(self, *stat: str) -> None:
        self._stat = iter(stat)

    def read_text(self, path: str) -> str:
        return "boot-1\n" if path.endswith("boot_id") else next(self._stat)


def test_cpu_time_counts_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    node = _Machine("cpu 0 0 0 0 0 0 0 0 0 0\n", "cpu 100 20 40 5000 60 8 16 9 3 1\n")
    times = iter([10**9, 3 * 10**9])
    monkeypatch.setattr(_counters, "clock", lambda: next(times))
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_CLK_TCK": 100}[name])
    context: Any = SimpleNamespace(deployment=SimpleNamespace(nodes=lambda: (node,)))
    into = Measurements()
    with cpu.PROVIDER.observe(context, into):
        pass
    # ticks / 100 per s / 2 s
    assert {one.metric: one.value for one in into.readings} == {
        "cpu_user": 0.6,
        "cpu_system": 0.24,
        "cpu_softirq": 0.08,
    }


def test_a_counter_that_falls_or_is_missing_is_a_failed_measurement() -> None:
    assert _counters.grown({"a": 3}, {"a": 10}, "a", "pod") == 7
    with pytest.raises(MeasureError, match="fell from 4294967295 to 12"):
        _counters.grown({"a": 2**32 - 1}, {"a": 12}, "a", "pod")
    with pytest.raises(MeasureError, match="pod has no counter b"):
        _counters.grown({"a": 3}, {"a": 10}, "b", "pod")
    with pytest.raises(MeasureError):
        _counters.snmp("Tcp: a b\nTcp: 1\n")
    with pytest.raises(MeasureError):
        _counters.cpu("intr 1 2\n")
    with pytest.raises(MeasureError, match="empty"):
        _counters.seconds(5, 5)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.integers(1, 70_000).map(str), st.integers(1, 1000), min_size=1))
def test_histograms_keep_every_packet_in_the_least_power_of_two(counts: dict[str, int]) -> None:
    found = lengths.histogram(counts)
    assert sum(found.values()) == sum(counts.values())
    for bound, number in found.items():
        low = int(bound) // 2
        assert number == sum(
            count
            for length, count in counts.items()
            if low < int(length) <= int(bound) or int(length) == int(bound) == 1
        )


def test_the_sampler_of_lengths_is_parsed_or_refused() -> None:
    assert lengths.parse('{"sent": {"66": 2, "65226": 5}, "received": {}}') == [
        {"direction": "sent", "packets": 7, "histogram": {"128": 2, "65536": 5}, "largest": 65226}
    ]
    for text in ("", "[]", "null", '{"sent": 3}', '{"sent": {"x": 1}}'):
        with pytest.raises(CnibenchError):
            lengths.parse(text)


def test_the_frequency_is_the_median_of_the_processors() -> None:
    text = "cpu MHz\t\t: 2596.134\nmodel name: x\ncpu MHz : 2596.134\ncpu MHz : 1200.0\n"
    assert _recording.hertz(text) == 2596.134e6
    with pytest.raises(MeasureError, match="no PMU"):
        _recording.hertz("processor : 0\nBogoMIPS : 100.00\n")


def test_a_kernel_that_hides_itself_is_found_before_anything_starts(tmp_path: Path) -> None:
    symbols, paranoid = tmp_path / "kallsyms", tmp_path / "paranoid"
    symbols.write_text("0000000000000000 A fixed_percpu_data\nffffffff81000000 T _text\n")
    paranoid.write_text("-1\n")
    assert perf.hidden(symbols, paranoid) == ""
    symbols.write_text("0000000000000000 A fixed_percpu_data\n0000000000000000 T _text\n")
    assert "kptr_restrict" in perf.hidden(symbols, paranoid)
    symbols.write_text("")
    assert perf.hidden(symbols, paranoid)
    assert perf.hidden(tmp_path / "none", paranoid)
