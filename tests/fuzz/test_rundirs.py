"""A short run of the mutations of run directories; ``python -m tests.fuzz.rundirs`` makes a long
one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cnibench.rundir.chain import own_hash
from tests.fuzz.rundir_mutations import MUTATIONS as MUTATIONS_OF_A_RUN
from tests.fuzz.rundirs import Fuzzer
from tests.fuzz.stored_run import build
from tests.unit._call import call

SEED = int(os.environ.get("CNIBENCH_FUZZ_SEED", "1"))
SECONDS = float(os.environ.get("CNIBENCH_FUZZ_SECONDS", "6"))
MUTATIONS = int(os.environ.get("CNIBENCH_FUZZ_MUTATIONS", "2000"))


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.timeout(SECONDS * 2 + 300)
def test_whatever_is_done_to_a_run_directory_is_harmless_or_named(
    tmp_path: Path, finished: bool
) -> None:
    tally = Fuzzer(tmp_path, SEED, finished=finished).run(MUTATIONS, SECONDS)
    assert not tally.faults, f"{tally}\n{tally.faults[0][:6000]}"
    assert tally.outcomes["named"] > tally.done / 2


def test_a_mutation_takes_whatever_another_one_left(tmp_path: Path) -> None:
    fuzzer = Fuzzer(tmp_path, SEED)
    for lines in (b"[1]\n", b"[]\n", b"7\n", b"", b"\xff\n", b"{}\n", b'{"a":[1]}\n'):
        for mutation in MUTATIONS_OF_A_RUN:
            for _ in range(5):
                mutation(fuzzer, dict.fromkeys(fuzzer.files, lines), [])


def test_every_line_that_is_doubled_lost_or_changed_is_named_by_the_report(tmp_path: Path) -> None:
    build(tmp_path / "run", 1, finished=True)
    file = tmp_path / "run" / "samples.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    right = call(["report", str(tmp_path / "run"), "--format", "csv"])
    assert right.exit_code == 0, right.stderr
    for at in range(0, len(lines), 7):
        for change in ([lines[at]] * 2, [], [lines[at].replace(b'"block":', b'"block":1')]):
            file.write_bytes(b"".join([*lines[:at], *change, *lines[at + 1 :]]))
            told = call(["report", str(tmp_path / "run")])
            assert told.exit_code == 1
            assert "problem: run: samples.jsonl" in told.stdout.replace("\n", " ")[:400]
            if len(change) == 2:  # a doubled line moves no figure
                assert (
                    call(["report", str(tmp_path / "run"), "--format", "csv"]).stdout
                    == right.stdout
                )


def test_an_event_carries_its_own_hash() -> None:
    assert own_hash(b"") == ""
    assert own_hash(b'{"a":1}') == ""
