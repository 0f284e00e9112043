"""python tests/e2e/kind: builds all parts and prints the environment for using them, as lines for a
shell.

--ahead: only begins to build them, in the background, for as long as the program that called this
one runs. --help: says this, and builds nothing.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kind import ahead, parts

_USAGE = "usage: python tests/e2e/kind [--ahead | --help]"


def main(words: list[str]) -> None:
    if {"-h", "--help"} & set(words):
        print(f"{__doc__}\n{_USAGE}")
        return
    if words == ["--ahead"]:
        ahead.begin(os.getppid())
        return
    if words[:1] == ["--ahead-of"]:
        ahead.attend(int(words[1]), parts.build_what_can_be)
        return
    if words:
        sys.exit(f"there is no option {words[0]}; {_USAGE}")
    with contextlib.redirect_stdout(sys.stderr):
        built = parts.build()
    for name, value in built.environment().items():
        print(f"export {name}={shlex.quote(value)}")
    for name, path in {
        "BASE": built.base,
        "FLANNEL": built.flannel,
        "CILIUM": built.cilium,
    }.items():
        print(f"export CNIBENCH_E2E_{name}_ARCHIVE={shlex.quote(str(path))}")
    for name, path in built.charts.items():
        print(f"export CNIBENCH_E2E_{name.upper()}_CHART={shlex.quote(str(path))}")
    print(f"export CNIBENCH_E2E_NODE_IMAGE={built.node_image}")


if __name__ == "__main__":
    main(sys.argv[1:])
