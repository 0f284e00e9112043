"""Models that need a stock kernel's modules: Weave's state, the sabotages of those that were tried,
Services by ipvs, and the rows of docs/fidelity.md, in one VM. Where the VM is emulated this takes
half an hour.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from _vm_guest import LONG, in_guest

from cnibench.model.profile import builtin
from tests.lab import _fidelity_table as fidelity
from tests.lab._profiles import lacking
from tests.lab._sabotage import SABOTAGES
from tests.lab._sabotage_table import recorded

ROOT = Path(__file__).parents[2]
_EACH = "tests/lab/test_sabotages.py::test_each_is_noticed_as_the_file_says_and_undone"
PAGE = (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.timeout(LONG + 60)


def test_weaves_state_and_each_models_row_on_a_stock_kernel(tmp_path: Path) -> None:
    sabotaged = [name for name in SABOTAGES if name.startswith("weave")]
    # those that the page calls not tried take longer than this machine may
    sabotaged += [name for name in SABOTAGES if lacking(name) and "noticed" in recorded()[name]]
    sabotaged = list(dict.fromkeys(sabotaged))
    tests = ["tests/lab/test_weave.py"]
    tests += [f"{_EACH}[{name}]" for name in sabotaged]
    # the guest emulates its processor: what is short on a machine is long there
    options = ["-q", "-p", "no:cacheprovider", "-o", "timeout=0"]
    pytest_ = _python("-m", "pytest", *options, f"--junitxml={tmp_path}/found.xml", *tests)
    names = [name for name in builtin() if name in fidelity.table(PAGE) and lacking(name)]
    rows = _python("-m", "tests.lab._fidelity_table", *names)
    services = ["tests/lab/test_services.py", "-k", "ipvs"]
    ipvs = _python("-m", "pytest", *options, f"--junitxml={tmp_path}/services.xml", *services)
    # the rows first, Weave's last: from then on this kernel tracks connections in all Pods
    in_guest(f"cd {ROOT} && {rows} > {tmp_path}/rows; {ipvs}; {pytest_}", tmp_path)
    for file, least in (("services.xml", 9), ("found.xml", 12 + len(sabotaged))):
        cases = list(ElementTree.parse(tmp_path / file).iter("testcase"))
        assert len(cases) >= least, file
        assert not [case.get("name") for case in cases if len(case)]  # failed or skipped
    found = (tmp_path / "rows").read_text().splitlines()
    assert found == [fidelity.table(PAGE)[name] for name in names]


def _python(*words: str) -> str:
    return shlex.join([sys.executable, "-B", *words])
