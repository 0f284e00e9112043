"""The table of docs/attestation.md about sabotages, made of what was found
(sabotages-found.json).

    python -m tests.lab._sabotage_table FILE PROFILE...    tries these profiles (root)
    python -m tests.lab._sabotage_table --write            makes the table of the page

Profiles that this kernel cannot run are tried in a VM: see tests/e2e/test_vm_models.py.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cnibench.clusters.lab.namespaces import tree
from tests.lab._sabotage import SABOTAGES, deploy, model_of, outcomes

FOUND = Path(__file__).parent / "sabotages-found.json"
PAGE = Path(__file__).parents[2] / "docs" / "attestation.md"
BEGIN, END = "<!-- begin: sabotages -->", "<!-- end: sabotages -->"
_HEADS = (
    "model",
    "kernel",
    "date",
    "sabotages",
    "by comparison",
    "by traffic alone",
    "not noticed",
)

# Profile to {kernel, date, noticed: {sabotage: comparison|traffic|nothing}}, or {not_tried: why}.
Found = Mapping[str, Mapping[str, Any]]


def tried(profile: str) -> dict[str, Any]:
    """What noticed each of its sabotages. Raises AssertionError where that is not as their file
    says.
    """
    found = list(outcomes(lambda: deploy(profile, 1), profile))
    wrong = [f"{one.name}: {one.wrong}" for one in found if one.wrong]
    assert not wrong, wrong
    release = re.match(r"[\d.]*\d", platform.release())
    assert release is not None
    return {
        "kernel": release[0],
        "date": datetime.now(UTC).date().isoformat(),
        "noticed": {one.name: one.noticed for one in found},
    }


def recorded() -> Found:
    found: Found = json.loads(FOUND.read_text(encoding="utf-8"))
    return found


def table(found: Found) -> str:
    """A row for each model, the sum, and what a comparison does not notice, with the reason."""
    models: dict[str, list[str]] = {}
    for profile in SABOTAGES:
        models.setdefault(model_of(profile), []).append(profile)
    rows, all_ = [], []
    for model, profiles in sorted(models.items()):
        tried_ = [found[one] for one in profiles if "noticed" in found[one]]
        noticed = [what for one in tried_ for what in one["noticed"].values()]
        all_ += noticed
        if noticed:
            kernels, dates = (sorted({one[key] for one in tried_}) for key in ("kernel", "date"))
            rows.append([model, ", ".join(kernels), ", ".join(dates), *_counts(noticed)])
        rows += [
            [model, "-", "-", f"{len(SABOTAGES[one])} not tried: {found[one]['not_tried']}", *"---"]
            for one in profiles
            if "noticed" not in found[one]
        ]
    share = all_.count("comparison") / len(all_)
    rows.append(["all", "", "", *_counts(all_)])
    lines = [_line(_HEADS), _line(["---"] * len(_HEADS)), *map(_line, rows), ""]
    lines += [f"A comparison noticed {100 * share:.1f} %. It did not notice:", ""]
    for profile, its in SABOTAGES.items():
        for one in its:
            if one.noticed != "comparison":
                traffic = "noticed by traffic; " * (one.noticed == "traffic")
                lines.append(f"- {profile}: {one.name} ({traffic}{one.reason})")
    return "\n".join(lines)


def _counts(noticed: Sequence[str]) -> list[str]:
    return [
        str(len(noticed)),
        *(str(noticed.count(one)) for one in ("comparison", "traffic", "nothing")),
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def on_page(page: str) -> str:
    """The table as the page has it."""
    return page.partition(BEGIN)[2].partition(END)[0].strip()


def with_table(page: str, text: str) -> str:
    head, _, rest = page.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}"


def main(words: Sequence[str]) -> int:
    """Records each profile as soon as its sabotages have been tried."""
    file = Path(words[0])
    for profile in words[1:]:
        found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        try:
            found[profile] = tried(profile)
        except AssertionError as error:
            print(f"{profile}: {error}", flush=True)
            continue
        file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(profile, len(found[profile]["noticed"]), flush=True)
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_table(page, table(recorded())), encoding="utf-8")
    else:
        raise SystemExit(tree.carry(lambda: main(sys.argv[1:])))
