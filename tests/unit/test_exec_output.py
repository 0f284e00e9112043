"""What a program prints is limited, and its files are for their owner only."""

from __future__ import annotations

import resource
import stat
import sys
from pathlib import Path

import pytest

from cnibench.errors import LimitError, MeasureError
from cnibench.system import process as programs

FLOOD = "import sys\nwhile True: sys.{}.write('x' * 65536)"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_program_that_floods_us_is_ended(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MOST_OUTPUT", 1 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(MeasureError, match="printed more than 1 MiB and was ended"):
        programs.run([sys.executable, "-c", FLOOD.format(stream)], timeout=60)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10  # KiB


def test_output_below_the_limit_and_input_are_whole() -> None:
    given = "line\n" * 300_000
    done = programs.run(
        ["sh", "-c", "cat; echo wrong >&2; exit 3"], timeout=60, input=given, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == (given, "wrong\n", 3)
    assert (
        programs.run(["true"], timeout=60, input=given).stdout == ""
    )  # it never reads what it is given
    with pytest.raises(LimitError):
        programs.run(["sleep", "60"], timeout=0.2)


@pytest.mark.parametrize(
    "script", ["exec yes", "yes", "yes; exit 0", "yes >&2", "trap '' XFSZ; yes"]
)
def test_a_file_of_output_has_a_limit_that_the_kernel_keeps(script: str, tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    with (
        programs.spawn(["sh", "-c", script], stdout=out, stderr=err, most=1 << 20) as process,
        pytest.raises(MeasureError, match="1 MiB"),
    ):
        process.wait(60)
    with pytest.raises(MeasureError, match="1 MiB"):
        process.poll()
    assert max(out.stat().st_size, err.stat().st_size) == 1 << 20
    assert {stat.S_IMODE(file.stat().st_mode) for file in (out, err)} == {0o600}


def test_a_program_without_files_may_write_large_ones(tmp_path: Path) -> None:
    with programs.spawn(
        ["sh", "-c", f"head -c 2097152 /dev/zero > {tmp_path}/large"], most=1 << 20
    ) as process:
        assert process.wait(60) == 0
    assert (tmp_path / "large").stat().st_size == 2 << 20
