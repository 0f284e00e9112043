"""Every value in the Go benchmark format (golang.org/design/14313-benchmark-format), for
``benchstat -col profile``.
"""

from __future__ import annotations

import math
import re

from cnibench.analysis.model import Analysis, Result
from cnibench.model.context import PLACE_NAMES

_CONFIGURATION = ("testbed", "wire")  # lines of their own


class BenchstatReport:
    """One line a block: ``BenchmarkTcp-rr/placement=inter/... 1 41000 1/s``, under the
    configuration line of its profile.
    """

    name = "benchstat"
    suffix = ".txt"

    def render(self, analysis: Analysis) -> str:
        # Once for the whole file: benchstat parts its tables where a configuration differs, the
        # baseline's fidelity from the others' too.
        fidelity = "+".join(sorted({result.fidelity for result in analysis.results}))
        lines = [
            f"tool: cnibench {_word(analysis.run.tool_version)}",
            f"fidelity: {_word(fidelity)}",
        ]
        units = {_unit(result): result.better for result in analysis.results}
        lines += [f"Unit {unit} better={better}" for unit, better in units.items()]
        for label in analysis.labels:
            mine = [result for result in analysis.results if result.label == label]
            if mine:
                lines += ["", f"profile: {_word(label)}"]
                lines += [f"testbed: {_word(mine[0].testbed)}", f"wire: {_word(mine[0].wire)}"]
            for result in mine:
                name, unit = _name(result), _unit(result)
                lines += [
                    f"{name} 1 {value!r} {unit}" for value in result.values if math.isfinite(value)
                ]
        return "\n".join(lines) + "\n"


def _name(result: Result) -> str:
    parts = {
        name: getattr(result, name)
        for name in PLACE_NAMES
        if name not in ("workload", "params", *_CONFIGURATION)
    }
    parts |= {"environment": result.environment} if result.environment else {}
    parts |= result.params
    workload = _word(result.workload)
    return f"Benchmark{workload[:1].upper()}{workload[1:]}" + "".join(
        f"/{_word(key)}={_word(value)}" for key, value in parts.items()
    )


def _unit(result: Result) -> str:
    """The metric belongs to the unit: benchstat keeps apart what has different units."""
    return f"{_word(result.metric)}-{_word(result.unit, '/')}"


def _word(value: object, also: str = "") -> str:
    """Without white space, and without the marks that part a benchmark's name."""
    return re.sub(rf"[^A-Za-z0-9_.:,%+{also}-]", "_", str(value)) or "_"


PROVIDER = BenchstatReport()
