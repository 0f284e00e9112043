"""Plans: what is measured, as a file (--plan FILE) and as the options of ``cnibench run``."""

from __future__ import annotations

import difflib
import itertools
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

from cnibench.errors import CnibenchError, InputError, UsageError
from cnibench.model.cell import Placement, Window
from cnibench.model.profile import Proxy, Strict, explain, mistakes, read_yaml
from cnibench.model.units import bits_per_second, fraction, seconds
from cnibench.planning import schedule
from cnibench.stats.power import MOST_BLOCKS

LONGEST = 24 * 3600.0  # s: one window of a day is a slip of the pen
LONGEST_BUDGET = 7 * 24 * 3600.0  # s
_SLOWEST = 1e6  # bit/s
_FASTEST = 34e9  # bit/s
_CONNTRACK = "policy.conntrack"  # the condition, see conditions.py


def _in_seconds(value: Any) -> Any:
    return _convert(seconds, value)


def _in_rate(value: Any) -> Any:
    return _convert(bits_per_second, value)


def _in_fraction(value: Any) -> Any:
    converted = _convert(fraction, value)
    if isinstance(converted, float) and converted >= 1:
        raise ValueError(f"expected less than 100 %, got '{value}'; write 2% or 0.02")
    return converted


def _in_noise(value: Any) -> Any:
    """A number, or a percentage in text, as a fraction; other text names a run."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = float(value)
    elif isinstance(value, str) and re.fullmatch(r"[\d.]+\s*%?", value.strip()):
        value = _convert(fraction, value.strip())
    if isinstance(value, float) and not 0 <= value <= 1:
        raise ValueError(
            "expected a fraction between 0 and 100 %, the scatter of one profile from block to"
            " block"
        )
    return value


def _convert(unit: Any, value: Any) -> Any:
    try:
        return unit(value) if isinstance(value, str) else value
    except CnibenchError as error:
        raise ValueError(f"{error.message}; {error.remedy}") from None


Seconds = Annotated[float, BeforeValidator(_in_seconds)]
Rate = Annotated[float, BeforeValidator(_in_rate)]
Fraction = Annotated[float, BeforeValidator(_in_fraction)]
Noise = Annotated[float | str, BeforeValidator(_in_noise)]


class Work(Strict):
    """One workload with its parameters. Each list in ``sweep`` is gone through; several lists give
    all combinations.

    Parameters with a dot are conditions (see conditions.py). ``placement``, ``windows``, ``ip``,
    ``duration`` and ``blocks`` are this workload's own, where given, instead of the plan's;
    ``only`` names the labels (or patterns) that it is for; empty: all.
    """

    name: str
    params: dict[str, JsonValue] = {}
    sweep: dict[str, Annotated[list[JsonValue], Field(min_length=1)]] = {}
    only: tuple[str, ...] = ()
    placement: Annotated[tuple[Placement, ...], Field(min_length=1)] | None = None
    windows: Annotated[tuple[Window, ...], Field(min_length=1)] | None = None
    ip: Annotated[tuple[Literal[4, 6], ...], Field(min_length=1)] | None = None
    duration: Annotated[Seconds, Field(ge=0.2, le=LONGEST)] | None = None
    blocks: Annotated[int, Field(ge=1, le=MOST_BLOCKS)] | Literal["auto"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain_words(cls, data: Any) -> Any:
        """A single value where a list is meant."""
        if not isinstance(data, dict):
            return data
        lists = ("placement", "windows", "only", "ip")
        return {
            key: [value] if key in lists and isinstance(value, str | int) else value
            for key, value in data.items()
        }

    def combinations(self) -> Iterator[dict[str, Any]]:
        """The parameters of each cell, in the order of the lists."""
        names = list(self.sweep)
        for values in itertools.product(*self.sweep.values()):
            yield {**self.params, **dict(zip(names, values, strict=True))}


class Plan(Strict):
    """What is asked for. Durations in seconds (or as ``10s``, ``2m``), rates in bit/s (or as
    ``1G``).

    ``cni`` takes what --cni takes: names, shell patterns, paths to profile files, LABEL=NAME.
    ``settings`` maps a label, or '' for all, to the KEY: VALUE pairs of --set.
    """

    schema_version: Literal[1] = Field(default=1, alias="schema")
    title: str = ""
    cluster: str = "lab"
    cni: tuple[str, ...] = Field(
        default=(), description="profiles: names, patterns, paths, LABEL=NAME"
    )
    placement: tuple[Placement, ...] = Field(default=("intra", "inter"), min_length=1)
    path: tuple[Literal["pod", "clusterip", "nodeport", "host", "pod-to-host"], ...] = Field(
        default=("pod",), min_length=1
    )
    workload: tuple[Work, ...] = Field(
        default=(Work(name="tcp-stream"), Work(name="tcp-rr")), min_length=1
    )
    method: Literal["windows", "slices"] = Field(
        default="windows", description="slices: cells alternate every few milliseconds"
    )
    duration: Seconds = Field(
        default=10.0, ge=0.2, le=LONGEST, description="of the measured window"
    )
    warmup: Seconds = Field(default=2.0, ge=0.0, le=LONGEST)
    blocks: Annotated[int, Field(ge=1, le=MOST_BLOCKS)] | Literal["auto"] = "auto"
    windows: tuple[Window, ...] = Field(
        default=("speed", "cpp"), min_length=1, description="speed: without perf; cpp: with perf"
    )
    cpus: Literal["split", "shared", "none"] = "shared"
    ip: tuple[Literal[4, 6], ...] = Field(default=(4,), min_length=1)
    proxy: tuple[Proxy, ...] = Field(
        default=(), description="how Services are implemented; empty: as usual for each profile"
    )
    mtu: int = Field(default=1500, ge=576, le=65535)
    wire_offload: Literal["", "none", "plain", "vxlan", "all"] = Field(
        default="", description="empty: the cluster's own default"
    )
    congestion_control: str = Field(
        default="",
        pattern=r"^[a-z0-9_-]{0,15}$",
        description="of TCP; empty: cubic in the lab, elsewhere the Pods' own default",
    )
    priority: Literal["", "real-time", "normal"] = Field(
        default="",
        description="of clients and servers; empty: real-time in slices, normal in windows",
    )
    wire_rate: Rate = Field(default=0.0, ge=0.0, description="0: unlimited")
    pairs: int = Field(default=1, ge=1, le=1000)
    resolution: Fraction = Field(
        default=0.05,
        gt=0.0,
        lt=1.0,
        description="the difference that blocks: auto plans to find; what is less counts as equal",
    )
    noise: Noise = Field(
        default="auto",
        description="for blocks: auto; auto, a fraction (2%), or a run that measured it",
    )
    target_ci: Fraction = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="stop when every interval is at most so wide, half width / median",
    )
    max_blocks: int = Field(
        default=30,
        ge=1,
        le=MOST_BLOCKS,
        description="the most that blocks: auto or target_ci may make",
    )
    budget: Seconds = Field(
        default=0.0,
        ge=0.0,
        le=LONGEST_BUDGET,
        description="start no block that would end later; 0: no limit",
    )
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    settings: dict[str, dict[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _plain_words(cls, data: Any) -> Any:
        """A single value where a list is meant, and a workload's bare name, are taken as such."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for key in ("cni", "placement", "path", "workload", "windows", "ip", "proxy"):
            if isinstance(data.get(key), str | int | dict):
                data[key] = [data[key]]
        if isinstance(data.get("workload"), list | tuple):
            data["workload"] = [
                {"name": item} if isinstance(item, str) else item for item in data["workload"]
            ]
        return data

    @field_validator("wire_rate")
    @classmethod
    def _possible_rate(cls, value: float) -> float:
        if value > _FASTEST:
            raise ValueError(
                f"expected at most {_FASTEST / 1e9:g}G, the most that tc-tbf(8) is given in 32"
                " bits, or 0 for none"
            )
        if 0 < value < _SLOWEST:
            raise ValueError(
                f"expected at least {_SLOWEST / 1e6:g}M, or 0 for none: attesting a profile sends"
                " some hundred KiB"
            )
        return value

    @model_validator(mode="after")
    def _distinct(self) -> Plan:
        if any(
            len(set(values)) < len(values)
            for values in (self.placement, self.path, self.windows, self.ip, self.proxy)
        ):
            raise ValueError("a value occurs twice in placement, path, windows, ip or proxy")
        return self

    @property
    def families(self) -> tuple[Literal[4, 6], ...]:
        """The IP families of the plan and of its workloads: what profiles are deployed with."""
        own = (family for work in self.workload for family in work.ip or ())
        return tuple(dict.fromkeys((*self.ip, *own)))

    def seeded(self) -> Plan:
        """This plan with a seed: its own, or a new one."""
        return (
            self
            if self.seed is not None
            else self.model_copy(update={"seed": random.SystemRandom().randrange(2**31)})
        )

    def number_of_blocks(self, profiles: int) -> int:
        """``blocks``, or the least that so many profiles take (blocks.py plans more); a workload
        that asks for more of its own counts.
        """
        return max(self.blocks_of(work, profiles) for work in self.workload)

    def blocks_of(self, work: Work, profiles: int) -> int:
        """The blocks that a workload is asked to be in: its own number, or the plan's."""
        blocks = self.blocks if work.blocks is None else work.blocks
        return schedule.blocks_needed(profiles) if blocks == "auto" else blocks

    def own_blocks(self, work: Work, profiles: int, longest: int) -> int | None:
        """``Cell.blocks`` of its cells; None: every block of the run. ``longest``:
        ``number_of_blocks``, which looks at all workloads.

        A workload that asks for more than the plan makes the run longer for itself, not for the
        others. With ``target_ci`` the run ends when its intervals are narrow enough, so only a
        number that a workload names itself keeps its cells out of the later blocks.
        """
        if self.target_ci:
            return work.blocks if isinstance(work.blocks, int) else None
        own = self.blocks_of(work, profiles)
        return own if work.blocks is not None or own < longest else None

    @property
    def until_decided(self) -> bool:
        """Whether the run may end before its last block because all pairs are decided: where its
        number of blocks is planned, not asked for.
        """
        return not self.target_ci and all(
            (self.blocks if work.blocks is None else work.blocks) == "auto"
            for work in self.workload
        )

    def with_conntrack(self) -> tuple[Plan, list[str]]:
        """This plan with ``policy.conntrack: used`` wherever it says ``bypassed``, and the names of
        the workloads for which it said so.
        """
        works = tuple(_with_conntrack(work) for work in self.workload)
        names = [new.name for old, new in zip(self.workload, works, strict=True) if new != old]
        return self.model_copy(update={"workload": works}), list(dict.fromkeys(names))


