"""Certificates: their files, which one counts for a model, and what reports say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.analysis import Analysis, analyse
from cnibench.analysis.text.notes.certificates import certified
from cnibench.certificates import store
from cnibench.certificates.format import Agent, Certificate, Difference, Rate, read, text
from cnibench.certificates.standing import standing, words
from cnibench.errors import InputError
from cnibench.model.profile import builtin
from cnibench.reports.markdown import PROVIDER as MARKDOWN
from cnibench.reports.site import places
from cnibench.reports.text import PROVIDER as TEXT
from tests.unit._runs import synthetic

AGENT = Agent(name="flanneld", version="v0.28.4", sha256="ab" * 32)


def certificate(**changed: Any) -> Certificate:
    given: dict[str, Any] = {
        "profile": "flannel",
        "model": "m1",
        "tool_version": "1.0",
        "agent": AGENT,
        "kernel": "6.18.1",
        "architecture": "x86_64",
        "date": "2026-11-25T18:00:00Z",
        "packets": ["inter, first packet"],
    }
    return Certificate(**{**given, **changed})


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's folder; nothing is shipped."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(store, "SHIPPED", tmp_path / "shipped")
    return tmp_path / "data" / "cnibench" / "certificates"


def test_a_certificate_is_what_its_file_says(own: Path) -> None:
    made = certificate(
        differences=[Difference(place="a", part="routes", expected=["x"], found=["y"])]
    )
    path = store.store(made)
    assert path.parent == own
    assert path.name == "flannel_flanneld_v0.28.4_6.18.1.json"
    assert read(path) == made
    assert list(store.certificates("flannel")) == [made]
    assert [entry.name for entry in own.iterdir()] == [path.name]  # no draft is left


def test_a_later_one_replaces_it_and_another_kernels_does_not(own: Path) -> None:
    store.store(certificate())
    store.store(certificate(date="2026-11-26T18:00:00Z"))
    store.store(certificate(kernel="6.1.0"))
    assert sorted(one.date[:10] for one in store.certificates("flannel")) == [
        "2026-11-25",
        "2026-11-26",
    ]


def test_one_with_other_settings_or_of_the_state_alone_replaces_none(own: Path) -> None:
    for one in (
        certificate(),
        certificate(settings={"backend": "udp"}),
        certificate(settings={"backend": "host-gw"}),
        certificate(packets=[]),
    ):
        store.store(one)
    assert len(list(store.certificates("flannel"))) == 4


def test_the_profiles_name_is_not_the_beginning_of_anothers(own: Path) -> None:
    store.store(certificate(profile="flannel-host-gw"))
    assert list(store.certificates("flannel")) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "not a certificate"),
        (b"{}", "not a certificate"),
        (b'{"profile": 1}', "not a certificate"),
        (msgspec.json.encode(certificate(schema=2)), "of schema 2"),
    ],
)
def test_a_file_that_is_none_is_named_and_left_out(own: Path, content: bytes, said: str) -> None:
    own.mkdir(parents=True)
    path = own / "flannel_x.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said) as error:
        read(path)
    assert str(path) in error.value.message
    assert list(store.certificates("flannel")) == []


def test_one_for_this_model_and_kernel_counts_before_a_newer_one() -> None:
    here = certificate()
    newer = {"date": "2027-01-01T00:00:00Z"}
    others = [
        certificate(model="m2", **newer),
        certificate(kernel="6.1.0", **newer),
        certificate(settings={"backend": "host-gw"}, **newer),
    ]
    found = standing([*others, here], "6.18.1", "m1", {})
    assert (found["date"], found["other"]) == (here.date, [])
    assert words(found) == "certified against flanneld v0.28.4: 0 differences"


@pytest.mark.parametrize(
    ("kernel", "model", "settings", "said"),
    [
        ("6.1.0", "m1", {}, "on another kernel, 6.18.1"),
        ("6.18.1", "m2", {}, "for another version of the model"),
        ("6.18.1", "m1", {"backend": "udp"}, "with other settings"),
        ("6.1.0", "m2", {}, "on another kernel, 6.18.1 and for another version of the model"),
    ],
)
def test_what_a_certificate_was_made_for_is_said_where_it_differs(
    kernel: str, model: str, settings: dict[str, str], said: str
) -> None:
    assert words(standing([certificate()], kernel, model, settings)) == (
        f"certified against flanneld v0.28.4: 0 differences ({said})"
    )


@pytest.mark.parametrize(
    ("ip", "changed", "said"),
    [
        ((4,), {}, ""),
        ((4, 6), {}, " (over IPv4 alone)"),
        ((6,), {}, " (over IPv4 alone)"),
        ((6,), {"ip": (4, 6)}, ""),
        ((4,), {"packets": []}, " (without the rules that packets meet)"),
    ],
)
def test_what_was_not_compared_is_said(
    ip: tuple[int, ...], changed: dict[str, Any], said: str
) -> None:
    found = standing([certificate(**changed)], "6.18.1", "m1", {}, ip)
    assert words(found) == f"certified against flanneld v0.28.4: 0 differences{said}"


@pytest.mark.parametrize(
    ("ratio", "low", "high", "said"),
    [
        (0.81, 0.69, 0.88, "; tcp-rr inter: the agent has 0.81 [0.69, 0.88] of the model's rate"),
        (1.2, 1.1, 1.3, "; tcp-rr inter: the agent has 1.20 [1.10, 1.30] of the model's rate"),
        (0.98, 0.97, 0.99, ""),
        (0.7, 0.4, 1.1, ""),
        (0.7, None, None, ""),
    ],
)
def test_a_rate_that_is_not_the_models_is_said(
    ratio: float, low: float | None, high: float | None, said: str
) -> None:
    rate = Rate(
        workload="tcp-rr",
        placement="inter",
        metric="transaction_rate",
        n=6,
        ratio=ratio,
        ci_low=low,
        ci_high=high,
    )
    found = standing([certificate(rates=[rate])], "6.18.1", "m1", {})
    assert words(found) == f"certified against flanneld v0.28.4: 0 differences{said}"


def test_without_one_that_is_said() -> None:
    assert standing([], "6.18.1", "m1", {}) == {}
    assert words({}) == "not certified against the real agent"


def test_one_difference_is_one() -> None:
    found = standing([certificate(differences=[Difference(place="a", part="b")])], "", "", {})
    assert "1 difference (" in words(found)


def _told(tmp_path: Path, stored: Any) -> Analysis:
    """Of a run with the models a and b and a baseline, whose environment has that."""
    run = analyse([synthetic(tmp_path, {"veth-baseline": 1.0, "a": 1.0, "b": 0.9}, blocks=1)])
    results = [
        msgspec.structs.replace(
            one, fidelity="baseline" if one.label == "veth-baseline" else "datapath-model"
        )
        for one in run.results
    ]
    environments = [{**run.environment, "certificates": stored}]
    return msgspec.structs.replace(run, results=results, environments=environments)


def test_reports_say_it_of_models_alone(tmp_path: Path) -> None:
    stored = {"a": standing([certificate()], "6.18.1", "m1", {}), "b": {}, "veth-baseline": {}}
    told = _told(tmp_path, stored)
    lines = [
        "model of a: certified against flanneld v0.28.4: 0 differences",
        "model of b: not certified against the real agent",
    ]
    assert certified(told) == lines
    for format in (TEXT, MARKDOWN):
        shown = " ".join(format.render(told).split())
        assert all(line in shown for line in lines)
    group = told.groups[0]
    badges = places.badges(told, group, [one for one in told.results if one.label != "b"])
    assert lines[0] in badges
    assert lines[1] not in badges


def test_of_a_run_before_there_were_certificates_nothing_is_said(tmp_path: Path) -> None:
    told = _told(tmp_path, {})
    assert certified(msgspec.structs.replace(told, environments=[{}])) == []


@pytest.mark.parametrize(
    "stored", [[], {"a": 1}, {"a": {"other": 3, "rates": 1, "differences": []}}, "x"]
)
def test_what_a_strange_environment_says_raises_nothing(tmp_path: Path, stored: Any) -> None:
    certified(_told(tmp_path, stored))


def test_what_is_shipped_can_be_read_and_is_of_a_profile() -> None:
    for path in store.SHIPPED.glob("*"):
        found = read(path)
        assert found.profile in builtin()
        assert path.name == store.name(found)
        assert text(found) == path.read_text(encoding="utf-8")
