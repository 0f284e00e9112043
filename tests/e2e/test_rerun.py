"""The suites that measure try a test that failed once more, and no test passes that fails twice."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

_FILE = Path(__file__).parents[1] / "rerun.py"
_ONCE = """
from pathlib import Path
def test_once():
    before = Path('mark').exists()
    Path('mark').touch()
    assert before
"""  # fails once
_Rerun = Callable[[str], tuple[int, str]]


@pytest.fixture
def rerun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> _Rerun:
    """With no plug-in but the one that it needs: it starts pytest twice."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CNIBENCH_RERUN", raising=False)
    monkeypatch.setenv("TOX_ENV_DIR", str(tmp_path))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    spec = importlib.util.spec_from_file_location("rerun", _FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def carry_out(tests: str) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(tests)
        words = ["-q", "-p", "xdist.plugin", "--rootdir", str(tmp_path), "test_it.py"]
        status = module.main(words)
        return status, capfd.readouterr().out

    return carry_out


def test_a_test_that_fails_twice_fails_the_suite(rerun: _Rerun) -> None:
    status, said = rerun(
        _ONCE + "def test_always():\n    assert False\ndef test_never():\n    pass\n"
    )
    assert status == pytest.ExitCode.TESTS_FAILED
    first, second = said.split("rerun: the tests that failed, one at a time")
    assert "2 failed, 1 passed" in first
    assert "1 failed, 1 passed" in second


def test_a_test_that_fails_once_is_printed_and_passes(rerun: _Rerun) -> None:
    status, said = rerun(_ONCE)
    assert status == pytest.ExitCode.OK
    assert "1 failed" in said


def test_what_failed_beside_other_suites_is_tried_when_they_have_ended(
    rerun: _Rerun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = _ONCE + "def test_always():\n    assert False\ndef test_never():\n    pass\n"
    monkeypatch.setenv("CNIBENCH_RERUN", "later")
    status, said = rerun(tests)
    assert status == pytest.ExitCode.OK
    assert "2 tests failed and are tried again later" in said
    assert (tmp_path / "again").exists()
    monkeypatch.setenv("CNIBENCH_RERUN", "only")
    status, said = rerun(tests)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 1 passed" in said
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("tests", ["def test_it():\n    pass\n", "import no_such_module\n"])
def test_nothing_is_left_for_later_of_a_success_or_an_error_of_pytest(
    rerun: _Rerun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tests: str
) -> None:
    monkeypatch.setenv("CNIBENCH_RERUN", "later")
    status, _ = rerun(tests)
    assert status == (pytest.ExitCode.INTERRUPTED if "no_such" in tests else pytest.ExitCode.OK)
    assert not (tmp_path / "again").exists()


def test_a_fixture_that_fails_counts_once(rerun: _Rerun) -> None:
    status, said = rerun(
        "from pathlib import Path\n"
        "import pytest\n"
        "@pytest.fixture(scope='module')\n"
        "def kept():\n"
        "    before = Path('mark').exists()\n"
        "    Path('mark').touch()\n"
        "    assert before\n"
        "@pytest.mark.parametrize('n', range(6))\n"
        "def test_it(kept, n):\n"
        "    pass\n"
    )
    assert status == pytest.ExitCode.OK
    assert "6 errors" in said


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        (
            "import pytest\n"
            "@pytest.mark.parametrize('n', range(6))\n"
            "def test_it(n):\n"
            "    assert False\n",
            pytest.ExitCode.TESTS_FAILED,
        ),
        ("import no_such_module\n", pytest.ExitCode.INTERRUPTED),
    ],
)
def test_many_failures_and_errors_of_pytest_are_final(
    rerun: _Rerun, tests: str, expected: pytest.ExitCode
) -> None:
    status, said = rerun(tests)
    assert status == expected
    assert "one at a time" not in said
