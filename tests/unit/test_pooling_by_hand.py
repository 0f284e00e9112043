"""What runs must agree on to be pooled or compared, from given facts, labels and places."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.analysis.comparability import (
    Circumstances,
    between,
    circumstances,
    circumstances_of,
    differences,
    environments,
)
from cnibench.analysis.comparison.contexts import Context, Member
from cnibench.analysis.gate.failure_rates import Tally
from cnibench.errors import UsageError
from cnibench.model import context
from cnibench.model.coordinates import UNREAD
from tests.unit.test_context_rules import PLACE


def _line(label: str = "x", fidelity: str = "baseline", window: str = "speed", **more: Any) -> Any:
    own = {"label": label, "fidelity": fidelity, "window": window, "proxy": ""}
    return SimpleNamespace(**{**PLACE, **own, **more})


def _reader(name: str = "r", settings: Any = None, **more: Any) -> Any:
    plan = {} if settings is None else {"settings": settings}
    profiles = more.pop("profiles", {"x": {"a": 1, "b": 2}})
    version = more.pop("tool_version", "1")
    installed = more.pop("installed", {})
    return SimpleNamespace(
        id=name,
        environment={"kernel": "6.1", **more},
        installed=installed,
        plan=SimpleNamespace(plan=plan, tool_version=version, profiles=profiles),
    )


def _of(*lines: Any, label: str = "", **reader: Any) -> Circumstances:
    return circumstances(_reader(**reader), [(line, "{}") for line in lines], label)


def test_the_circumstances_of_a_run() -> None:
    found = circumstances(_reader(cpus=2), [(_line(), '{"size":1}')])
    assert found.facts == {"kernel": "6.1", "cpus": 2, "tool_version": "1"}
    assert found.settings == ""
    assert found.labels["x"]["settings"] == ""
    assert set(found.labels["x"]) == {"profile", "settings"}
    ((key, where),) = found.places.items()
    assert where == {**PLACE, "params": '{"size":1}'}
    assert key == f"x speed {context.key(where, context.IDENTITY)}"
    model = _of(_line(fidelity="model"), _line("y", "cni"))
    assert (model.labels["x"]["fidelity"], model.labels["y"]) == ("model", {"fidelity": "cni"})


def test_what_was_installed_is_that_of_the_label() -> None:
    both = {"x": {"chart a": "1", "image b": "2"}, "z": {"chart a": "9"}}
    found = _of(installed=both)
    assert found.labels["x"]["installed"] == both["x"]
    assert set(found.labels) == {"x"}
    assert differences(found, _of(installed={"x": {"chart a": "1", "image c": "3"}})) == []
    assert differences(found, _of()) == [], "what an earlier version did not record"
    assert differences(found, _of(installed={"x": {"image b": "4"}})) == [
        "installed of x, image b: 2 against 4"
    ]


def test_profiles_are_compared_by_their_content() -> None:
    hashes = [
        _of(profiles={"x": profile}).labels["x"]["profile"]
        for profile in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 3})
    ]
    assert hashes[0] == hashes[1] != hashes[2]
    assert len(hashes[0]) == 12


@pytest.mark.parametrize(
    ("settings", "every", "x", "y"),
    [
        (None, "", "", ""),
        ("odd", "", "", ""),
        ({"": {"b": 1, "a": 2}}, '{"a":2,"b":1}', '{"a":2,"b":1}', '{"a":2,"b":1}'),
        ({"x": {"a": 1}}, "", '{"a":1}', ""),
        ({"": {"a": 1}, "x": {"a": 2, "c": 3}}, '{"a":1}', '{"a":2,"c":3}', '{"a":1}'),
        ({"": "odd", "x": {"a": 1}}, "", '{"a":1}', ""),
    ],
)
def test_settings_are_those_of_all_labels_and_of_each(
    settings: Any, every: str, x: str, y: str
) -> None:
    found = _of(settings=settings, profiles={"x": {}, "y": {}})
    assert found.settings == every
    assert (found.labels["x"]["settings"], found.labels["y"]["settings"]) == (x, y)


def test_the_circumstances_of_one_label() -> None:
    """Its name is no part of its places, so that labels of two runs can be compared."""
    lines = [_line("x"), _line("y", "cni", mtu=9000)]
    ours = _of(*lines, label="x", profiles={"x": {}, "y": {}})
    assert set(ours.labels) == {"x"}
    ((key, where),) = ours.places.items()
    assert where["mtu"] == 1500
    assert key == f" speed {context.key(where, context.IDENTITY)}"
    theirs = _of(*lines, label="y", profiles={"x": {}, "y": {}})
    assert theirs.labels["y"]["fidelity"] == "cni"
    assert list(theirs.places) == [key]
    gathered: Any = SimpleNamespace(
        tried=[SimpleNamespace(first=line, params="{}") for line in lines]
    )
    assert circumstances_of(_reader(profiles={"x": {}, "y": {}}), gathered, "x") == ours


def test_windows_and_placements_are_places_of_their_own() -> None:
    found = _of(_line(), _line(window="cpp"), _line(placement="inter"), _line("y"))
    assert len(found.places) == 4
    assert found.within == []


def test_samples_of_one_cell_that_differ_in_what_was_read_back() -> None:
    found = _of(
        _line(priority="normal", congestion_control="cubic"),
        _line(priority="raised", congestion_control=UNREAD),
        _line(priority="normal", congestion_control="bbr"),
    )
    assert len(found.places) == 3
    assert [str(one) for one in found.within] == [
        "priority within one cell: normal against raised",
        "congestion control within one cell: cubic against bbr",
        "priority within one cell: raised against normal",
    ]
    said = [str(one) for one in found.within]
    one, other = (_of(_line(priority=kind)) for kind in ("normal", "raised"))
    assert between(found, one, "x", "x", one_run=True) == said
    assert between(one, found, "x", "x", one_run=True) == said
    assert between(one, found, "x", "x", one_run=False) == said
    assert differences(one, other) == ["priority: normal against raised"]


def test_what_was_not_read_back_is_no_difference() -> None:
    unread, bbr, cubic = (_of(_line(congestion_control=x)) for x in (UNREAD, "bbr", "cubic"))
    assert differences(unread, bbr) == differences(bbr, unread) == []
    elsewhere = [
        _of(_line(congestion_control=x, path=path))
        for x, path in ((UNREAD, "a"), ("bbr", "b"), ("cubic", "c"))
    ]
    assert differences(elsewhere[0], elsewhere[1]) == []
    assert differences(elsewhere[1], elsewhere[0]) == []
    assert differences(elsewhere[1], elsewhere[2]) == ["congestion control: bbr against cubic"]
    partly = _of(_line(path="d", congestion_control=UNREAD), _line(path="e"))
    assert differences(
        _of(_line(congestion_control="bbr"), _line(path="a", congestion_control=UNREAD)), partly
    ) == ["congestion control: bbr against cubic"]
    unread.add(bbr)  # known from now on
    assert differences(unread, cubic) == ["congestion control: bbr against cubic"]
    bbr.add(_of(_line(congestion_control=UNREAD)))
    assert differences(bbr, cubic) == ["congestion control: bbr against cubic"]


def test_runs_that_agree_have_no_differences() -> None:
    one = _of(_line())
    assert differences(one, _of(_line())) == []
    assert differences(one, _of(_line(placement="inter"))) == []  # measured elsewhere
    assert differences(one, _of(_line("y"), profiles={"y": {"z": 1}})) == []
    assert differences(one, _of()) == []
    assert differences(_of(), _of()) == []


def test_differences_name_both_values() -> None:
    one = _of(_line(), cpus=2, settings={"x": {"a": 1}})
    assert differences(one, _of(_line(), cpus=4, settings={"x": {"a": 1}})) == ["CPUs: 2 against 4"]
    assert differences(one, _of(_line(), settings={"x": {"a": 1}})) == [
        "CPUs: 2 against not recorded"
    ]
    assert differences(one, _of(_line(), cpus=2)) == ['settings of x: {"a":1} against none']
    assert differences(one, _of(_line(mtu=9000), cpus=2, settings={"x": {"a": 1}})) == [
        "MTU: 1500 B against 9000 B"
    ]
    changed = _of(_line(), cpus=2, settings={"x": {"a": 1}}, profiles={"x": {"a": 7}})
    (said,) = differences(one, changed)
    assert said.startswith("profile of x: ")
    models = [_of(_line(fidelity=kind)) for kind in ("model", "cni")]
    assert differences(*models) == ["fidelity of x: model against cni"]
    assert differences(models[0], _of(_line())) == []


def test_one_difference_is_said_once() -> None:
    ours, theirs = (
        _of(*(_line(placement=place, mtu=mtu) for place in ("intra", "inter")))
        for mtu in (1500, 9000)
    )
    assert differences(ours, theirs) == ["MTU: 1500 B against 9000 B"]


def test_each_common_place_is_compared_with_itself() -> None:
    ours, theirs = (
        _of(_line(placement="intra", mtu=one), _line(placement="inter", mtu=other))
        for one, other in ((1500, 1400), (8000, 9000))
    )
    assert differences(ours, theirs) == ["MTU: 1500 B against 8000 B", "MTU: 1400 B against 9000 B"]


def test_runs_that_share_no_place_differ_in_what_none_shares() -> None:
    """The MTU of one place agrees with none of the other's; their pinning does with one."""
    ours = _of(_line(), _line(path="a", cpus="split"))
    theirs = _of(_line(path="b", mtu=9000, cpus="split"), _line(path="c", mtu=8000, cpus="split"))
    assert differences(ours, theirs) == ["MTU: 1500 B against 8000 B"]
    assert differences(theirs, ours) == ["MTU: 8000 B against 1500 B"]
    apart = _of(_line(path="b", mtu=9000, cpus="pinned"))
    assert len(differences(_of(_line()), apart)) == 2
    shared = _of(_line(path="b", mtu=9000), _line())
    assert differences(ours, shared) == []


