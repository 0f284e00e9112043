"""From the options of ``cnibench run`` to a plan, and from a plan to what is carried out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from msgspec.structs import replace as replace_fields

from cnibench import __version__
from cnibench.cli._packages import install_command, lacking
from cnibench.errors import MissingError, UsageError
from cnibench.model import profile
from cnibench.model.cell import Cell
from cnibench.model.profile import Profile
from cnibench.planning import schedule
from cnibench.planning.blocks import Here, noise_of, with_blocks, words
from cnibench.planning.plan import Plan, build_plan, cells
from cnibench.planning.plans import named, scaled
from cnibench.registry import provider, providers
from cnibench.run.collector import Collector
from cnibench.run.workload import Workload
from cnibench.rundir.schema import Manifest, Unsupported, new_id, now
from cnibench.system.guest import inside
from cnibench.testbed.cluster import Cluster, Options, Problem


@dataclass(frozen=True)
class Request:
    """A run, ready to be started: every requirement has been checked."""

    manifest: Manifest
    profiles: Mapping[str, Profile]
    workloads: Mapping[str, Workload]
    collectors: Sequence[Collector]
    cluster: type[Cluster]
    options: Options
    warnings: Sequence[str] = ()


@dataclass
class _Found:
    """What the checks found out."""

    runnable: dict[str, Profile] = field(default_factory=dict)
    unsupported: list[Unsupported] = field(default_factory=list)


def plan_of(values: Mapping[str, Any]) -> Plan:
    """The plan that the command line asks for: its options over the plan file's keys. Raises
    UsageError, InputError.
    """
    base = named(values["plan"]) if values.get("plan") else None
    options: dict[str, Any] = {}
    for key in (
        "cluster",
        "duration",
        "warmup",
        "cpus",
        "mtu",
        "wire_offload",
        "wire_rate",
        "congestion_control",
        "pairs",
        "target_ci",
        "max_blocks",
        "resolution",
        "noise",
        "seed",
        "title",
    ):
        if values.get(key) is not None:
            options[key] = values[key]
    for key in ("placement", "path"):
        if given := _list(values.get(key)):
            options[key] = given
    if given := _list(values.get("cni")):
        options["cni"] = given
    if given := _list(values.get("workload")):
        options["workload"] = [_work(item) for item in given]
    if values.get("ip"):
        options["ip"] = [4, 6] if values["ip"] == "both" else [int(values["ip"])]
    if values.get("blocks") is not None:
        options["blocks"] = _blocks(values["blocks"])
    if values.get("no_perf"):
        options["windows"] = ["speed"]
    if values.get("settings"):
        options["settings"] = settings_of(values["settings"], base)
    return build_plan(options, base)


def _list(given: Sequence[str] | None) -> list[str]:
    return [part.strip() for item in given or () for part in item.split(",") if part.strip()]


def _blocks(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"--blocks takes a number or auto, not '{text}'",
            "leave it out: auto plans enough blocks",
        ) from None


def _work(text: str) -> dict[str, Any]:
    """``NAME`` or ``NAME:KEY=VALUE:KEY=VALUE``."""
    name, *pairs = text.split(":")
    params = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(
                f"'{pair}' in --workload {text} is not KEY=VALUE", "write tcp-rr:request_size=64"
            )
        try:
            params[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            params[key] = value
    return {"name": name, "params": params}


def settings_of(given: Sequence[str], base: Plan | None = None) -> dict[str, dict[str, str]]:
    """``[LABEL:]KEY=VALUE`` to label (or '') to key to value, over the plan's own."""
    found = {label: dict(keys) for label, keys in (base.settings if base else {}).items()}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(
                f"--set takes [LABEL:]KEY=VALUE, not '{item}'",
                "write --set candidate:image=registry.example/cni:v2",
            )
        label, _, key = name.rpartition(":")
        found.setdefault(label, {})[key] = value
    return found


def at_scale(plan: Plan, factor: float) -> tuple[Plan, list[str]]:
    """``--scale``: the shorter plan, and in words what it gave up. Raises UsageError."""
    asked = profile.choose(["*" if item == "all" else item for item in plan.cni])
    return scaled(plan, factor, len(asked), providers("workloads"))


