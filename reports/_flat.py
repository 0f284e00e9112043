"""Results as rows of plain values, with the ratio to the baseline: what CSV and Parquet hold."""

from __future__ import annotations

import json
from typing import Any

from cnibench.analysis.model import Analysis, Pair
from cnibench.analysis.text.narrative import place_of
from cnibench.model.context import PLACE_NAMES, sql

_TYPES = {name: "VARCHAR" if name == "params" else sql(name) for name in PLACE_NAMES}
COLUMNS = {
    "run": "VARCHAR",
    "profile": "VARCHAR",
    "label": "VARCHAR",
    **_TYPES,
    "fidelity": "VARCHAR",
    "proxy": "VARCHAR",
    "cycles_source": "VARCHAR",
    "metric": "VARCHAR",
    "unit": "VARCHAR",
    "better": "VARCHAR",
    "n": "BIGINT",
    "failed": "BIGINT",
    "tried": "BIGINT",
    "disturbed": "BIGINT",
    "mean": "DOUBLE",
    "median": "DOUBLE",
    "ci_low": "DOUBLE",
    "ci_high": "DOUBLE",
    "confidence": "DOUBLE",
    "letters": "VARCHAR",
    "baseline": "VARCHAR",
    "ratio": "DOUBLE",
    "ratio_ci_low": "DOUBLE",
    "ratio_ci_high": "DOUBLE",
    "p_holm": "DOUBLE",
    "verdict": "VARCHAR",
}


def rows(analysis: Analysis) -> list[dict[str, Any]]:
    """One row a result, its keys those of COLUMNS in their order; ``verdict`` is better, worse,
    no-difference-found or inconclusive.
    """
    base = analysis.baseline
    pairs: dict[tuple[Any, ...], Pair] = {}
    for pair in analysis.pairs:
        if base in (pair.a, pair.b):
            pairs[
                (pair.b if pair.a == base else pair.a),
                pair.metric,
                json.dumps(pair.reading),
                place_of(pair),
            ] = pair
    letters = {
        (group.metric, json.dumps(group.reading), place_of(group)): group.letters
        for group in analysis.groups
    }
    run = ",".join(run.id for run in analysis.runs)
    found = []
    for result in analysis.results:
        reading = json.dumps(result.reading)
        values = {name: getattr(result, name) for name in COLUMNS if hasattr(result, name)}
        values |= {
            "run": run,
            "params": json.dumps(result.params, sort_keys=True),
            "baseline": base,
        }
        values["letters"] = letters[result.metric, reading, place_of(result)].get(result.label)
        values |= _ratio(
            pairs.get((result.label, result.metric, reading, place_of(result))), result.label
        )
        found.append({name: values[name] for name in COLUMNS})
    return found


def _ratio(pair: Pair | None, label: str) -> dict[str, Any]:
    if pair is None:
        return dict.fromkeys(("ratio", "ratio_ci_low", "ratio_ci_high", "p_holm", "verdict"))
    verdict: str = pair.verdict
    if verdict in ("a-better", "b-better"):
        verdict = "better" if (verdict == "a-better") == (pair.a == label) else "worse"
    numbers = (pair.ratio, pair.ci_low, pair.ci_high)
    if pair.a != label:
        numbers = tuple(
            None if number is None else 1 / number
            for number in (pair.ratio, pair.ci_high, pair.ci_low)
        )  # type: ignore[assignment]
    return {
        "ratio": numbers[0],
        "ratio_ci_low": numbers[1],
        "ratio_ci_high": numbers[2],
        "p_holm": pair.p_holm,
        "verdict": verdict,
    }