def test_what_a_run_adds_counts_for_the_next() -> None:
    one = _of(_line())
    one.add(_of(_line("y"), _line(mtu=1), profiles={"y": {"a": 1}, "x": {"z": 1}}))
    assert set(one.labels) == {"x", "y"}
    assert one.labels["x"]["profile"] == _of(profiles={"x": {"z": 1}}).labels["x"]["profile"]
    assert [place["mtu"] for place in one.places.values()] == [1500, 1500]
    assert len(one.places) == 2


def _gate(ours: Any, theirs: Any, *, one_run: bool = False, other: str = "x") -> list[str]:
    """Of two runs: ``ours`` of label x, ``theirs`` of ``other``."""
    return between(ours, theirs, "x", other, one_run=one_run)


def test_the_gate_compares_machines_settings_and_places() -> None:
    one = _of(_line(), label="x", settings={"": {"a": 1}})
    assert _gate(one, one) == []
    other = _of(_line(), label="x", kernel="5.4", settings={"": {"a": 2}}, profiles={"x": {"c": 1}})
    said = ["kernel: 6.1 against 5.4", 'settings of x: {"a":1} against {"a":2}']
    assert _gate(one, other) == said  # profiles may differ
    assert _gate(one, other, one_run=True) == []
    mtu = _of(_line(mtu=9000), label="x", settings={"": {"a": 1}})
    for one_run in (True, False):
        assert _gate(one, mtu, one_run=one_run) == ["MTU: 1500 B against 9000 B"]
    absent = _of(_line(), label="x", cpus=4, settings={"": {"a": 1}})
    assert _gate(one, absent) == ["CPUs: not recorded against 4"]


