"""``cnibench rulepath`` on a run directory, and ``cnibench offload`` on whatever this machine
has.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cnibench.offload.tunnel_support import ORDER, TUNNELS
from cnibench.rundir.schema import coordinates
from tests.unit._call import call
from tests.unit._runs import synthetic


def run_with_paths(folder: Path, chains: list[str]) -> Path:
    """A run whose blocks met those chains, one a block."""
    reader = synthetic(folder, {"flannel": 1.0}, blocks=len(chains), cpp=False)
    cell = next(one for one in reader.plan.cells if one.placement == "inter")
    lines = []
    for block, name in enumerate(chains):
        visit = {"family": "ip", "table": "filter", "chain": name, "evaluated": 3, "matched": 1}
        path = [{"hook": "forward", "chains": [visit]}]
        counts: dict[str, Any] = {"hooks": 10, "chains": 1, "rules": 3, "matched": 1}
        lines.append(
            {
                **coordinates(cell, block),
                "schema": 1,
                "packet": "first",
                **counts,
                "nodes": [{"node": "a", **counts, "path": path}],
            }
        )
    (reader.path / "rulepath.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return reader.path


def test_counts_stand_beside_the_published_ones(tmp_path: Path) -> None:
    path = run_with_paths(tmp_path, ["FORWARD", "FORWARD"])
    told = call(["rulepath", str(path), "--json"])
    (row,) = json.loads(told.stdout)["rows"]
    assert (row["hooks"], row["published"], row["agree"], row["blocks"]) == (
        10,
        {"hooks": 10, "rules": 21},
        True,
        2,
    )
    shown = call(["rulepath", str(path), "--chains"])
    assert shown.exit_code == 0
    assert "FORWARD" in shown.stdout
    assert "different rules" not in shown.stderr


def test_blocks_that_met_other_rules_are_reported(tmp_path: Path) -> None:
    told = call(["rulepath", str(run_with_paths(tmp_path, ["FORWARD", "OTHER"]))])
    assert "the blocks met different rules" in told.stderr


def test_a_run_without_paths_says_what_to_do(tmp_path: Path) -> None:
    told = call(["rulepath", str(synthetic(tmp_path, {"flannel": 1.0}, blocks=1).path)])
    assert told.exit_code == 2
    assert "--workload rule-path" in told.stderr


def test_offload_judges_every_nic_for_every_tunnel() -> None:
    told = json.loads(call(["offload", "--all", "--json"]).stdout)
    assert told["schema"] == 1
    assert len(told["tunnels"]) == len(told["nics"]) * len(TUNNELS)
    assert {one["outcome"] for one in told["tunnels"]} <= set(ORDER)
    for nic in told["nics"]:
        outcomes = {one["outcome"] for one in told["tunnels"] if one["nic"] == nic["name"]}
        assert not nic["virtual"] or outcomes == {"software-only"}
    assert told["profiles"][0]["outcome"] == "no tunnel"
    named = {one["profile"] for one in told["profiles"]}
    assert "flannel" in named
    assert not named & {"xdp", "evpn-mpls", "kindnet"}  # no model in the lab
    assert call(["offload"]).exit_code == 0
