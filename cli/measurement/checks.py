"""What of a plan can be measured here: programs, profiles, collectors, cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cnibench.cli.measurement import priorities
from cnibench.cli.measurement.packages import install_command, lacking, together
from cnibench.errors import MissingError
from cnibench.model import conditions
from cnibench.model.cell import Cell
from cnibench.model.profile import Profile
from cnibench.planning.plan import Plan
from cnibench.run.collector import Collector
from cnibench.run.slices.requirements import require
from cnibench.run.workload import Workload
from cnibench.rundir.schema import Unsupported
from cnibench.system.guest import inside
from cnibench.testbed.capabilities.access_rights import AccessRights
from cnibench.testbed.capabilities.cell_conditions import CellConditions
from cnibench.testbed.capabilities.cell_limits import CellLimits
from cnibench.testbed.capabilities.node_inspection import KernelAccess
from cnibench.testbed.capabilities.service_paths import ServicePaths
from cnibench.testbed.capability import Capability, missing
from cnibench.testbed.cluster import Cluster, Options, Problem


@dataclass
class Runnable:
    """The profiles that run here, and why others do not."""

    runnable: dict[str, Profile] = field(default_factory=dict)
    unsupported: list[Unsupported] = field(default_factory=list)


def possible_cells(
    cluster: Cluster,
    planned: Sequence[Cell],
    profiles: Mapping[str, Profile],
    workloads: Mapping[str, Workload],
) -> tuple[list[Cell], list[str]]:
    """Those cells that this kind of cluster can measure, and in words why others are left out."""
    denied = (
        cluster.kernel_access_denied()
        if isinstance(cluster, KernelAccess)
        and any(workload.looks for workload in workloads.values())
        else ""
    )
    possible, refused = [], dict[tuple[str, str], dict[str, None]]()
    for cell in planned:
        workload = workloads[cell.workload]
        reason = unsupported(cluster, needs(cell, workload))
        if not reason and isinstance(cluster, CellLimits):
            reason = cluster.refuses(profiles[cell.label], cell)
        if not reason and denied and workload.looks:
            reason = f"it looks into the nodes' kernels: {denied}"
        if reason:
            refused.setdefault((cell.label, reason), {})[cell.workload] = None
        else:
            possible.append(cell)
    return possible, [
        f"{label}: {', '.join(those)} {'is' if len(those) == 1 else 'are'} left out: {reason}"
        for (label, reason), those in refused.items()
    ]


def check_slices(cells: Sequence[Cell], cluster: Cluster) -> None:
    """Raises NoSlicesError when this machine cannot measure those in slices that are to be."""
    if sliced := sum(cell.method == "slices" for cell in cells):
        if cluster.manages_nodes:
            require(sliced)
        cluster.require_room(len({cell.label for cell in cells}))


def needs(cell: Cell, workload: Workload) -> list[type[Capability]]:
    """The capabilities that a deployment must have to measure the cell."""
    found = list(workload.needs)
    if conditions.of(cell.params):
        found.append(CellConditions)
    if cell.path != "pod":
        found.append(ServicePaths)
    return found


def unsupported(cluster: Cluster, needed: Sequence[type[Capability]]) -> str:
    """Names those that deployments on this kind of cluster lack, '' when they have all."""
    lacks = missing(cluster.deploys, needed)
    return f"--cluster {cluster.kind} does not support {lacks}" if lacks else ""


def missing_here(cluster: Cluster, cells: Sequence[Cell] = ()) -> list[Problem]:
    """What a kind of cluster lacks whatever the profile; of the user's rights those that these
    cells require. Raises ClusterError.
    """
    problems = cluster.missing()
    if not problems and isinstance(cluster, AccessRights):
        return list(cluster.missing_rights(cells).needed)
    return problems


def check_machine(
    cluster: Cluster, workloads: Mapping[str, Workload], priority: str, cells: Sequence[Cell]
) -> None:
    """Everything that is missing whatever the profile, in one message. In a VM nothing is asked:
    its files are the host's, which did.
    """
    if inside():
        return
    tools = [tool for workload in workloads.values() for tool in workload.tools]
    problems = missing_here(cluster, cells)
    if cluster.manages_nodes:
        problems = [*problems, *priorities.missing(priority)]
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
            "; ".join(item.lacks for item in problems), together(item.remedy for item in problems)
        )


def own_options(cluster: Cluster, label: str, profile: Profile) -> Options:
    """The cluster's options for one profile: its own settings, and the IP families that it has."""
    options = cluster.options
    families = tuple(
        ip for ip in options.ip if ip in profile.features.ip
    )  # the others are left out of its cells
    given = options.settings
    own = {"": {**given.get("", {}), **given.get(label, {})}}
    return replace(options, ip=families or options.ip, settings=own)


def runnable_profiles(
    cluster: Cluster, asked: Mapping[str, Profile], other_kernel: bool = False
) -> Runnable:
    found = Runnable()
    for label, item in asked.items():
        problems = [
            one
            for one in cluster.check(item, own_options(cluster, label, item))
            if not (other_kernel and one.kind == "kernel")
        ]
        if not problems:
            found.runnable[label] = item
        found.unsupported += [
            Unsupported(label=label, profile=item.name, lacks=one.lacks, remedy=one.remedy)
            for one in problems
        ]
    if not found.runnable:
        reasons = "; ".join(f"{one.label}: {one.lacks}" for one in found.unsupported)
        raise MissingError(
            f"this machine cannot run {'it' if len(asked) == 1 else 'any of them'}: {reasons}",
            together(one.remedy for one in found.unsupported),
        )
    return found


def working_collectors(
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
            else unsupported(cluster, collector.needs) or collector.missing(cluster)
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
