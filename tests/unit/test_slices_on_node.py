"""The programs that run on nodes: they start with the standard library alone, and answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

import pytest

from cnibench.errors import CnibenchError, LimitError, MeasureError, as_data, of_data
from cnibench.listing import on_node as listing
from cnibench.listing import virtual_servers
from cnibench.run.slices import on_node as slices
from cnibench.run.slices.readings.clocks import Clocks
from cnibench.system import carried


def answers(main: str, modules: tuple[str, ...], *requests: dict[str, Any]) -> list[Any]:
    asked = "".join(json.dumps(one) + "\n" for one in requests).encode()
    done = subprocess.run(
        carried.command(sys.executable, main),
        input=carried.archive(modules) + asked,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_controller_of_loads_answers_and_tells_its_errors() -> None:
    nobody = 1 << 30
    first, second = answers(
        "cnibench.run.slices.on_node",
        slices.MODULES,
        {"do": "time", "number": 7},
        {"do": "count", "cell": "a", "process": nobody, "kind": "opened", "arguments": [80, 4]},
    )
    assert first == {"number": 7}
    assert second["error"] == "MeasureError"
    assert f"/proc/{nobody}/ns/net" in second["message"]


def test_the_controller_says_what_runs_on_its_machine() -> None:
    first, second = answers(
        "cnibench.run.slices.on_node",
        slices.MODULES,
        {"do": "used", "number": 1},
        {"do": "used", "number": 2},
    )
    assert first["kernel"] == second["kernel"] != ""
    assert first["cpus"] == os.cpu_count()
    assert first["used"] <= second["used"]
    assert 0 < first["own"] <= second["own"]
    assert first["at"] < second["at"]


def test_what_its_loads_use_is_ours() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as load:
        controller, clock = slices.Controller(), Clocks([load.pid])
        controller.servers["a"] = clock
        first, ran = controller.used(), clock.read()[0]
        while clock.read()[0] - ran < 200_000_000:
            time.sleep(0.01)
        assert controller.used()["own"] - first["own"] >= 0.2
        load.kill()
    clock.close()


def test_the_lister_answers() -> None:
    assert answers("cnibench.listing.on_node", listing.MODULES) == []
    assert answers("cnibench.listing.virtual_servers", virtual_servers.MODULES) == []


@pytest.mark.parametrize("error", [LimitError("late", "wait"), MeasureError("gone")])
def test_an_error_survives_the_way(error: CnibenchError) -> None:
    back = of_data(as_data(error))
    assert type(back) is type(error)
    assert (back.message, back.remedy) == (error.message, error.remedy)


def test_only_our_own_errors_are_made_of_data() -> None:
    back = of_data({"error": "contextmanager", "message": "odd", "remedy": ""})
    assert type(back) is CnibenchError