def suited(plan: Plan, values: Mapping[str, Any]) -> tuple[Plan, list[str]]:
    """The plan file's plan without what its kind of cluster cannot have, and in words what that
    gave up. Raises UsageError.

    What was typed stays as it is: whoever asks for it by name is refused rather than given
    something else.
    """
    if not values.get("plan"):
        return plan, []
    kind: type[Cluster] = provider("clusters", plan.cluster)
    told = []
    if kind.mtus and plan.mtu not in kind.mtus and values.get("mtu") is None:
        told.append(f"an MTU of {kind.mtus[0]} instead of {plan.mtu}: its wire has no other")
        plan = plan.model_copy(update={"mtu": kind.mtus[0]})
    if not kind.conntrack_bypass and not values.get("workload"):
        plan, names = plan.with_conntrack()
        if names:
            told.append(
                f"policy.conntrack: used instead of bypassed, for {', '.join(names)}: packets of"
                " established connections meet the policies only where the CNI itself has them"
                " do so"
            )
    return plan, [f"--cluster {plan.cluster} gave up: {'; '.join(told)}"] if told else []


def profile_problems(plan: Plan) -> list[Problem]:
    """What the profiles of the plan lack on this machine."""
    cluster: Cluster = provider("clusters", plan.cluster)(Options(mtu=plan.mtu, ip=plan.ip))
    asked = profile.choose(["*" if item == "all" else item for item in plan.cni])
    return [problem for item in asked.values() for problem in cluster.check(item)]


def prepare(
    plan: Plan,
    *,
    name: str = "",
    extra: Mapping[str, Any] | None = None,
    other_kernel: bool = False,
    notes: Sequence[str] = (),
    here: Here | None = None,
) -> Request:
    """Checks everything that the plan needs. Raises UsageError, InputError, MissingError; nothing
    has been started then.

    Profiles that this machine cannot run are left out and recorded, unless none is left.
    ``other_kernel``: what the running kernel lacks does not matter, it is measured on another.
    ``here`` says where calibrations may be found that tell the noise.
    """
    plan = plan.seeded()
    asked = profile.choose(["*" if item == "all" else item for item in plan.cni])
    for label in plan.settings:
        if label and label not in asked:
            raise UsageError(
                f"--set {label}:... names no profile of this run",
                f"the labels are: {', '.join(asked)}",
            )
    kind: type[Cluster] = provider("clusters", plan.cluster)
    if beyond := [path for path in plan.path if path not in kind.paths]:
        raise UsageError(
            f"--cluster {plan.cluster} has no path {', '.join(beyond)}",
            f"it has: {', '.join(kind.paths)}",
        )
    if plan.pairs > kind.most_pairs:
        raise UsageError(
            f"--cluster {plan.cluster} supports at most {kind.most_pairs} pairs of Pods, not"
            f" {plan.pairs}",
            "ask for fewer",
        )
    options = Options(
        mtu=plan.mtu,
        wire_offload=plan.wire_offload,
        wire_rate=plan.wire_rate,
        congestion_control=plan.congestion_control,
        ip=plan.ip,
        pairs=plan.pairs,
        settings=plan.settings,
        keep=bool((extra or {}).get("keep")),
        extra=dict(extra or {}),
    )
    cluster = kind(options)
    workloads: dict[str, Workload] = providers("workloads")
    cells(
        plan, workloads, asked
    )  # wrong names and parameters are told before anything that this machine lacks
    used = {work.name: workloads[work.name] for work in plan.workload}
    _machine(cluster, [tool for workload in used.values() for tool in workload.tools])
    asked = dict(cluster.resolve(asked))
    found = _profiles(cluster, asked, other_kernel)
    collectors, plan, without = _collectors(cluster, list(providers("collectors").values()), plan)
    whole, blocks = with_blocks(plan, list(found.runnable), used, noise_of(plan, here))
    planned, left_out = cells(whole, workloads, found.runnable)
    cluster.permit(planned)
    planned, refused = _possible(cluster, planned, found.runnable, used)
    if not planned:
        raise UsageError(
            "nothing is left to measure",
            "; ".join([*refused, *left_out, *without]) or "name a profile and a workload",
        )
    remarks = [*notes, *without, *left_out, *refused, *words(blocks)]
    request = _request(whole, name, kind, options, found, planned, used, collectors, remarks)
    request = replace(request, warnings=[*request.warnings, *refused])
    asked_for = plan.model_dump(mode="json", by_alias=True)
    return replace(
        request, manifest=replace_fields(request.manifest, planned=blocks, plan=asked_for)
    )