def _with_conntrack(work: Work) -> Work:
    params, sweep = dict(work.params), dict(work.sweep)
    if params.get(_CONNTRACK) == "bypassed":
        params[_CONNTRACK] = "used"
    if "bypassed" in sweep.get(_CONNTRACK, ()):
        sweep[_CONNTRACK] = list(
            dict.fromkeys(
                "used" if value == "bypassed" else str(value) for value in sweep[_CONNTRACK]
            )
        )
    return work.model_copy(update={"params": params, "sweep": sweep})


def read_plan(path: Path) -> Plan:
    """The plan in that YAML file. Raises InputError naming the key and what was expected."""
    data = read_yaml(path)
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        raise _explain(path, error) from None


def build_plan(options: Mapping[str, Any], base: Plan | None = None) -> Plan:
    """A plan of options, over those of ``base``. Raises UsageError."""
    data = {**(base.model_dump(by_alias=True, exclude_unset=True) if base else {}), **options}
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        said = "; ".join(
            f"{_option(key)}{key and ': '}{', or '.join(words)}"
            for key, words in mistakes(error).items()
        )
        raise UsageError(said, "'cnibench run --help' describes each option") from None


def _option(key: str) -> str:
    """``placement.0`` as the user wrote it: ``--placement``."""
    return key and f"--{key.partition('.')[0].replace('_', '-')}"


def _explain(path: Path | str, error: ValidationError) -> InputError:
    said = explain(path, error)
    known = [field.alias or name for name, field in Plan.model_fields.items()]
    for item in error.errors(include_url=False):
        if item["type"] == "extra_forbidden" and len(item["loc"]) == 1:
            near = difflib.get_close_matches(str(item["loc"][0]), known, n=3, cutoff=0.5)
            return InputError(
                said.message,
                (
                    f"nearest keys: {', '.join(near)}"
                    if near
                    else f"the keys of a plan are: {', '.join(known)}"
                ),
            )
    return InputError(said.message, f"the keys of a plan are: {', '.join(known)}")
