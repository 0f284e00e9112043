"""Files of figures: a study is one YAML file below reports/figures whose stem is its name; the JSON
Schema is exported from these models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from cnibench.claims.model import Claim
from cnibench.claims.units import UNITS
from cnibench.errors import InputError, UsageError
from cnibench.model.metrics import METRICS, OF_CPP_WINDOWS
from cnibench.model.profile import Strict, explain, read_yaml
from cnibench.planning.plan import Seconds
from cnibench.reproduction.said import Params, Value

FOLDER = Path(__file__).parents[1] / "reports" / "figures"
SHARES = (50, 90, 99)  # percentiles that every latency has
WIRE = "offload.wire"  # the condition; a run may have the same wire for all of its cells


class Series(Strict):
    """A bar or a line of a panel: ``name`` is the study's, ``profile`` cnibench's.

    ``published`` has a value for each place on the x axis; that of a bar is '', that of a stacked
    bar the component. ``level`` is a value that the study gives without its place, which ``words``
    explain.
    """

    name: str
    profile: str
    params: Params = {}
    published: dict[str | int, Value] = {}
    level: Value | None = None
    words: str = ""


class Panel(Strict):
    """One pair of axes. ``bars``: a bar for each series. ``lines``: over the parameter ``over``.
    ``parts``: a bar for each series, stacked from ``components`` (the study's names to those of
    cnibench). ``shares``: the share of requests that is answered within a latency.

    ``y`` is the study's axis, in ``unit``; ``differs`` says what is shown here instead.
    """

    title: str
    kind: Literal["bars", "lines", "parts", "shares"]
    x: str = ""
    over: str = ""
    y: str
    metric: str
    unit: str
    workload: str
    placement: Literal["intra", "inter"]
    params: Params = {}
    wire_offload: str = Field(default="", description="the wire's model; empty: any")
    ip: Literal[4, 6] | None = Field(default=None, description="the IP family; empty: the plan's")
    components: dict[str, tuple[str, ...]] = {}
    differs: str = ""
    series: tuple[Series, ...] = Field(min_length=1)

    @property
    def window(self) -> str:
        return "cpp" if self.metric in OF_CPP_WINDOWS else "speed"

    @property
    def factor(self) -> float:
        """Of ``unit`` in the metric's SI base unit."""
        return UNITS[self.unit][1]

    def asked(self, series: Series) -> Params:
        """What the parameters of the cells of a series must be."""
        return {**self.params, **series.params}

    @model_validator(mode="after")
    def _whole(self) -> Panel:
        if self.metric not in METRICS and self.kind != "shares":
            raise ValueError(f"unknown metric '{self.metric}'")
        if self.kind == "lines" and not self.over:
            raise ValueError("lines need the parameter that they are drawn over")
        if self.kind == "parts" and not self.components:
            raise ValueError("stacked bars need components")
        if self.unit not in UNITS:
            raise ValueError(f"unknown unit '{self.unit}'")
        if len({one.name for one in self.series}) < len(self.series):
            raise ValueError("a series occurs twice")
        return self


class Printed(Strict):
    """A table of words, as the study prints it."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Figure(Strict):
    """A figure or table of the study. ``number`` is the study's; ``also`` names others that show
    the same. ``findings`` are what the study says of it, ``claims`` those of them that are judged.
    ``model`` says what stands for the study's systems here, ``missing`` what cannot be measured and
    why.

    ``reduce``: a list keeps those values of a sweep of the plan, a single value replaces a
    parameter. ``blocks`` are the figure's own.
    """

    number: str = Field(pattern=r"^[0-9A-Za-z.]+$")
    label: str = Field(default="", description="empty: Figure and its number")
    title: str
    also: str = ""
    panels: tuple[Panel, ...] = ()
    printed: Printed | None = None
    findings: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    model: str = ""
    missing: str = ""
    reduce: Params = {}
    blocks: int | None = Field(default=None, ge=1)

    @property
    def called(self) -> str:
        """``Figure 7.2``, ``Table II``."""
        return self.label or f"Figure {self.number}"

    @model_validator(mode="after")
    def _whole(self) -> Figure:
        if not self.panels and not self.missing:
            raise ValueError("a figure without panels says in 'missing' why")
        return self


class Reduced(Strict):
    """The plan's keys that are changed to measure all figures within an hour on two cores."""

    method: Literal["windows", "slices"] = "windows"
    duration: Seconds
    warmup: Seconds
    blocks: int = Field(ge=1)


