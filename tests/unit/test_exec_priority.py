"""The harness goes before its load, and no program that it starts does."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from cnibench.system import process as programs

PRINTED = "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"


def test_programs_have_the_priority_that_we_were_given() -> None:
    given = os.getpriority(os.PRIO_PROCESS, 0)

    def there() -> tuple[int, int]:
        programs.ahead()
        done = programs.run([sys.executable, "-I", "-S", "-c", PRINTED], timeout=30)
        return os.getpriority(os.PRIO_PROCESS, 0), int(done.stdout)

    with ThreadPoolExecutor(max_workers=1) as pool:  # on Linux the priority is that of a thread
        own, child = pool.submit(there).result()
    assert own in (given, min(given, -10)), "whoever may not go ahead stays"
    assert child == given
    assert os.getpriority(os.PRIO_PROCESS, 0) == given


def test_a_run_that_somebody_has_reniced_goes_on() -> None:
    """An ordinary user may not take that back for the programs that it starts."""
    program = (
        "import os; from cnibench.system import process as programs;"
        " os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + 3); os.geteuid()"
        " == 0 and os.setuid(65534); print(programs.run(['true'], timeout=30).returncode)"
    )
    assert programs.run([sys.executable, "-c", program], timeout=60).stdout == "0\n"
