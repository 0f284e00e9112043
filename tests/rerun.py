"""pytest, and then each test that failed once more, with no other test beside it.

``python tests/rerun.py ARGUMENTS OF PYTEST``. For the suites that measure: a window that another
test delayed says nothing about cnibench. A test that fails twice fails the suite, the first failure
is printed, too, and more than ``LIMIT`` failures are not blamed on the machine; a fixture of a file
that fails is one of them, however many tests wait for it. An error of pytest itself is never tried
again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

LIMIT = 5


def main(arguments: list[str]) -> int:
    """The exit status of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "junit.xml"
        status = _pytest(*arguments, "--junitxml", str(results))
        if status != pytest.ExitCode.TESTS_FAILED:
            return status
        failed = len(failures(results))
    if failed > LIMIT:
        print(f"rerun: {failed} tests failed, more than {LIMIT}: none is tried again", flush=True)
        return status
    print("rerun: the tests that failed, one at a time", flush=True)
    again = ("--last-failed", "--last-failed-no-failures", "none", "--numprocesses", "0")
    return _pytest(*arguments, *again)


def failures(results: Path) -> list[str]:
    """The tests that failed, and the files whose fixtures did, from a file of ``--junitxml``."""
    cases = list(ElementTree.parse(results).iter("testcase"))
    tests = {
        f"{case.get('classname')}.{case.get('name')}"
        for case in cases
        if case.find("failure") is not None
    }
    files = {str(case.get("classname")) for case in cases if case.find("error") is not None}
    return sorted(tests | files)


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
