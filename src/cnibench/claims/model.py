"""Claims: a study is one YAML file below reports/claims whose stem is its name; the JSON Schema is
exported from these models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, ValidationError, model_validator

from cnibench.claims.units import UNITS
from cnibench.errors import InputError
from cnibench.model.metrics import METRICS
from cnibench.model.profile import Strict, explain, read_yaml

FOLDER = Path(__file__).parents[1] / "reports" / "claims"

Kind = Literal[
    "order",
    "ranking",
    "ratio",
    "value",
    "equality",
    "range",
    "absence",
    "share",
    "trend",
    "statement",
]
Names = tuple[str, ...]
Bound = Annotated[float, Field(ge=0.0)]

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "order": ("higher", "lower"),
    "ranking": ("published", "unit"),
    "ratio": ("higher", "lower", "ratio"),
    "value": ("published", "unit"),
    "equality": ("profiles",),
    "absence": ("profiles",),
    "range": ("profiles", "between", "unit"),
    "share": ("profiles", "between"),
    "trend": ("profiles", "sweep", "direction"),
    "statement": ("untestable",),
}


class Preconditions(Strict):
    """What must be so that a run can speak about the claim; empty: anything will do. Each is
    fulfilled by any one of its values.
    """

    testbed: Names = ()
    wire: Names = ()
    wire_offload: Names = Field(
        default=(), description="the offload model of the wire; of a NIC: what it offloads"
    )
    fidelity: Names = ()
    mtu: tuple[int, ...] = Field(default=(), description="MTU between the nodes, in bytes")
    conditions: dict[str, Names] = Field(
        default={},
        description="what a condition of the cell must be; default: the cell does not set it",
    )
    cycles: Literal["", "pmu"] = Field(default="", description="pmu: estimated cycles will not do")
    cpu: str = Field(
        default="", description="part of the CPU model's name: absolute figures belong to a machine"
    )
    kernel: str = Field(default="", description="the beginning of the kernel's release")
    releases: str = Field(
        default="",
        description="releases of the CNIs that the figure belongs to, where it changes with them",
    )


class Sweep(Strict):
    """The two ends of a series: a parameter of the workload from one value to another; a start of 0
    is also met by an absent one.
    """

    param: str
    start: int | float | str
    end: int | float | str


class Claim(Strict):
    """One finding. Profiles are named as cnibench names them; figures are the study's own, in the
    study's ``unit``.

    ``order``: every profile of ``higher`` has a greater value than every one of ``lower``, whatever
    is better. ``ranking``: of any two
    ``published`` figures that are more than ``within`` apart, the greater belongs to the greater of
    ours. ``ratio``: each of ``higher`` over each of ``lower`` is ``ratio``. ``value``: ours is the
    published figure. ``range``: the values of the ``profiles`` lie ``between`` two. ``equality``:
    they do not differ. ``absence``: they are at most ``at_most``. ``share``: the components are
    ``between`` those parts of the total cycles. ``trend``: from one end of the sweep to the other
    the value falls, rises (by ``ratio``, if given) or stays. ``statement``: nothing to measure.
    Wherever figures are equal, they are so ``within`` that fraction.
    """

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    source: str = Field(description="table, figure or section of the study")
    sentence: str
    kind: Kind
    metric: str = ""
    components: Names = Field(
        default=(), description="components of the cycles per packet, added up; empty: their total"
    )
    workload: Names = Field(default=(), description="any of these")
    placement: Literal["", "intra", "inter"] = ""
    params: dict[str, JsonValue] = Field(
        default={},
        description="what the workload's parameters must be; 0 is also met by an absent one",
    )
    higher: Names = ()
    lower: Names = ()
    profiles: Names = ()
    published: dict[str, float] = {}
    unit: str = ""
    ratio: float | None = Field(default=None, gt=0.0)
    within: float = Field(default=0.05, ge=0.0, lt=1.0)
    at_most: float = Field(default=0.0, ge=0.0)
    between: tuple[Bound, Bound] | None = None
    sweep: Sweep | None = None
    direction: Literal["", "rises", "falls", "stays"] = ""
    words: str = Field(default="", description="the published figure where it is a range or a word")
    preconditions: Preconditions = Preconditions()
    by_construction: str = Field(default="", description="why the lab's model makes it true")
    untestable: str = Field(
        default="", description="why no run of cnibench can say anything about it"
    )
    contradicts: Names = Field(
        default=(), description="claims of the same study that cannot be true together with it"
    )

    @property
    def named(self) -> Names:
        """Every profile that it speaks of, each once."""
        return tuple(dict.fromkeys((*self.higher, *self.lower, *self.profiles, *self.published)))

    @model_validator(mode="after")
    def _whole(self) -> Claim:
        missing = [name for name in _NEEDED[self.kind] if not getattr(self, name)]
        if missing:
            raise ValueError(f"a claim of kind '{self.kind}' needs {', '.join(missing)}")
        if (
            self.kind != "statement"
            and not self.untestable
            and (self.metric not in METRICS or not self.workload)
        ):
            raise ValueError(
                "a claim that can be tested needs a metric of the closed set and a workload"
            )
        if self.metric and self.metric not in METRICS:
            raise ValueError(f"unknown metric '{self.metric}'")
        if self.unit and (
            self.unit not in UNITS
            or (self.metric and UNITS[self.unit][0] != METRICS[self.metric].unit)
        ):
            raise ValueError(f"'{self.unit}' is no unit of {self.metric}")
        if self.components and self.metric != "cycles_per_packet":
            raise ValueError("components are of cycles_per_packet")
        return self


class Study(Strict):
    """A published work and its findings."""

    schema_version: Literal[1] = Field(alias="schema")
    name: str = ""
    title: str
    authors: str
    published: str
    url: str = ""
    preconditions: Preconditions = Field(
        default=Preconditions(),
        description="of all claims; a claim's own values take the place of these",
    )
    claims: tuple[Claim, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _identities(self) -> Study:
        ids = [claim.id for claim in self.claims]
        if twice := sorted({one for one in ids if ids.count(one) > 1}):
            raise ValueError(f"the id {twice[0]} occurs twice")
        if unknown := [one for claim in self.claims for one in claim.contradicts if one not in ids]:
            raise ValueError(f"there is no claim {unknown[0]} to contradict")
        return self

    def asked(self, claim: Claim) -> Preconditions:
        """The preconditions of one of its claims, those of the whole study included."""
        own = claim.preconditions
        return self.preconditions.model_copy(
            update={name: getattr(own, name) for name in own.model_fields_set}
        )


def read_study(path: Path) -> Study:
    """The study in that file. Raises InputError naming the file, the key and what was expected."""
    data: dict[str, Any] = dict(read_yaml(path))
    if "name" in data:
        raise InputError(
            f"{path}: name: the file's stem is the study's name", "remove the key 'name'"
        )
    try:
        return Study.model_validate({**data, "name": path.stem})
    except ValidationError as error:
        said = explain(path, error)
        raise InputError(
            said.message, "schema.json in the claims' directory describes each key"
        ) from None


@cache
def studies() -> Mapping[str, Study]:
    """All studies that cnibench ships, by name."""
    return {path.stem: read_study(path) for path in sorted(FOLDER.glob("*.yaml"))}


def schema_text() -> str:
    """The JSON Schema of a study's file, as reports/claims/schema.json holds it; ``python -m
    cnibench.claims`` writes that file.
    """
    schema = Study.model_json_schema()
    del schema["properties"]["name"]  # the file's stem
    return (
        json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2)
        + "\n"
    )
