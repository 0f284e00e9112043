"""The footprint of processes: pure readings of /proc, and a real process that is watched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.collectors import footprint
from cnibench.errors import MeasureError
from cnibench.situation import Findings

HOLDER = """
import time
held = b"x" * (40 << 20)
print("held", flush=True)
end = time.process_time() + 0.3
while time.process_time() < end:
    pass
time.sleep(60)
"""


@pytest.fixture
def holder() -> Iterator[int]:
    """A process with 40 MiB of its own that computes for 0.3 s of CPU time."""
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.kill()


def under(processes: dict[str, int] | None) -> Any:
    return SimpleNamespace(standing=SimpleNamespace(processes=lambda: processes, fidelity="datapath-model"))


def test_names_with_blanks_and_brackets_do_not_shift_the_fields() -> None:
    text = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 111 222 0 0 20 0 1"
    assert footprint.cpu(text) == (111, 222)
    assert footprint.resident("1000 300 100 1 0 200 0") == 200 * os.sysconf("SC_PAGE_SIZE")


def test_memory_and_cpu_of_a_process(holder: int) -> None:
    found = Findings()
    with footprint.PROVIDER.observe(under({"daemon": holder}), found):
        stat = Path(f"/proc/{holder}/stat")
        while sum(footprint.cpu(stat.read_text())) < 15:  # ticks: 0.15 s of CPU time
            os.sched_yield()
    values = {reading.metric: reading.value for reading in found.readings}
    assert all(reading.params == {"process": "daemon"} for reading in found.readings)
    assert values["memory"] >= 40 << 20
    assert values["cpu_user"] + values["cpu_system"] > 0
    [(file, record)] = found.records
    assert file == "footprint"
    assert len(record["times"]) == len(record["values"]) >= 2


def test_a_process_that_died_is_told(holder: int) -> None:
    with pytest.raises(MeasureError, match="is gone"), footprint.PROVIDER.observe(under({"daemon": 2**22 + 1}), Findings()):
        pytest.fail("must not be measured")


def test_no_process_is_said_and_the_unknown_is_silent() -> None:
    found = Findings()
    with footprint.PROVIDER.observe(under({}), found):
        pass
    assert found.records == [("footprint", {"process": "", "said": footprint.NONE})]
    nothing = Findings()
    with footprint.PROVIDER.observe(under(None), nothing):
        pass
    assert nothing == Findings()
