"""From a plan to what is carried out: every requirement is checked here."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec.structs import replace as replace_fields

from cnibench import __version__
from cnibench.cli.measurement import priorities
from cnibench.cli.measurement.checks import (
    Runnable,
    check_machine,
    check_slices,
    own_options,
    possible_cells,
    runnable_profiles,
    working_collectors,
)
from cnibench.cli.measurement.plan import profiles_of
from cnibench.errors import MissingError, UsageError
from cnibench.model import profile
from cnibench.model.cell import Cell
from cnibench.model.profile import Profile
from cnibench.planning import schedule
from cnibench.planning.blocks import with_blocks, words
from cnibench.planning.calibrations import Here
from cnibench.planning.cells import cells
from cnibench.planning.method import with_fewer_cycles
from cnibench.planning.noise import noise_of
from cnibench.planning.plan import Plan
from cnibench.registry import provider, providers
from cnibench.run.collector import Collector
from cnibench.run.workload import Workload
from cnibench.rundir.schema import Manifest, new_id, now
from cnibench.system.guest import inside
from cnibench.testbed.capabilities.consent import Consent
from cnibench.testbed.capabilities.recognition import Recognition
from cnibench.testbed.cluster import Cluster, Options, Problem
from cnibench.testbed.cluster_options import ClusterOptions, stored


@dataclass(frozen=True)
class Request:
    """A run, ready to be started: every requirement has been checked."""

    manifest: Manifest
    profiles: Mapping[str, Profile]
    workloads: Mapping[str, Workload]
    collectors: Sequence[Collector]
    cluster: Cluster
    warnings: Sequence[str] = ()


def cluster_of(
    plan: Plan, options: ClusterOptions | None = None, *, keep: bool = False, room: int = 0
) -> Cluster:
    """The cluster that the plan is measured on; ``room`` as in ``Options``. Raises UsageError for
    options that its kind does not take.
    """
    kind: type[Cluster] = provider("clusters", plan.cluster)
    return kind(replace(options_of(plan, options, keep=keep), room=room))


def profile_problems(plan: Plan, cluster: Cluster) -> list[Problem]:
    """What the profiles of the plan lack on this machine."""
    return [
        problem
        for label, item in profiles_of(plan).items()
        for problem in cluster.check(item, own_options(cluster, label, item))
    ]


def prepare(
    plan: Plan,
    cluster: Cluster,
    *,
    name: str = "",
    facts: Mapping[str, str] | None = None,
    other_kernel: bool = False,
    notes: Sequence[str] = (),
    here: Here | None = None,
) -> Request:
    """Checks everything that the plan needs. Raises UsageError, InputError, MissingError (among
    these NoSlicesError); nothing has been started then.

    Profiles that this machine cannot run are left out and recorded, unless none is left.
    ``other_kernel``: what the running kernel lacks does not matter, it is measured on another.
    ``facts`` are recorded. ``here`` says where calibrations may be found that tell the noise.
    """
    plan = plan.seeded()
    asked = profiles_of(plan)
    # what a cluster has already may be removed, and then --set current:... says what that is
    there = {profile.CURRENT.name} if isinstance(cluster, Recognition) else set()
    for label in plan.settings:
        if label and label not in asked and label not in there:
            raise UsageError(
                f"--set {label}:... names no profile of this run",
                f"the labels are: {', '.join(asked)}",
            )
    if beyond := [path for path in plan.path if path not in cluster.paths]:
        raise UsageError(
            f"--cluster {plan.cluster} has no path {', '.join(beyond)}",
            f"it has: {', '.join(cluster.paths)}",
        )
    if plan.method == "slices" and not cluster.slices:
        raise UsageError(
            f"--cluster {plan.cluster} cannot measure in slices",
            "use --method windows, or --cluster lab",
        )
    if plan.pairs > cluster.most_pairs:
        raise UsageError(
            f"--cluster {plan.cluster} supports at most {cluster.most_pairs} pairs of Pods, not"
            f" {plan.pairs}",
            "ask for fewer",
        )
    workloads: dict[str, Workload] = providers("workloads")
    # wrong names and parameters are reported before anything that this machine lacks
    wished, remarks = cells(plan, workloads, asked)
    priorities.check(plan, wished, remarks, in_vm=other_kernel)
    used = {work.name: workloads[work.name] for work in plan.workload}
    check_machine(cluster, used, plan.priority, wished)
    if isinstance(cluster, Recognition):
        asked = dict(cluster.resolve(asked))
    found = runnable_profiles(cluster, asked, other_kernel)
    collectors, plan, without = working_collectors(
        cluster, list(providers("collectors").values()), plan
    )
    whole, blocks = with_blocks(plan, list(found.runnable), used, noise_of(plan, here))
    planned, left_out = cells(whole, workloads, found.runnable)
    planned = with_fewer_cycles(planned, plan)
    if isinstance(cluster, Consent):
        cluster.permit(planned)
    planned, refused = possible_cells(cluster, planned, found.runnable, used)
    if not planned:
        why = refused or left_out or without
        raise UsageError(
            "nothing is left to measure" + (f": {'; '.join(why)}" if why else ""),
            "choose another profile, workload, path, condition or --cluster; 'cnibench profiles"
            " show NAME' shows what a profile supports",
        )
    if not other_kernel:
        check_slices(planned, cluster)
    remarks = [*notes, *without, *left_out, *refused, *words(blocks)]
    request = _request(whole, name, cluster, found, planned, used, collectors, remarks)
    request = replace(request, warnings=[*request.warnings, *refused])
    asked_for = plan.model_dump(mode="json", by_alias=True)
    return replace(
        request,
        manifest=replace_fields(
            request.manifest,
            planned=blocks,
            plan=asked_for,
            facts=dict(facts or {}),
            until_decided=plan.until_decided and len(found.runnable) > 1,
        ),
    )


def _request(
    plan: Plan,
    name: str,
    cluster: Cluster,
    found: Runnable,
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
        and (warning := schedule.warning(min(usual, default=blocks), len(found.runnable)))
    ):
        warnings.append(warning)
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
        resolution=plan.resolution,
        budget=plan.budget,
        plan=plan.model_dump(mode="json", by_alias=True),
        extra=cluster.options.cluster.given() | ({"keep": True} if cluster.options.keep else {}),
    )
    return Request(manifest, found.runnable, workloads, collectors, cluster, warnings)


def options_of(
    plan: Plan, cluster: ClusterOptions | None = None, *, keep: bool = False, in_vm: bool = False
) -> Options:
    """What the plan asks of its cluster."""
    return Options(
        mtu=plan.mtu,
        wire_offload=plan.wire_offload,
        wire_rate=plan.wire_rate,
        congestion_control=plan.congestion_control,
        ip=plan.families,
        pairs=plan.pairs,
        settings=plan.settings,
        keep=keep,
        cluster=cluster or ClusterOptions(),
        in_vm=in_vm,
    )


def again(manifest: Manifest) -> Request:
    """What an interrupted run was asked for, from its manifest. Raises InputError, MissingError.

    In a VM the profiles meet its kernel here for the first time: those that it cannot run either
    are left out of the manifest.
    """
    plan = Plan.model_validate(manifest.plan)
    profiles = {label: Profile.model_validate(item) for label, item in manifest.profiles.items()}
    kind: type[Cluster] = provider("clusters", plan.cluster)
    options = options_of(
        plan,
        stored({key: item for key, item in manifest.extra.items() if key != "keep"}),
        keep=bool(manifest.extra.get("keep")),
        in_vm=bool(inside()),
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
    priorities.check(plan, manifest.cells)
    check_machine(cluster, used, plan.priority, manifest.cells)
    found = runnable_profiles(cluster, profiles)
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
    collectors, same, notes = working_collectors(
        cluster, list(providers("collectors").values()), plan
    )
    if set(same.windows) < {cell.window for cell in manifest.cells}:
        raise MissingError("; ".join(notes), "'cnibench doctor' says what to install")
    check_slices(manifest.cells, cluster)
    return Request(manifest, found.runnable, used, collectors, cluster, warnings)
