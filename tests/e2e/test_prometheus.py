"""The OpenMetrics report in Debian's Prometheus: its history can be filled with reports, and every
panel of the shipped dashboards finds data there.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.analysis.build import analyse
from cnibench.cpp import colors, taxonomy
from cnibench.model.profile import builtin
from cnibench.registry import providers
from cnibench.reports._looks import looks
from tests.unit._runs import synthetic

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
NIGHTS = ("2026-01-01", "2026-01-02", "2026-01-04")
NOW = "2026-01-05T00:00:00Z"
# What Grafana puts in place of the variables, with everything chosen.
VARIABLES = {"$__range": "1w", "$__interval": "1d", "$run": ".*", "$testbed": ".*"}
VARIABLES |= {"$workload": ".*", "$placement": ".*"}


def report(folder: Path, night: str, number: int) -> str:
    truth = {"flannel": 1.0, "cilium": 1.1, "weave": 0.9}
    run = synthetic(folder, truth, name=f"nightly-{night}", seed=number, fail=[("weave", 3)])
    made = analyse([run])
    runs = [
        msgspec.structs.replace(one, started=f"{night}T01:00:00Z", finished=f"{night}T01:10:00Z")
        for one in made.runs
    ]
    return str(providers("reports")["openmetrics"].render(msgspec.structs.replace(made, runs=runs)))


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus whose history holds three runs."""
    folder = tmp_path_factory.mktemp("prometheus")
    data = folder / "data"
    for number, night in enumerate(NIGHTS):
        file = folder / f"{night}.txt"
        file.write_text(report(folder / "runs", night, number))
        subprocess.run(
            ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(file), str(data)],
            check=True,
            capture_output=True,
            timeout=60,
        )
    (folder / "prometheus.yml").write_text("{}\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={data}",
    ]
    command += ["--storage.tsdb.retention.time=100y", f"--web.listen-address={address}"]
    with (
        open(folder / "log", "wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as running,
    ):
        try:
            until = time.monotonic() + 60
            while not ready(f"http://{address}/-/ready"):
                assert running.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < until, (folder / "log").read_text()
                time.sleep(0.1)
            yield f"http://{address}"
        finally:
            running.terminate()


def ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def asked(server: str, how: str, **parameters: str) -> list[dict[str, Any]]:
    """The result of a query: a list of series."""
    address = f"{server}/api/v1/{how}?{urllib.parse.urlencode(parameters)}"
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{parameters}: {error.read().decode()}") from None
    return found


def panels() -> list[Any]:
    found = []
    for file in sorted(DASHBOARDS.glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel["targets"]:
                name = f"{file.stem}-{panel['title']}-{target['refId']}"
                found.append(pytest.param(target, id=name.replace(" ", "_")))
    return found


@pytest.mark.parametrize("target", panels())
def test_every_panel_finds_data(prometheus: str, target: dict[str, Any]) -> None:
    expression = target["expr"]
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    if target.get("instant"):
        found = asked(prometheus, "query", query=expression, time=NOW)
    else:
        start = f"{NIGHTS[0]}T00:00:00Z"
        found = asked(prometheus, "query_range", query=expression, start=start, end=NOW, step="1d")
        assert {len(series["values"]) for series in found} == {len(NIGHTS)}
    assert found


def overrides(dashboard: str) -> list[tuple[str, str]]:
    """The patterns of names, or names, and the colours that they are given."""
    return [
        (one["matcher"]["options"], one["properties"][0]["value"]["fixedColor"])
        for panel in json.loads((DASHBOARDS / f"{dashboard}.json").read_text())["panels"]
        for one in panel.get("fieldConfig", {}).get("overrides", [])
    ]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("flannel median", "flannel"),
        ("flannel+nftables median", "flannel"),
        ("flannel-host-gw / cilium ratio", "flannel-host-gw"),
        ("my-flannel median", None),
        ("flannel-of-mine ci_low", None),
    ],
)
def test_a_line_has_the_colour_of_its_profile_in_every_chart(name: str, label: str | None) -> None:
    found = {
        color
        for pattern, color in overrides("cnibench-history")
        if re.search(pattern.strip("/"), name)
    }
    shipped = looks({one: {"cni": profile.cni} for one, profile in builtin().items()})
    assert found == ({shipped[label].color} if label else set())


def test_every_component_has_its_colour() -> None:
    found = dict(overrides("cnibench-comparison"))
    assert found == {name: colors.color(name) for name in found}
    assert {*taxonomy.load().components, "unclassified"} <= found.keys()


def test_figures_and_verdicts_arrive_as_they_were_reported(prometheus: str) -> None:
    place = 'workload="tcp-rr",placement="inter"'
    names = ('metric="transaction_rate",label="cilium",against="flannel"', place)
    chosen = ",".join(names)
    ratios = asked(
        prometheus,
        "query",
        query=f'last_over_time(cnibench_ratio{{{chosen},statistic="ratio"}}[1w])',
        time=NOW,
    )
    assert len({one["metric"]["run"] for one in ratios}) == len(NIGHTS)
    assert all(abs(float(one["value"][1]) - 1.1) < 0.02 for one in ratios)
    proven = asked(
        prometheus,
        "query",
        query=f"last_over_time(cnibench_verdict{{{chosen}}}[1w]) == 1",
        time=NOW,
    )
    assert {one["metric"]["cnibench_verdict"] for one in proven} == {"better"}
    assert len(proven) == len(NIGHTS)


def test_the_shipped_dashboards_are_those_that_the_script_makes(tmp_path: Path) -> None:
    script = DASHBOARDS.parent / "release" / "dashboards.py"
    copy = tmp_path / "release" / script.name
    copy.parent.mkdir()
    copy.write_text(script.read_text())
    subprocess.run([sys.executable, str(copy)], check=True, timeout=60)
    made = {file.name: file.read_text() for file in (tmp_path / "dashboards").iterdir()}
    assert made == {file.name: file.read_text() for file in DASHBOARDS.iterdir()}