def _possible(
    cluster: Cluster,
    planned: Sequence[Cell],
    profiles: Mapping[str, Profile],
    workloads: Mapping[str, Workload],
) -> tuple[list[Cell], list[str]]:
    """Those cells that this kind of cluster can measure, and in words why others are left out."""
    blind = (
        cluster.why_kernel_hidden()
        if any(workload.looks for workload in workloads.values())
        else ""
    )
    possible, refused = [], dict[str, None]()
    for cell in planned:
        reason = cluster.refuses(profiles[cell.label], cell)
        if not reason and blind and workloads[cell.workload].looks:
            reason = f"it looks into the nodes' kernels: {blind}"
        if reason:
            refused[f"{cell.label}, {cell.workload} is left out: {reason}"] = None
        else:
            possible.append(cell)
    return possible, list(refused)


def _request(
    plan: Plan,
    name: str,
    kind: type[Cluster],
    options: Options,
    found: _Found,
    planned: list[Cell],
    workloads: Mapping[str, Workload],
    collectors: Sequence[Collector],
    notes: list[str],
) -> Request:
    blocks = plan.number_of_blocks(len(found.runnable))
    warnings = []
    measured = any(
        workload.noise for workload in workloads.values()
    )  # what is counted differs or does not: no test is needed
    usual = [
        plan.blocks_of(work, len(found.runnable))
        for work in plan.workload
        if work.blocks is None and workloads[work.name].noise
    ]
    if (
        measured
        and not plan.target_ci
        and (told := schedule.warning(min(usual, default=blocks), len(found.runnable)))
    ):
        warnings.append(told)
    title = name or plan.title
    manifest = Manifest(
        id=new_id(title),
        name=title,
        created=now(),
        command=["cnibench", *sys.argv[1:]],
        tool_version=__version__,
        seed=plan.seed or 0,
        blocks=blocks,
        duration=plan.duration,
        warmup=plan.warmup,
        cluster=plan.cluster,
        cells=planned,
        profiles={
            label: item.model_dump(mode="json", by_alias=True)
            for label, item in found.runnable.items()
        },
        main={name: workload.primary for name, workload in workloads.items()},
        unsupported=found.unsupported,
        notes=[*notes, *warnings],
        target_ci=plan.target_ci,
        max_blocks=plan.max_blocks,
        plan=plan.model_dump(mode="json", by_alias=True),
        extra=dict(options.extra),
    )
    return Request(manifest, found.runnable, workloads, collectors, kind, options, warnings)


def _machine(cluster: Cluster, tools: Sequence[str]) -> None:
    """Everything that is missing whatever the profile, in one message. In a VM nothing is asked:
    its files are the host's, which did.
    """
    if inside():
        return
    problems = cluster.missing()
    absent = lacking(tools) if cluster.kind == "lab" else []  # elsewhere the images bring them
    if absent:
        problems = [
            *problems,
            Problem(
                "", f"the programs {', '.join(absent)} are not installed", install_command(absent)
            ),
        ]
    if problems:
        raise MissingError(
            "; ".join(item.lacks for item in problems),
            "; ".join(dict.fromkeys(item.remedy for item in problems)),
        )