def test_the_gate_names_all_differences() -> None:
    ours = _of(_line(fidelity="model"), label="x", settings={"": {"a": 1}})
    theirs = _of(
        _line("y", "cni"), label="y", kernel="5.4", settings={"": {"a": 2}}, profiles={"y": {}}
    )
    assert _gate(ours, theirs, other="y") == [
        "kernel: 6.1 against 5.4",
        'settings of all labels: {"a":1} against {"a":2}',
        "fidelity of x and y: model against cni",
    ]


def test_an_agent_with_a_proxy_is_not_compared_with_one_without() -> None:
    """Whatever else differs; and where only one of them recorded it, nothing is known."""
    ours = _of(_line(proxy="nftables"), label="x")
    theirs = _of(_line(proxy="iptables"), label="x", kernel="5.4")
    assert ours.labels["x"]["proxy"] == "nftables"
    said = ["kernel: 6.1 against 5.4", "proxy of x: nftables against iptables"]
    assert _gate(ours, theirs) == said
    assert _gate(ours, theirs, one_run=True) == []
    unknown = _of(_line(), label="x")
    assert "proxy" not in unknown.labels["x"]
    assert _gate(ours, unknown) == _gate(unknown, ours) == []
    alone = _of(_line("y", proxy="nftables"), label="y", profiles={})
    assert alone.labels == {"y": {"proxy": "nftables"}}
    assert _gate(alone, alone) == []


def test_a_label_of_which_the_plan_says_nothing_is_compared_by_its_places() -> None:
    unknown = _of(_line(), label="x", profiles={})
    assert unknown.labels == {}
    for one_run in (True, False):
        assert _gate(unknown, unknown, one_run=one_run) == []


def test_along_a_trend_versions_and_what_was_not_recorded_may_differ() -> None:
    one = _of(_line(), installed={"x": {"chart": "1"}})
    new = _of(_line(), tool_version="2", cpus=2, installed={"x": {"chart": "2"}})
    assert len(differences(one, new)) == 3
    assert differences(one, new, trend=True) == []
    changed = [
        _of(_line(fidelity=one), tool_version=one, settings={"": {"a": one}})
        for one in ("model", "cni")
    ]
    assert differences(*changed, trend=True) == ["fidelity of x: model against cni"]
    readers = [
        _reader("one", cpus=2),
        _reader("two", tool_version="2", cpus=2),
        _reader("three", tool_version="2", cpus=4),
    ]
    gathered = _gathered(*[[_line()]] * 3)
    assert environments(readers[:2], gathered, False, trend=True) == ([0, 0], [])
    numbers, said = environments(readers, gathered, True, trend=True)
    assert numbers == [0, 0, 1]
    assert said == ["environment 2 (three) differs from environment 1 (one): CPUs: 2 against 4"]


