"""How messages say that a program ended, and which path they name where none can be written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cnibench.system import process as programs
from cnibench.system import scratch


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("raise SystemExit(3)", "ended with 3: (no output)"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL: (no output)"),
        ("import os; print('so', flush=True); os.abort()", "was killed by SIGABRT: so"),
    ],
)
def test_how_a_program_ended(program: str, words: str) -> None:
    done = programs.run([sys.executable, "-c", program], timeout=60, check=False)
    assert done.words().endswith(f" {words}")


def test_a_signal_without_a_name() -> None:
    assert programs.ending(-40) == "was killed by signal 40"
    assert programs.ending(0) == "ended with 0"


def test_a_folder_beside_what_cannot_be_written_is_named_as_the_user_knows_it() -> None:
    with pytest.raises(FileNotFoundError) as error, scratch.folder(Path("/proc/x")):
        pass
    assert error.value.filename == "/proc/x"