class Figures(Strict):
    """All figures and tables of a study; the plan of the same name measures them as published.
    ``drawings`` have no data.
    """

    schema_version: Literal[1] = Field(alias="schema")
    name: str = ""
    reduced: Reduced
    drawings: dict[str, str] = {}
    figures: tuple[Figure, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _numbers(self) -> Figures:
        numbers = [one.number for one in self.figures] + list(self.drawings)
        if twice := sorted({one for one in numbers if numbers.count(one) > 1}):
            raise ValueError(f"the figure {twice[0]} occurs twice")
        return self

    def chosen(self, numbers: tuple[str, ...]) -> tuple[Figure, ...]:
        """The figures with these numbers, all when empty; ``10b`` is figure 10 with that panel
        alone. Raises UsageError.
        """
        if not numbers:
            return self.figures
        known = {one.number: one for one in self.figures}
        wanted: dict[str, set[str]] = {}  # numbers to titles of panels
        for number in numbers:
            if number in self.drawings:
                raise UsageError(
                    f"figure {number} of {self.name} is a drawing without data:"
                    f" {self.drawings[number]}",
                    f"figures with data: {', '.join(known)}",
                )
            whole, letter = (number, "") if number in known else (number[:-1], f"({number[-1:]})")
            panels = known[whole].panels if whole in known else ()
            titles = {one.title for one in panels if one.title.startswith(letter)}
            if not titles and (letter or whole not in known):
                raise UsageError(
                    f"{self.name} has no figure '{number}'", f"it has: {', '.join(known)}"
                )
            wanted.setdefault(whole, set()).update(titles)
        return tuple(
            one.model_copy(
                update={"panels": tuple(p for p in one.panels if p.title in wanted[one.number])}
            )
            for one in self.figures
            if one.number in wanted
        )


def read_figures(path: Path) -> Figures:
    """The figures in that file. Raises InputError naming the file, the key and what was
    expected.
    """
    data: dict[str, Any] = dict(read_yaml(path))
    if "name" in data:
        raise InputError(
            f"{path}: name: the file's stem is the study's name", "remove the key 'name'"
        )
    try:
        return Figures.model_validate({**data, "name": path.stem})
    except ValidationError as error:
        said = explain(path, error)
        raise InputError(
            said.message, "schema.json in the figures' directory describes each key"
        ) from None


@cache
def _all() -> Mapping[str, Figures]:
    return {path.stem: read_figures(path) for path in sorted(FOLDER.glob("*.yaml"))}


def figures(study: str) -> Figures:
    """Those of a study. Raises UsageError for an unknown one."""
    if study not in _all():
        raise UsageError(f"there is no study '{study}'", f"there are: {', '.join(_all())}")
    return _all()[study]


def question(panel: Panel, series: Series, at: str | float) -> Claim:
    """What selects the values of one point, as the claims select theirs."""
    params = {key: one for key, one in panel.asked(series).items() if key != WIRE}
    if panel.kind == "lines":
        params = {**params, panel.over: at}
    return Claim(
        id="point",
        source="",
        sentence="",
        kind="equality",
        metric=f"{panel.metric}_p{at}" if panel.kind == "shares" else panel.metric,
        components=_components(panel, at),
        workload=(panel.workload,),
        placement=panel.placement,
        params=params,
        profiles=(series.profile,),
    )


def _components(panel: Panel, at: str | float) -> tuple[str, ...]:
    """Those of one part of a stacked bar, none for its total; all of the panel elsewhere."""
    if panel.kind == "parts":
        return panel.components[str(at)] if at else ()
    return tuple(name for names in panel.components.values() for name in names)


def schema_text() -> str:
    """The JSON Schema of a file of figures, as reports/figures/schema.json holds it; ``python -m
    cnibench.reproduction`` writes that file.
    """
    schema = Figures.model_json_schema()
    del schema["properties"]["name"]  # the file's stem
    for key in ("duration", "warmup"):
        kind = schema["$defs"]["Reduced"]["properties"]
        kind[key] = {"anyOf": [kind[key], {"type": "string"}]}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**head, **schema}, indent=2) + "\n"
