"""The parser of netperf's output, on what netperf really printed and on anything else."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.errors import MeasureError
from cnibench.model.cell import Reading
from cnibench.registry import provider
from cnibench.workloads import _common, _netperf, tcp_crr

GOLDEN = Path(__file__).parent.parent / "golden" / "netperf"
KEYS = ("THROUGHPUT", "THROUGHPUT_UNITS", "ELAPSED_TIME", "TRANSACTION_RATE", *_netperf.LATENCIES)


def golden(name: str) -> tuple[str, str]:
    return (GOLDEN / f"{name}.stdout").read_text(), _common.read(GOLDEN / f"{name}.stderr")


def readings(workload: str, name: str) -> dict[str, Reading]:
    tested = provider("workloads", workload)
    values = _netperf.parse(*golden(name), (*_netperf._ALWAYS, *tested.selectors), 1.0)
    return {reading.metric: reading for reading in tested.interpret(values).readings}


def line(name: str, key: str) -> float:
    return float(
        next(text for text in golden(name)[0].splitlines() if text.startswith(f"{key}=")).partition(
            "="
        )[2]
    )


@pytest.mark.parametrize("name", ["tcp_stream", "tcp_stream_ipv6"])
def test_stream_throughput_is_bits_per_second_as_received(name: str) -> None:
    found = readings("tcp-stream", name)
    assert found["throughput"].value == pytest.approx(line(name, "REMOTE_RECV_THROUGHPUT") * 1e6)


def test_udp_counts_what_arrived() -> None:
    found = readings("udp-stream", "udp_stream")
    sent, received = line("udp_stream", "LOCAL_SEND_CALLS"), line("udp_stream", "REMOTE_RECV_CALLS")
    assert found["loss"].value == pytest.approx(1 - received / sent)
    # datagrams that arrived, 1024 bytes each, over the time: the throughput, within the rounding of
    # the time
    assert found["throughput"].value == pytest.approx(
        received * 1024 * 8 / line("udp_stream", "ELAPSED_TIME"), rel=0.02
    )


@pytest.mark.parametrize(
    ("workload", "name"), [("tcp-rr", "tcp_rr"), ("tcp-rr", "tcp_rr_ipv6"), ("tcp-crr", "tcp_crr")]
)
def test_latencies_are_seconds(workload: str, name: str) -> None:
    found = readings(workload, name)
    assert found["latency_mean"].value == pytest.approx(line(name, "MEAN_LATENCY") * 1e-6)
    assert found["latency_p50"].value <= found["latency_p90"].value <= found["latency_p99"].value
    # one transaction at a time: the rate is the reciprocal of the mean, but for netperf's own work
    # between two
    assert found["transaction_rate"].value * found["latency_mean"].value == pytest.approx(
        1, abs=0.2
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_server", "no netserver answered"),
        ("server_gone", "netserver went away"),
        ("message_too_long", "larger than this socket takes"),
        ("not_routed", "Network is unreachable"),
        ("killed", "no output"),
    ],
)
def test_failures_have_their_reason(name: str, reason: str) -> None:
    with pytest.raises(MeasureError, match=reason):
        _netperf.parse(*golden(name), KEYS, 1.0)


def test_an_interrupted_test_is_no_result() -> None:
    with pytest.raises(MeasureError, match=r"ended after .* of 5 s"):
        _netperf.parse(*golden("interrupted"), KEYS, 5.0)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-3", "", "1e999", "1,5", "0x10", "..."])
def test_impossible_figures_are_refused(value: str) -> None:
    text = golden("tcp_rr")[0].replace("TRANSACTION_RATE=", f"TRANSACTION_RATE={value}\nOLD=")
    with pytest.raises(MeasureError, match="TRANSACTION_RATE"):
        _netperf.parse(text, "", KEYS, 1.0)


def test_another_unit_is_refused() -> None:
    values = _netperf.parse(
        golden("tcp_stream")[0].replace("10^6bits/s", "KBytes/s"),
        "",
        ("THROUGHPUT", "THROUGHPUT_UNITS"),
        1.0,
    )
    with pytest.raises(MeasureError, match="KBytes/s"):
        _netperf.megabits(values, "THROUGHPUT")


def only_figures_or_measure_error(text: str, errors: str) -> None:
    for name in ("tcp-stream", "udp-stream", "tcp-rr", "tcp-crr"):
        tested = provider("workloads", name)
        try:
            found = tested.interpret(
                _netperf.parse(text, errors, (*_netperf._ALWAYS, *tested.selectors), 1.0)
            )
        except MeasureError:
            continue
        assert all(
            math.isfinite(reading.value) and reading.value >= 0 for reading in found.readings
        )


@given(st.text(), st.text())
def test_any_text(text: str, errors: str) -> None:
    only_figures_or_measure_error(text, errors)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                *KEYS,
                *_netperf._ALWAYS,
                "LOCAL_SEND_SIZE",
                "REMOTE_RECV_THROUGHPUT",
                "LOCAL_TRANSPORT_RETRANS",
                "LOCAL_CONG_CONTROL",
                "LOCAL_SEND_THROUGHPUT",
                "LOCAL_SEND_CALLS",
                "REMOTE_RECV_CALLS",
            ]
        ),
        st.one_of(
            st.floats().map(str), st.text(max_size=8), st.just("10^6bits/s"), st.integers().map(str)
        ),
        min_size=15,
    )
)
def test_any_values(values: dict[str, str]) -> None:
    only_figures_or_measure_error(
        "\n".join(f"{name}={value}" for name, value in values.items()), ""
    )


SOCKSTAT = "sockets: used 1\nTCP: inuse 3 orphan 0 tw 40 alloc 2 mem 0\nUDP: inuse 0 mem 0\n"


def test_free_ports() -> None:
    ports = tcp_crr.parse_ports(SOCKSTAT, "TCP6: inuse 2\nUDP6: inuse 0\n", "32768\t60999\n")
    assert (ports.range, ports.used, ports.time_wait, ports.free) == (28232, 5, 40, 28187)
    assert tcp_crr.parse_ports(SOCKSTAT, "", "50000 50010").free == 0


@given(
    st.one_of(st.text(), st.just(SOCKSTAT)),
    st.text(),
    st.one_of(st.text(), st.just("1 2"), st.just("2 1")),
)
def test_free_ports_of_any_text(stat: str, six: str, ends: str) -> None:
    try:
        assert tcp_crr.parse_ports(stat, six, ends).free >= 0
    except MeasureError:
        pass
