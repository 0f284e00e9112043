"""``python tests/mutation [named | GROUP]...``: measures and writes docs/mutation.md.

Without arguments: the named mutations and all groups of modules (pyproject.toml,
tool.cnibench-mutation). With some: these only; the page keeps the others' last results. The exit
status is 1 when a named mutation survives or a group is below its limit.
CNIBENCH_MUTATION_SECONDS ends the search after that time; the next run goes on from there.
"""

from __future__ import annotations

import os
import sys
import time

import named
import page
import score


def main() -> int:
    asked = sys.argv[1:]
    groups = score.groups()
    if unknown := set(asked) - {"named", *groups}:
        print(f"no such group: {', '.join(sorted(unknown))}; there are {', '.join(groups)}")
        return 2
    status = 0
    mutations = named.load()
    if not asked or "named" in asked:
        chosen = [one for one in mutations if os.geteuid() == 0 or not one.root]
        status |= bool(named.survivors(chosen))
    until = time.monotonic() + float(os.environ.get("CNIBENCH_MUTATION_SECONDS", "inf"))
    for name, group in groups.items():
        if (not asked or name in asked) and time.monotonic() < until:
            found = score.measure(group, until)
            page.keep(name, found)
            status |= any(one.score < group.least for one in found)
    page.write(mutations, groups)
    return status


if __name__ == "__main__":
    sys.exit(main())
