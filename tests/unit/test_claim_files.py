"""The studies' files: their schema, what they name, and the command that judges them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cnibench.claims import studies
from cnibench.claims.model import FOLDER, read_study, schema_text
from cnibench.claims.units import base
from cnibench.errors import InputError
from cnibench.model.profile import builtin
from cnibench.registry import providers
from tests.unit._call import call
from tests.unit._runs import synthetic

# A system of qi2021 that needs the kernel's Open vSwitch: its claims stand whether or not a profile
# of it is there.
WITHOUT_PROFILE = {"weave"}


def test_units_are_distinguished() -> None:
    """Table II of qi2021: 91.50 requests/s of 5 MiB are its 3.57 'Gb/s' only when those are 2^30
    bit/s.
    """
    assert base(3.57, "Gibit/s") == pytest.approx(91.50 * 5 * 2**20 * 8, rel=2e-3)
    assert base(3.57, "Gbit/s") != pytest.approx(91.50 * 5 * 2**20 * 8, rel=0.05)


def test_table_2_agrees_with_itself() -> None:
    """Each throughput of the table is its requests/s times 5 MiB, in the unit that its claim
    names.
    """
    claims = {one.id: one for one in studies()["qi2021"].claims}
    for clients in (1, 400):
        rates, speeds = claims[f"table-2-rps-{clients}"], claims[f"table-2-throughput-{clients}"]
        for name, rate in rates.published.items():
            assert base(speeds.published[name], speeds.unit) == pytest.approx(
                rate * 5 * 2**20 * 8, rel=0.005
            ), name


def test_schema_is_current() -> None:
    assert (FOLDER / "schema.json").read_text() == schema_text(), "run: python -m cnibench.claims"


@pytest.mark.parametrize("name", ["qi2021", "bruijn2017", "makowski2018"])
def test_study_files(name: str) -> None:
    data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    jsonschema.validate(data, json.loads((FOLDER / "schema.json").read_text()))
    study = studies()[name]
    assert len({one.sentence for one in study.claims}) == len(study.claims)
    known = set(builtin()) | WITHOUT_PROFILE
    workloads = set(providers("workloads"))
    for one in study.claims:
        assert set(one.named) <= known, one.id
        assert set(one.workload) <= workloads, one.id
        assert one.sentence.endswith("."), one.id
        for other in one.contradicts:
            assert one.id in next(item.contradicts for item in study.claims if item.id == other), (
                f"{other} does not point back"
            )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "order"}, "needs higher, lower"),
        ({"kind": "equality", "profiles": ["a"], "metric": "speed"}, "metric of the closed set"),
        ({"kind": "value", "published": {"a": 1}, "unit": "ms"}, "is no unit of throughput"),
        ({"kind": "equality", "profiles": ["a"], "surprise": 1}, "there is no such key"),
        (
            {"kind": "absence", "profiles": ["a"], "components": ["veth"]},
            "components are of cycles_per_packet",
        ),
    ],
)
def test_wrong_files_are_reported(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    one = {
        "id": "c",
        "source": "s",
        "sentence": "S.",
        "metric": "throughput",
        "workload": ["tcp-stream"],
        **change,
    }
    path = tmp_path / "study.yaml"
    path.write_text(
        yaml.safe_dump(
            {"schema": 1, "title": "T", "authors": "A", "published": "2020", "claims": [one]}
        )
    )
    with pytest.raises(InputError) as error:
        read_study(path)
    assert words in error.value.message
    assert "study.yaml" in error.value.message


def test_command(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"flannel": 1.0, "cilium": 1.2, "kube-router": 1.0}, blocks=8)
    shown = call(["claims", str(run.path), "--study", "qi2021"])
    assert shown.exit_code == 0, shown.stderr
    assert "intra-cpp-veth-alike" in shown.stdout
    assert "datapath-model" in shown.stdout
    document = json.loads(call(["claims", str(run.path), "--json"]).stdout)
    assert {one["study"] for one in document["claims"]} == {"qi2021", "bruijn2017", "makowski2018"}
    assert sum(document["counts"].values()) == len(document["claims"])
    wrong = call(["claims", str(run.path), "--study", "nobody1999"])
    assert wrong.exit_code == 2
    assert "qi2021" in wrong.stderr
