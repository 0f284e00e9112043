"""pytest, and then each test that failed once more, with no other test beside it.

``python tests/rerun.py ARGUMENTS OF PYTEST``. For the suites that measure: a window that another
test delayed says nothing about cnibench. A test that fails twice fails the suite, the first failure
is printed, too, and more than ``LIMIT`` failures are not blamed on the machine; a fixture of a file
that fails is one of them, however many tests wait for it. An error of pytest itself is never tried
again.

Suites that run at the same time disturb each other, and so would a second try there. With
CNIBENCH_RERUN=later failures that may be tried again are no error yet: a file ``again`` in the
environment's folder (TOX_ENV_DIR) says that there are some, and CNIBENCH_RERUN=only tries them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

LIMIT = 5
_AGAIN = ("--last-failed", "--last-failed-no-failures", "none", "--numprocesses", "0")


def main(arguments: list[str]) -> int:
    """The exit status of pytest, 0 when its failures are left for later."""
    when = os.environ.get("CNIBENCH_RERUN", "now")
    left = Path(os.environ.get("TOX_ENV_DIR", ".")) / "again"
    left.unlink(missing_ok=True)
    if when == "only":
        return _pytest(*arguments, *_AGAIN)
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "junit.xml"
        status = _pytest(*arguments, "--junitxml", str(results))
        if status != pytest.ExitCode.TESTS_FAILED:
            return status
        failed = len(failures(results))
    if failed > LIMIT:
        print(f"rerun: {failed} tests failed, more than {LIMIT}: none is tried again", flush=True)
        return status
    if when == "later":
        print(f"rerun: {failed} tests failed and are tried again later, alone", flush=True)
        left.touch()
        return pytest.ExitCode.OK
    print("rerun: the tests that failed, one at a time", flush=True)
    return _pytest(*arguments, *_AGAIN)


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
