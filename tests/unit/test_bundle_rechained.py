"""A bundle's files that were changed, with all hashes made again: what they say does not agree.
With all figures made again, too, only the signature tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.reports.bundle import container
from tests.unit._bundles import Files, Record, document, edited, put, rechained, refigured, refusal
from tests.unit._tampering import ARCHIVE, ENV, EVENTS, FILES, PLAN, SAMPLES, Keys, factor, signed


def every(**change: Any) -> Callable[[], Files]:
    return lambda: edited(FILES, SAMPLES, lambda one: one | change)


def of_label(label: str, change: Callable[[Record], Record]) -> Callable[[], Files]:
    return lambda: edited(FILES, SAMPLES, lambda one: change(one) if one["label"] == label else one)


def swapped(one: Record) -> Record:
    other = {"flannel": "cilium", "cilium": "flannel"}
    name = other.get(one["label"], one["label"])
    return one | {"label": name, "profile": name}


RECHAINED: dict[str, tuple[Callable[[], Files], str]] = {
    "one CNI made a hundredth faster": (
        of_label("cilium", lambda one: factor(one, 1.01)),
        "the samples give",
    ),
    "all made faster alike": (
        lambda: edited(FILES, SAMPLES, lambda one: factor(one, 2.0)),
        "the samples give",
    ),
    "two CNIs exchanged": (lambda: edited(FILES, SAMPLES, swapped), "its cell"),
    "bad values marked as disturbed": (
        of_label("flannel", lambda one: one | {"disturbed": "noise"}),
        "the samples give|missing|not among",
    ),
    "other cycles of a component": (
        lambda: edited(FILES, "cpp.jsonl", lambda one: one | {"total": one["total"] / 2}),
        "the samples give",
    ),
    "a testbed that it is not": (every(testbed="cluster"), "says testbed"),
    "a wire that it is not": (every(wire="nic"), "says wire"),
    "a real CNI instead of a model": (every(fidelity="cni"), "fidelity 'cni' is impossible"),
    "a cluster's environment": (
        lambda: document(
            edited(FILES, SAMPLES, lambda one: one | {"testbed": "kind", "wire": "nic"}),
            ENV,
            testbed="kind",
            wire="nic",
        ),
        "impossible in a kind",
    ),
    "NICs of two machines in the lab of one": (
        lambda: document(
            edited(FILES, SAMPLES, lambda one: one | {"wire": "nic"}),
            ENV,
            wire="nic",
            nodes={"a": {"device": "eno1", "driver": "mlx5_core", "speed": "25000"}},
        ),
        "the lab was on the machine itself",
    ),
    "another cell's coordinates": (every(placement="intra"), "says placement"),
    "a cell that was not planned": (
        lambda: edited(
            edited(FILES, SAMPLES, lambda one: one | {"cell": "x"}, 0), EVENTS, lambda one: one
        ),
        "no such cell|left out",
    ),
    "other parameters": (every(params={"size": [{}]}), "other parameters"),
    "another unit": (every(unit="kbit/s"), "is no metric"),
    "the worse counted as better": (every(better="lower"), "is no metric"),
    "samples of another day": (
        every(start="2020-01-01T00:00:00.000000Z"),
        "not measured during the run",
    ),
    "samples that end before they begin": (
        every(end="2020-01-01T00:00:00.000000Z"),
        "not measured during the run",
    ),
    "a run of the future": (
        lambda: edited(
            FILES, EVENTS, lambda one: one | {"time": one["time"].replace("20", "29", 1)}
        ),
        "in the future",
    ),
    "a negative rate": (every(value=-1.0), "is -1"),
    "an emulated processor": (
        lambda: document(FILES, ENV, accelerator="tcg"),
        "the processor was emulated",
    ),
    "no virtual machine": (lambda: document(FILES, ENV, virtualisation=""), "no virtual machine"),
    "a kernel of fantasy": (lambda: document(FILES, ENV, kernel="fastest ever"), "no version"),
    "a kernel with a script": (
        lambda: document(FILES, ENV, kernel="<script>alert(1)</script>"),
        "no version of Linux",
    ),
    "more CPUs than are online": (
        lambda: document(FILES, ENV, cpus=64, cpus_online=2),
        "more CPUs than are online",
    ),
    "a negative memory": (lambda: document(FILES, ENV, memory=-1), "no such number"),
    "another architecture": (
        lambda: document(FILES, ENV, architecture="aarch64"),
        "does not have the architecture",
    ),
}


@pytest.mark.parametrize("name", RECHAINED)
def test_changes_with_all_hashes_made_again(name: str, tmp_path: Path) -> None:
    make, words = RECHAINED[name]
    assert re.search(words, refusal(tmp_path, put(rechained(make()))))


CONSISTENT: dict[str, Callable[[], Files]] = {
    "one CNI faster, with its figures": of_label("cilium", lambda one: factor(one, 1.3)),
    "another CPU, in all of it": lambda: document(FILES, ENV, cpu_model="AMD EPYC 9999"),
    "another kernel, in all of it": lambda: document(FILES, ENV, kernel="6.17.0"),
    "another seed, in all of it": lambda: document(FILES, PLAN, seed=7),
    "another command, in all of it": lambda: document(FILES, PLAN, command=["cnibench", "run"]),
    "another origin": lambda: document(
        FILES, container.CONTENTS, origin={"events": 3, "last": "0" * 64}
    ),
    "attestations that all passed": lambda: edited(
        FILES, "attestations.jsonl", lambda one: one | {"observed": one["expected"]}
    ),
}


@pytest.mark.parametrize("name", CONSISTENT)
def test_consistent_changes_have_no_owner(name: str, keys: Keys, tmp_path: Path) -> None:
    changed = refigured(CONSISTENT[name]())
    assert changed != FILES
    seal = msgspec.json.decode(keys.bundle[len(ARCHIVE) :])
    old = refusal(tmp_path, put(changed, seal["signature"]), keys.signers)
    none = refusal(tmp_path, put(changed), keys.signers)
    stranger = refusal(tmp_path, signed(changed, keys.stranger), keys.signers)
    assert (
        "does not match the contents" in old,
        "not signed" in none,
        "not one of" in stranger,
    ) == (True, True, True)
