"""How much deployments of one profile differ from each other, for each profile of the lab: a table
of calibrations.

    sudo python benchmarks/spread.py --into DIR [--rounds 2] [PROFILE...]
    python benchmarks/spread.py --into DIR --read [--write docs/statistics.md]

The first carries out 'cnibench calibrate' for each profile (by default all with IPv4 that this
kernel can run) with tcp-rr and tcp-stream in both placements, and keeps the runs in DIR. Both print
a table of all calibrations in DIR; ``--write`` puts it into a page, between its marks. Standard
deviations are those of one deployment, of one block and of what the slices add to a block, as a
percentage of the main metric, with 95 % intervals; the load is that of the machine when the
profile's calibration began.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cnibench.clusters.lab import kernel
from cnibench.clusters.lab.builders.base import builder_of
from cnibench.model.profile import Profile, builtin

BEGIN, END = "<!-- begin: spread -->", "<!-- end: spread -->"
_HEADS = (
    "Profile",
    "Workload",
    "Placement",
    "Deployments",
    "Between deployments",
    "Between blocks",
    "Slices of a block",
    "Load",
)
_ALIGNED = ("---", "---", "---", "--:", "---", "---", "---", "--:")


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    asked.add_argument("--into", type=Path, required=True)
    asked.add_argument("--rounds", type=int, default=2)
    asked.add_argument("--read", action="store_true")
    asked.add_argument("--write", type=Path)
    asked.add_argument("profiles", nargs="*")
    given = asked.parse_args()
    if not given.read:
        for name in given.profiles or sorted(_deployable()):
            _calibrate(name, given.rounds, given.into)
    text = "\n".join(table(given.into))
    if given.write:
        head, _, rest = given.write.read_text(encoding="utf-8").partition(BEGIN)
        tail = rest.partition(END)[2]
        given.write.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")
    else:
        print(text)
    return 0


def _deployable() -> Iterator[str]:
    for name, profile in builtin().items():
        if profile.datapath and 4 in profile.features.ip and _runs_here(profile):
            yield name


def _runs_here(profile: Profile) -> bool:
    builder, _ = builder_of(profile)
    assert profile.datapath is not None
    needs = (*builder.needs, *profile.datapath.needs)
    return all(kernel.found(needs).get(need, False) for need in needs)


def _calibrate(name: str, rounds: int, into: Path) -> None:
    argv = [str(Path(sys.executable).parent / "cnibench"), "calibrate", "--cni", name]
    argv += ["--rounds", str(rounds), "--workload", "tcp-rr,tcp-stream"]
    argv += ["--placement", "intra,inter", "--out", str(into)]
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 1):  # 1: some samples failed
        print(f"{name}: cnibench calibrate ended with {done.returncode}", file=sys.stderr)


def table(folder: Path) -> Iterator[str]:
    """Lines of Markdown: each place of each calibration."""
    rows = sorted(row for path in folder.glob("*/calibration.json") for row in _rows(path.parent))
    for cells in (_HEADS, _ALIGNED, *rows):
        yield f"| {' | '.join(cells)} |"
    facts = [_read(path) for path in sorted(folder.glob("*/env.json"))]
    systems = sorted({f"Linux {one['kernel']}, {one['cpus']} CPUs" for one in facts})
    loads = [one["load"][0] for one in facts]
    if loads:
        yield ""
        yield f"{'; '.join(systems)}; load {min(loads):.0f} to {max(loads):.0f}."


def _rows(run: Path) -> Iterator[tuple[str, ...]]:
    found, load = _read(run / "calibration.json"), _read(run / "env.json")["load"][0]
    profile = " and ".join(
        sorted({one["name"] for one in _read(run / "plan.json")["profiles"].values()})
    )
    for floor in found["floors"]:
        spread = floor["spread"]
        parts = (_part(spread[name]) for name in ("deployments", "blocks", "slices"))
        number = str(spread["deployments_measured"])
        yield (profile, floor["workload"], floor["placement"], number, *parts, f"{load:.0f}")


def _part(part: dict[str, float] | None) -> str:
    if part is None:
        return "unknown"
    return f"{part['sd']:.2%} [{part['low']:.2%}, {part['high']:.2%}]"


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