def test_labels_of_other_names_may_have_settings_of_their_own() -> None:
    ours = _of(_line(), label="x", settings={"": {"a": 1}, "x": {"b": 1}})
    profiles = {"y": {}}
    theirs = _of(_line("y"), label="y", settings={"": {"a": 1}, "y": {"b": 2}}, profiles=profiles)
    assert _gate(ours, theirs, other="y") == []
    theirs = _of(_line("y"), label="y", settings={"": {"a": 2}}, profiles=profiles)
    assert _gate(ours, theirs, other="y") == ['settings of all labels: {"a":1} against {"a":2}']
    assert _gate(ours, theirs, other="y", one_run=True) == []


@pytest.mark.parametrize("one_run", [True, False])
def test_a_model_is_not_compared_with_a_cni(one_run: bool) -> None:
    ours = _of(_line(fidelity="model"), label="x")
    for other in ("x", "y"):
        theirs = _of(_line(other, fidelity="cni"), label=other, profiles={other: {}})
        both = " and ".join(dict.fromkeys(("x", other)))
        assert between(ours, theirs, "x", other, one_run=one_run) == [
            f"fidelity of {both}: model against cni"
        ]
        baseline = _of(_line(other), label=other, profiles={other: {}})
        assert between(ours, baseline, "x", other, one_run=one_run) == []
        assert between(baseline, ours, other, "x", one_run=one_run) == []


def _gathered(*lines: list[Any]) -> Any:
    """Of each run its lines."""
    tried = [
        SimpleNamespace(first=line, params="{}", run=number)
        for number, some in enumerate(lines)
        for line in some
    ]
    return SimpleNamespace(tried=tried)


def test_runs_are_numbered_by_their_environment() -> None:
    readers = [
        _reader("one"),
        _reader("two", kernel="5.4"),
        _reader("three"),
        _reader("four", kernel="5.4", cpus=2),
    ]
    gathered = _gathered(*[[_line()]] * 4)
    numbers, said = environments(readers, gathered, allow=True)
    assert numbers == [0, 1, 0, 2]
    assert said == [
        "environment 2 (two) differs from environment 1 (one): kernel: 6.1 against 5.4",
        "environment 3 (four) differs from environment 1 (one): kernel: 6.1 against 5.4; CPUs: not"
        " recorded against 2",
    ]
    with pytest.raises(UsageError) as error:
        environments(readers, gathered, allow=False)
    assert error.value.message == ("two is not comparable with one: kernel: 6.1 against 5.4")
    assert environments([readers[0], readers[2]], _gathered([_line()], [_line()]), False) == (
        [0, 0],
        [],
    )
    assert environments([], _gathered(), False) == ([], [])


def test_each_run_counts_with_its_own_lines() -> None:
    readers = [_reader(name) for name in ("one", "two", "three")]
    lines = [[_line()], [_line(placement="inter")], [_line(placement="inter", mtu=9000)]]
    numbers, said = environments(readers, _gathered(*lines), allow=True)
    assert numbers == [0, 0, 1]
    assert said == [
        "environment 2 (three) differs from environment 1 (one): MTU: 1500 B against 9000 B"
    ]


def test_labels_that_failed_in_a_context() -> None:
    blocks = frozenset((0, block) for block in range(4))

    def member(failed: int) -> Member:
        return Member(None, {}, Tally(blocks, frozenset(list(blocks)[:failed])))  # type: ignore[arg-type]

    found = Context({}, "speed", {"a": member(0), "b": member(1)}, {"c": member(4)})
    assert found.failed == {"b": (1, 4), "c": (4, 4)}
    assert found.failing == ["b", "c"]

    def seldom(tried: int) -> Member:
        keys = [(0, block) for block in range(tried)]
        return Member(None, {}, Tally(frozenset(keys), frozenset(keys[:1])))  # type: ignore[arg-type]

    assert Context({}, "speed", {"a": seldom(5), "b": seldom(6)}).failing == ["a"]
    assert Context({}, "speed").failed == {}


def test_the_circumstances_of_a_figure_in_words() -> None:
    usual = context.circumstances(SimpleNamespace(**PLACE))
    changed = context.circumstances(
        SimpleNamespace(**{**PLACE, "wire_rate": 2e8, "pairs": 2, "congestion_control": "bbr"})
    )
    assert {said for said in changed if said not in usual} == {
        "wire rate 200 Mbit/s",
        "pairs at the same time 2",
        "congestion control bbr",
    }
    assert not any(said.startswith("MTU") for said in usual)  # the place says it
