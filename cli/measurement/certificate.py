"""Makes a certificate: finds the programs, runs the agent next to the model, and reads what both
delivered.
"""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec.structs import replace as replace_fields

from cnibench import __version__
from cnibench.certificates.format import Agent, Certificate, Difference
from cnibench.cli.errors import guarded
from cnibench.cli.measurement import execute
from cnibench.cli.measurement.certificate_results import with_run
from cnibench.cli.measurement.packages import together
from cnibench.cli.measurement.plan import plan_of, settings_of
from cnibench.cli.measurement.request import Request, options_of, prepare
from cnibench.cli.options.plan import PlanOptions
from cnibench.clusters.lab.builders.base import builder_of
from cnibench.clusters.lab.fidelity import image, needs, programs
from cnibench.clusters.lab.fidelity.adapter import Adapter
from cnibench.clusters.lab.fidelity.api_server import PROGRAMS
from cnibench.clusters.lab.fidelity.cluster import AGENT, MODEL, AgentCluster
from cnibench.clusters.lab.fidelity.deployment import Setup
from cnibench.clusters.lab.fidelity.digest import model_digest
from cnibench.clusters.lab.fidelity.manifest import objects
from cnibench.clusters.lab.namespaces import tree
from cnibench.errors import MissingError, NoSlicesError, UsageError
from cnibench.model.profile import Profile, choose
from cnibench.registry import providers
from cnibench.run.checks.cpus import pins
from cnibench.run.runner import Runner
from cnibench.rundir.files import open_log
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import now
from cnibench.rundir.writer import RunWriter
from cnibench.system import log
from cnibench.system.environment import machine
from cnibench.system.process import ahead

_PACKETS = ("first", "established")
_APART = "kube-proxy's and the kubelet's rules: the model's in both deployments"
_SLICES = "200ms"  # in a block: both deployments stay, so that blocks differ little
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # as Go calls them
_REMEDY = (
    "name the folder that has it with --programs; https://dl.k8s.io/v1.34.4/bin/linux/"
    f"{_ARCHITECTURES.get(platform.machine(), platform.machine())}/ has kube-apiserver,"
    " https://github.com/etcd-io/etcd/releases etcd"
)


# The agent's version, the differences of the two deployments, the number of lines compared, the
# names of chains that the agent drew with the model's.
_Carried = tuple[str, list[Difference], int, dict[str, str]]


def certify(
    cni: str,
    agent: str,
    folders: Sequence[Path],
    manifests: Sequence[Path],
    settings: Sequence[str],
    blocks: int,
    out: Path,
) -> tuple[Certificate, Path | None]:
    """The certificate, and the run directory with the figures of both. Raises CnibenchError; of
    what was started nothing is left then.
    """
    (profile,) = _one(cni)
    adapter = adapter_of(profile)
    options = _options(settings)
    if refused := adapter.unsupported(_with(profile, options)):
        raise UsageError(f"{profile.name}: {refused}", "choose another profile")
    servers = {name: programs.found(name, folders, _REMEDY) for name in PROGRAMS}
    plugins = programs.plugins(adapter.plugins, folders) if adapter.plugins else Path("/")
    given = objects(manifests)
    needs.check(adapter, agent, given)
    with image.program(agent, adapter.inside) as program:
        setup = Setup(
            adapter, str(program), {key: str(it) for key, it in servers.items()}, plugins, given
        )
        request = _request(profile, settings, max(blocks, 1), setup)
        path = (out / request.manifest.id).absolute() if blocks else None
        version, differences, lines, chains = _carry(request, path)
        certificate = Certificate(
            profile=profile.name,
            model=model_digest(profile),
            tool_version=__version__,
            agent=Agent(name=adapter.name, version=version, sha256=programs.sha256(program)),
            kernel=platform.release(),
            architecture=platform.machine(),
            date=now(),
            settings=options,
            ip=request.cluster.options.ip,
            programs={
                name: programs.version([str(path), "--version"]) for name, path in servers.items()
            },
            lines=lines,
            apart=[_APART, *adapter.apart(_with(profile, options))],
            differences=differences,
            notes=[] if adapter.tried else ["the adapter was not tried by the project"],
        )
    return (with_run(certificate, RunReader(path), chains) if path else certificate), path


def _one(cni: str) -> Iterator[Profile]:
    found = choose([cni])
    if len(found) != 1:
        raise UsageError(f"--cni names {len(found)} profiles", "name one")
    return iter(found.values())


