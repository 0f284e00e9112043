"""The lab's comparison of a deployment with its declaration: listings are given, the decision is
real.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.clusters.lab.attestation import comparison
from tests.unit._attestations import Check


class _Place(SimpleNamespace):
    """A namespace: ``state`` is its listing, ``programs`` its packet filters as text."""

    state: Mapping[str, Sequence[str]]
    programs: Mapping[str, Sequence[str]]


def _ns(programs: Mapping[str, Sequence[str]] | None = None, **state: Sequence[str]) -> _Place:
    return _Place(
        state={name.replace("_", " "): lines for name, lines in state.items()},
        programs=programs or {},
    )


class _Deployment(SimpleNamespace):
    """``places`` are nodes, ``more`` the datapath's namespaces, ``pods`` those of Pods."""

    def __init__(
        self,
        places: dict[str, _Place],
        reference: _Deployment | None = None,
        *,
        more: dict[str, _Place] | None = None,
        pods: dict[str, _Place] | None = None,
        sandbox: bool = True,
        **own: Any,
    ) -> None:
        super().__init__(
            nodes=lambda: [SimpleNamespace(name=name, ns=ns) for name, ns in places.items()],
            datapath=SimpleNamespace(namespaces=lambda: more or {}, sandbox=sandbox),
            services=own.get("services", SimpleNamespace(services={})),
            attested_pods=lambda: [
                SimpleNamespace(name=name, ns=ns) for name, ns in (pods or {}).items()
            ],
            profile=SimpleNamespace(model_dump_json=lambda: own.get("profile", "{}")),
            options=own.get("options", ""),
            label=own.get("label", "x"),
            made=own.get("made", []),
            made_references=[],
            removed=[],
        )
        self._reference = reference

    def attestation(self, *check: Any) -> Check:
        return Check(*check)

    def reference(self) -> _Deployment:
        assert self._reference is not None
        self.made_references.append(self._reference)
        return self._reference

    def remove(self) -> None:
        self.removed.append(True)