def _profiles(cluster: Cluster, asked: Mapping[str, Profile], other_kernel: bool = False) -> _Found:
    found = _Found()
    for label, item in asked.items():
        families = tuple(
            ip for ip in cluster.options.ip if ip in item.features.ip
        )  # the others are left out of its cells
        given = cluster.options.settings
        own = {"": {**given.get("", {}), **given.get(label, {})}}
        alone = type(cluster)(
            replace(cluster.options, ip=families or cluster.options.ip, settings=own)
        )
        problems = [one for one in alone.check(item) if not (other_kernel and one.kind == "kernel")]
        if not problems:
            found.runnable[label] = item
        found.unsupported += [
            Unsupported(label=label, profile=item.name, lacks=one.lacks, remedy=one.remedy)
            for one in problems
        ]
    if not found.runnable:
        told = "; ".join(f"{one.label}: {one.lacks}" for one in found.unsupported)
        remedies = dict.fromkeys(one.remedy for one in found.unsupported)
        raise MissingError(
            f"this machine cannot run {'it' if len(asked) == 1 else 'any of them'}: {told}",
            "; ".join(remedies),
        )
    return found


def _collectors(
    cluster: Cluster, all_of_them: Sequence[Collector], plan: Plan
) -> tuple[list[Collector], Plan, list[str]]:
    """Those that work here; a kind of window without the collector that it is there for is left out
    of the plan.
    """
    working, notes, windows = list[Collector](), list[str](), list(plan.windows)
    for collector in all_of_them:
        absent = lacking(collector.tools) if cluster.kind == "lab" else []
        reason = (
            f"{', '.join(absent)} not installed ({install_command(absent)})"
            if absent
            else collector.missing(cluster)
        )
        if not reason:
            working.append(collector)
        elif set(collector.windows) & set(windows):
            notes.append(f"without {collector.title}: {reason}")
    if "cpp" in windows and not any(collector.cycles for collector in working):
        windows.remove("cpp")
        if not windows:
            raise MissingError(
                "cycles per packet cannot be measured here: " + "; ".join(notes),
                "'cnibench doctor' says what to install",
            )
    return working, plan.model_copy(update={"windows": tuple(windows)}), notes


def again(manifest: Manifest) -> Request:
    """What an interrupted run was asked for, from its manifest. Raises InputError, MissingError.

    In a VM the profiles meet its kernel here for the first time: those that it cannot run either
    are left out of the manifest.
    """
    plan = Plan.model_validate(manifest.plan)
    profiles = {label: Profile.model_validate(item) for label, item in manifest.profiles.items()}
    kind: type[Cluster] = provider("clusters", plan.cluster)
    options = Options(
        mtu=plan.mtu,
        wire_offload=plan.wire_offload,
        wire_rate=plan.wire_rate,
        congestion_control=plan.congestion_control,
        ip=plan.ip,
        pairs=plan.pairs,
        settings=plan.settings,
        keep=bool(manifest.extra.get("keep")),
        extra=manifest.extra | ({"testbed": "vm"} if inside() else {}),
    )
    cluster = kind(options)
    try:
        used: dict[str, Workload] = {
            name: provider("workloads", name)
            for name in sorted({cell.workload for cell in manifest.cells})
        }
    except UsageError as error:
        raise UsageError(
            f"this cnibench has other workloads: {error.message}",
            f"resume with cnibench {manifest.tool_version}",
        ) from None
    _machine(cluster, [tool for workload in used.values() for tool in workload.tools])
    found = _profiles(cluster, profiles)
    warnings = []
    if found.unsupported and inside():
        warnings = [
            f"{one.label} is not measured: {one.lacks}, in the VM as well"
            for one in found.unsupported
        ]
        manifest = replace_fields(
            manifest,
            unsupported=[*manifest.unsupported, *found.unsupported],
            cells=[cell for cell in manifest.cells if cell.label in found.runnable],
            profiles={
                label: item for label, item in manifest.profiles.items() if label in found.runnable
            },
        )
    elif found.unsupported:
        one = found.unsupported[0]
        raise MissingError(f"{one.label}: {one.lacks}", one.remedy)
    collectors, same, notes = _collectors(cluster, list(providers("collectors").values()), plan)
    if set(same.windows) < {cell.window for cell in manifest.cells}:
        raise MissingError("; ".join(notes), "'cnibench doctor' says what to install")
    return Request(manifest, found.runnable, used, collectors, kind, options, warnings)