def _options(settings: Sequence[str]) -> dict[str, str]:
    """Of the model, for both deployments. Raises UsageError."""
    found = settings_of(settings)
    if labels := [label for label in found if label]:
        raise UsageError(
            f"--set {labels[0]}:...: both deployments have the same options",
            "write --set KEY=VALUE",
        )
    return found.get("", {})


def _with(profile: Profile, options: Mapping[str, str]) -> Profile:
    """The profile with these options of its model. Raises InputError."""
    assert profile.datapath is not None
    _, checked = builder_of(profile, options)
    datapath = profile.datapath.model_copy(update={"options": checked.model_dump()})
    return profile.model_copy(update={"datapath": datapath})


def adapter_of(profile: Profile) -> type[Adapter]:
    """Raises UsageError when no adapter runs the agent of this profile's model."""
    found: Mapping[str, type[Adapter]] = providers("clusters.lab.agents")
    model = profile.datapath.model if profile.datapath else ""
    for adapter in found.values():
        if model in adapter.models:
            return adapter
    known = sorted(name for adapter in found.values() for name in adapter.models)
    raise UsageError(
        f"{profile.name}: "
        + (f"no adapter for its model, {model}" if model else "it has no model"),
        f"there are adapters for the models {', '.join(known)}",
    )


def _request(profile: Profile, settings: Sequence[str], blocks: int, setup: Setup) -> Request:
    """A run of both deployments, which stay for all blocks; the ways of packets are followed
    once.
    """
    asked = PlanOptions(
        cni=(f"{MODEL}={profile.name}", f"{AGENT}={profile.name}"),
        cluster="lab",
        method="slices",
        workload=("tcp-stream", "tcp-rr", *(f"rule-path:packet={one}" for one in _PACKETS)),
        blocks=str(blocks),
        duration=_SLICES,
        no_perf=True,
        settings=settings,
    )
    plan = plan_of(asked)
    cluster = AgentCluster(options_of(plan), setup)
    if not cluster.missing() and (lacks := cluster.check(profile)):  # once, by the profile's name
        raise MissingError(
            f"this machine cannot run {profile.name}: {'; '.join(one.lacks for one in lacks)}",
            together(one.remedy for one in lacks),
        )
    try:
        request = prepare(plan, cluster, name=f"fidelity-{profile.name}")
    except NoSlicesError as error:
        remedy = "use a machine that can: 'cnibench fidelity' compares in slices only"
        raise NoSlicesError(error.message, remedy) from None
    cells = [
        replace_fields(cell, blocks=1) if cell.workload == "rule-path" else cell
        for cell in request.manifest.cells
    ]
    manifest = replace_fields(request.manifest, cells=cells, deployment_blocks=blocks)
    return replace(request, manifest=manifest)


def _carry(request: Request, path: Path | None) -> _Carried:
    """Ends the program when the inner process failed, which has said why."""
    cluster = request.cluster
    assert isinstance(cluster, AgentCluster)
    with tempfile.TemporaryFile() as file:

        def work() -> int:
            status = _inside(request, cluster, path)
            found = (cluster.version, cluster.differences, cluster.lines, cluster.chains)
            file.write(msgspec.json.encode(found))
            file.flush()
            return status

        status = cluster.carry(lambda: guarded(work))
        file.seek(0)
        answer = file.read()
    if not answer:
        raise SystemExit(status or 1)
    if status > 1:
        raise SystemExit(status)
    carried: _Carried = msgspec.json.decode(answer, type=_Carried)
    return carried


def _inside(request: Request, cluster: AgentCluster, path: Path | None) -> int:
    ahead()
    (profile,) = {item.name: item for item in request.profiles.values()}.values()
    setup = cluster.setup
    program = image.placed(Path(setup.program), tree.TMP)
    cluster.setup = replace(setup, program=str(program))
    shown = execute.progress()
    shown.notify(f"running {setup.adapter.name} on two nodes")
    with cluster:
        cluster.deploy(profile)
        if path is None:
            return 0
        facts = {**machine(execute.tools_of(request)), **execute.offloads(cluster)}
        with RunWriter.create(path, request.manifest) as writer, log.into(open_log(path)):
            # no window of the tools in addition to the slices: like is compared with like
            writer.cross_checked.update(cell.id for cell in request.manifest.cells)
            runner = Runner(
                cluster=cluster,
                writer=writer,
                profiles=request.profiles,
                workloads=request.workloads,
                cpus=pins(request.manifest.cells[0].cpus, 1),
                progress=shown,
                environment=facts,
            )
            status = 1 if runner.run() else 0
            cluster.require_agent()
            return status