@pytest.fixture(autouse=True)
def _listings(monkeypatch: pytest.MonkeyPatch) -> None:
    def listing(places: Mapping[str, _Place]) -> dict[str, list[str]]:
        return {
            f"{place}: {section}": list(lines)
            for place, ns in places.items()
            for section, lines in ns.state.items()
        }

    def texts(ns: _Place, sections: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        assert sections == ns.state  # of that place alone
        return ns.programs

    monkeypatch.setattr(comparison, "_references", {})
    monkeypatch.setattr(comparison, "listing", listing)
    monkeypatch.setattr(comparison.netfilter, "texts", texts)


_LABELS = itertools.count()


def _compare(now: _Place, declared: _Place, place: str = "a") -> Check:
    (found,) = comparison.compare(
        _Deployment({place: now}, _Deployment({place: declared}), label=f"{next(_LABELS)}")  # type: ignore[arg-type]
    )
    return found  # type: ignore[return-value]


def test_places_that_are_as_declared() -> None:
    def places() -> dict[str, Any]:
        return {
            "places": {"a": _ns(routes=["r1", "r2"], devices=["d"]), "b": _ns(routes=[])},
            "more": {"the bridge": _ns(routes=["r"])},
            "pods": {"client 0": _ns(addresses=["x"])},
        }

    reference = _Deployment(**places())
    now = _Deployment(**places(), reference=reference)
    assert comparison.compare(now) == [  # type: ignore[arg-type]
        Check("kernel-state-a", "as declared", "as declared (3 lines)", True),
        Check("kernel-state-b", "as declared", "as declared (0 lines)", True),
        Check("kernel-state-the-bridge", "as declared", "as declared (1 lines)", True),
        Check("kernel-state-client-0", "as declared", "as declared (1 lines)", True),
    ]
    assert (len(now.made_references), len(reference.removed), now.removed) == (1, 1, [])


def test_pods_without_a_namespace_of_their_own_are_no_places() -> None:
    pods = {"client": _ns(addresses=["x"])}
    now = _Deployment(
        {"a": _ns()}, _Deployment({"a": _ns()}, sandbox=False), pods=pods, sandbox=False
    )
    assert [check.name for check in comparison.compare(now)] == ["kernel-state-a"]  # type: ignore[attr-defined, arg-type]


def test_a_reference_is_made_once_for_what_it_depends_on() -> None:
    reference = _Deployment({"a": _ns(routes=["r"])})
    pod = SimpleNamespace(node=SimpleNamespace(name="a"), number=0, role="client")
    kinds: list[dict[str, Any]] = [
        {},
        {"profile": "{1}"},
        {"options": "mtu"},
        {"label": "y"},
        {"services": SimpleNamespace(services={4: ("one",)})},
        {"made": [pod]},
        {"made": [SimpleNamespace(**{**vars(pod), "number": 1})]},
        {"made": [SimpleNamespace(**{**vars(pod), "role": "server"})]},
        {"made": [SimpleNamespace(**{**vars(pod), "node": SimpleNamespace(name="b")})]},
    ]
    for kind in (*kinds, *kinds):
        now = _Deployment({"a": _ns(routes=["r"])}, reference, **kind)
        (check,) = comparison.compare(now)  # type: ignore[arg-type]
        assert check.passed
    assert len(reference.removed) == len(kinds)


def test_a_reference_that_cannot_be_read_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = _Deployment({"a": _ns()})

    def fail(places: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr(comparison, "listing", lambda places: fail(places))
    with pytest.raises(OSError, match="gone"):
        comparison._reference(_Deployment({"a": _ns()}, reference))  # type: ignore[arg-type]
    assert reference.removed == [True]


def test_lines_that_are_missing_or_new_are_shown() -> None:
    found = _compare(
        _ns(routes=["r1", "r3"], devices=["d"], rules=["new"]),
        _ns(routes=["r1", "r2"], devices=["d"], hooks=["old"]),
    )
    assert found == Check(
        "kernel-state-a", "hooks: old; routes: r2", "routes: r3; rules: new", False
    )
    assert _compare(_ns(routes=["r1", "r2"]), _ns(routes=["r1"])) == Check(
        "kernel-state-a", "nothing more", "routes: r2", False
    )
    assert _compare(_ns(routes=["r1"]), _ns(routes=["r1", "r2"])) == Check(
        "kernel-state-a", "routes: r2", "not there", False
    )
    assert not _compare(_ns(routes=["r2", "r1"]), _ns(routes=["r1", "r2"])).passed


def test_long_differences_are_cut() -> None:
    lines = [f"line {number} {'x' * 300}" for number in range(5)]
    found = _compare(_ns(routes=[]), _ns(routes=lines))
    shown = " | ".join(line[:240] for line in lines[:3])
    assert found.expected == f"routes: {shown} and 2 more"
    assert _compare(_ns(routes=[]), _ns(routes=lines[:3])).expected == f"routes: {shown}"


def test_lines_that_look_like_the_head_of_a_difference_are_lines() -> None:
    found = _compare(_ns(routes=["++ b"]), _ns(routes=["-- a", "-- b"]))
    assert (found.expected, found.observed) == ("routes: -- a | -- b", "routes: ++ b")
    assert not _compare(_ns(routes=[]), _ns(routes=["-- a"])).passed


def test_settings_that_only_one_side_knows_are_no_difference() -> None:
    same = ["net.a 1", "net.b 2"]
    assert _compare(_ns(sysctls=[*same, "net.new 3"]), _ns(sysctls=["net.old 4", *same])).passed
    changed = _compare(_ns(sysctls=["net.a 1", "net.b 3"]), _ns(sysctls=same))
    assert (changed.expected, changed.observed) == ("sysctls: net.b 2", "sysctls: net.b 3")
    assert not _compare(_ns(routes=[*same, "net.new 3"]), _ns(routes=same)).passed


@pytest.mark.parametrize(
    "section",
    [
        "chain ip x y",
        "set ip x y",
        "legacy ipv4",
        "ipset s",
        "table ip x",
        "flowtable f",
        "object o",
    ],
)
def test_packet_filters_are_shown_as_their_programs_write_them(section: str) -> None:
    def place(line: str, **programs: Sequence[str]) -> _Place:
        return _Place(state={section: [line], "routes": ["r"]}, programs=programs)

    found = _compare(
        place("1", nft=["same", "accept"], iptables=["new"]),
        place("2", nft=["same", "drop"], ipset=["old"]),
    )
    assert found == Check(
        "kernel-state-a", "ipset: old; nft: drop", "iptables: new; nft: accept", False
    )
    added = _compare(place("1", nft=["a", "b"]), place("2", nft=["a"]))
    assert (added.expected, added.observed) == ("nothing more", "nft: b")
    gone = _compare(place("1", nft=["a"]), place("2", nft=["a", "b"]))
    assert (gone.expected, gone.observed) == ("nft: b", "not there")
    hidden = _compare(place("1", nft=["a"]), place("2", nft=["a"]))
    assert hidden == Check(
        "kernel-state-a",
        f"{section} as declared",
        f"{section} with other options that the programs do not write",
        False,
    )


def test_three_sections_of_packet_filters_are_named() -> None:
    chains = {f"chain ip t {number}": ["1"] for number in range(5)}
    found = _compare(
        _Place(state=chains, programs={}),
        _Place(state={chain: ["2"] for chain in chains}, programs={}),
    )
    assert found.expected == "chain ip t 0, chain ip t 1, chain ip t 2 as declared"
