"""From real traces to hooks, chains and rules; what does not fit together is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.claims.model import studies
from cnibench.errors import MeasureError
from cnibench.rulepath import legacy, summary, walk
from cnibench.rulepath.trace import Event, Key, parse_ruleset, parse_trace
from cnibench.rulepath.walk import Changed
from cnibench.workloads import rule_path

GOLDEN = Path(__file__).parents[1] / "golden" / "nft"
PROBE = ("inet", "cnibench_path")
BASE: Key = ("ip", "filter", "FORWARD")
HOOK = [
    Event("packet", (*PROBE, "forward")),
    Event("policy", (*PROBE, "forward"), verdict="accept"),
]


def read(name: str) -> tuple[list[Event], dict[Key, tuple[int, ...]]]:
    events = parse_trace((GOLDEN / f"{name}.trace.txt").read_text().splitlines())
    return events, parse_ruleset((GOLDEN / f"{name}.ruleset.json").read_text())


# Flannel's counted by hand in the golden files' text; of Calico's the matched ones.
@pytest.mark.parametrize(
    ("name", "which", "counts"),
    [
        ("flannel-intra", 0, {"hooks": 3, "chains": 15, "rules": 20, "matched": 11}),
        ("flannel-intra", 1, {"hooks": 3, "chains": 6, "rules": 5, "matched": 2}),
        ("calico-inter-b", 0, {"hooks": 3, "chains": 30, "rules": 54, "matched": 32}),
    ],
)
def test_real_traces(name: str, which: int, counts: dict[str, int]) -> None:
    passed = walk.packet(walk.hooks(*read(name), PROBE), which, 2)
    assert [hook.hook for hook in passed] == ["prerouting", "forward", "postrouting"]
    assert walk.totals(passed) == counts


def test_an_established_packet_never_asks_nat() -> None:
    hooks = walk.hooks(*read("flannel-intra"), PROBE)
    tables = [
        {visit.table for hook in walk.packet(hooks, which, 2) for visit in hook.chains}
        for which in (0, 1)
    ]
    assert tables == [{"raw", "mangle", "nat", "filter"}, {"raw", "mangle", "filter"}]


def test_rules_that_changed_meanwhile_are_found_out() -> None:
    events, ruleset = read("flannel-intra")
    chain = ("ip", "filter", "FLANNEL-FWD")
    with pytest.raises(Changed, match="was expected") as raised:
        walk.hooks(events, {**ruleset, chain: ()}, PROBE)
    assert "FORWARD" in raised.value.message
    with pytest.raises(Changed, match="is not among the rules"):
        walk.hooks(events, {key: rules for key, rules in ruleset.items() if key != chain}, PROBE)


def test_a_stray_packet_is_found_out() -> None:
    events, ruleset = read("flannel-intra")
    with pytest.raises(Changed, match="other packets were traced"):
        walk.packet(walk.hooks([*events, *HOOK], ruleset, PROBE), 0, 2)


def test_a_trace_that_is_cut_within_a_chain_is_refused() -> None:
    events, ruleset = read("flannel-intra")
    with pytest.raises(Changed, match="was expected"):
        walk.hooks(events[:-1], ruleset, PROBE)
    with pytest.raises(Changed, match="begins within"):
        walk.hooks(events[1:], ruleset, PROBE)


def ask(events: list[Event], **chains: tuple[int, ...]) -> dict[str, int]:
    ruleset = {("ip", "filter", name): handles for name, handles in chains.items()}
    return walk.totals(walk.hooks([*HOOK, Event("packet", BASE), *events], ruleset, PROBE))


def rule(chain: str, handle: int, verdict: str, target: str = "") -> Event:
    return Event("rule", ("ip", "filter", chain), handle, verdict, target)


POLICY = Event("policy", BASE, verdict="accept")


def test_goto_does_not_come_back_to_its_chain() -> None:
    events = [
        rule("FORWARD", 1, "jump", "A"),
        rule("A", 3, "goto", "B"),
        rule("B", 5, "continue"),
        rule("FORWARD", 2, "accept"),
    ]
    # A's rule 4 is never met: after B the packet goes on behind the jump
    assert ask(events, FORWARD=(1, 2), A=(3, 4), B=(5,)) == {
        "hooks": 1,
        "chains": 3,
        "rules": 4,
        "matched": 4,
    }


def test_return_in_a_base_chain_is_its_policy() -> None:
    events = [rule("FORWARD", 2, "return"), POLICY]
    assert ask(events, FORWARD=(1, 2, 3)) == {"hooks": 1, "chains": 1, "rules": 2, "matched": 1}


def test_an_empty_chain_is_met_too() -> None:
    assert ask([rule("FORWARD", 1, "jump", "A"), POLICY], FORWARD=(1,), A=()) == {
        "hooks": 1,
        "chains": 2,
        "rules": 1,
        "matched": 1,
    }


@given(st.lists(st.booleans(), max_size=30))
def test_what_does_not_match_is_still_compared(matches: list[bool]) -> None:
    handles = tuple(range(1, len(matches) + 1))
    events = [
        rule("FORWARD", handle, "continue")
        for handle, hit in zip(handles, matches, strict=True)
        if hit
    ]
    assert ask([*events, POLICY], FORWARD=handles) == {
        "hooks": 1,
        "chains": 1,
        "rules": len(matches),
        "matched": sum(matches),
    }


def test_a_loop_of_jumps_ends() -> None:
    events = [rule("FORWARD", 1, "jump", "A"), *[rule("A", 2, "jump", "A")] * 100]
    with pytest.raises(Changed):
        ask(events, FORWARD=(1,), A=(2,))


def test_texts_in_comments_are_no_events() -> None:
    line = (
        'trace id 1 ip filter A rule counter comment "# handle 7 (verdict drop)" accept # handle 9'
        " (verdict accept)"
    )
    assert parse_trace(
        [line, "# new generation 3 by process 1 (nft)", "add chain inet p x # handle 1"]
    ) == [rule("A", 9, "accept")]
    assert parse_trace(["trace id 1 ip filter A unknown rule handle 12 (verdict jump B)"]) == [
        rule("A", 12, "jump", "B")
    ]
    with pytest.raises(MeasureError):
        parse_trace(["trace id 1 ip filter A rule without an end"])


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for line in (text, f"trace id 0 ip filter A rule {text}"):
        try:
            parse_trace([line])
        except MeasureError:
            pass
    with pytest.raises(MeasureError):
        parse_ruleset("[" + text)


def test_the_probe_marks_only_the_length_of_its_datagrams() -> None:
    text = rule_path.probe(4)
    assert text.count("meta nftrace set 1") == 2
    assert "meta length 478-618" in text
    assert text.splitlines()[:2] == ["table inet cnibench_path", "delete table inet cnibench_path"]


def test_the_published_counts_stand_beside_ours() -> None:
    figures = summary.published(studies()["qi2021"])
    assert figures["flannel", "inter"]["hooks"] == 10
    common = {
        "label": "x",
        "profile": "flannel",
        "placement": "inter",
        "ip": 4,
        "packet": "first",
        "chains": 2,
        "rules": 3,
        "matched": 1,
    }
    blocks = [{**common, "hooks": 10, "nodes": [1]}, {**common, "hooks": 10, "nodes": [2]}]
    (row,) = summary.rows(blocks, figures)
    assert (row["hooks"], row["published"]["hooks"], row["blocks"], row["agree"]) == (
        10,
        10,
        2,
        False,
    )


LEGACY = """*raw
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:X - [0:0]
:Y - [0:0]
-A OUTPUT -p tcp -j DROP
-A OUTPUT -j X
-A OUTPUT -j MARK --set-xmark 0x3/0xffffffff
-A OUTPUT -g Y
-A OUTPUT -j DROP
-A X -p tcp -j DROP
-A Y -p udp -j RETURN
COMMIT
"""


def test_a_real_log_of_the_older_iptables() -> None:
    """A datagram to lo and the ICMP error that answers it, by the rules above."""
    listing = legacy.parse_save(LEGACY, 4)
    groups = legacy.parse_capture((GOLDEN / "legacy-output.pcap").read_bytes(), listing)
    passed = [walk.Hook(hook) for hook in ("output", "prerouting", "input") * 2]
    legacy.add(passed, groups, listing)
    counts = [
        [(visit.table, visit.chain, visit.evaluated, visit.matched) for visit in hook.chains]
        for hook in passed
    ]
    assert counts[0] == [
        ("raw", "OUTPUT", 0, 0),
        ("filter", "OUTPUT", 4, 3),
        ("filter", "X", 1, 0),
        ("filter", "Y", 1, 1),
    ]
    assert counts[3] == [*counts[0][:3], ("filter", "Y", 1, 0)]
    assert counts[1] == counts[4] == [("raw", "PREROUTING", 0, 0)]
    assert counts[2] == counts[5] == [("filter", "INPUT", 0, 0)]
    with pytest.raises(Changed, match="more often than its hook"):
        legacy.add([walk.Hook("output")], groups, listing)
    with pytest.raises(Changed, match="is not among the rules"):
        legacy.parse_capture((GOLDEN / "legacy-output.pcap").read_bytes(), {})


@given(st.binary(max_size=400))
def test_any_capture_is_read_or_refused(data: bytes) -> None:
    head = (GOLDEN / "legacy-output.pcap").read_bytes()[:24]
    for whole in (data, head + data):
        try:
            legacy.parse_capture(whole, {})
        except MeasureError:
            pass
