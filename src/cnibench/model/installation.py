"""The section ``kubernetes`` of a profile: how the real CNI is installed, awaited, attested,
recognised and removed.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

_ROOTS = (
    "/etc/cni/net.d/",
    "/opt/cni/bin/",
    "/run/",
    "/sys/fs/bpf/",
    "/var/lib/",
    "/etc/sysctl.d/",
    "/etc/iproute2/rt_tables.d/",
)
_NEVER = (
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/etcd",
    "/run/containerd",
    "/run/systemd",
    "/var/lib/docker",
    "/var/lib/containers",
)

Encapsulation = Literal["none", "vxlan", "ipip", "geneve", "udp", "wireguard", "esp"]


class Part(BaseModel):
    """Base of all parts: an unknown key is an error, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _removable(path: str) -> str:
    """Only what a CNI owns may be removed from a node: a path below one of a few folders, whatever
    a profile says.
    """
    root = next((root for root in _ROOTS if path.startswith(root)), "")
    rest = path.removeprefix(root)
    owned = (
        root
        and re.match(r"[\w.*?-]*[A-Za-z0-9]", rest)
        and ".." not in path
        and not re.search(r"[\s'\"`$;&|<>\\]", path)
    )
    if (
        not owned
        or rest.strip("*?/") == ""
        or any(path == one or path.startswith(one + "/") for one in _NEVER)
    ):
        raise ValueError(
            f"only a path of the CNI's own, below one of {', '.join(_ROOTS)}, can be removed from a"
            " node"
        )
    return path


def _pattern(text: str) -> str:
    """Shell patterns of names that a node has: at least two letters that are no wildcards, so that
    nothing matches everything.
    """
    if len(re.sub(r"[*?\[\]]", "", text)) < 2 or not re.fullmatch(r"[\w.*?:@/\[\]-]+", text):
        raise ValueError(
            "expected a name, * and ? stand for anything; at least two other characters"
        )
    return text


def _manager(text: str) -> str:
    """By a field manager objects are known as the CNI's: never the name of the cluster's own
    programs or of those that people use.
    """
    if not re.fullmatch(r"[\w./ -]{2,128}", text):
        raise ValueError("expected the name of a field manager")
    if text in _OTHER_MANAGERS or text.startswith(("kubectl", "helm")):
        raise ValueError(f"'{text}' writes objects of others, too")
    return text


def _rule(text: str) -> str:
    if len(text.strip()) < 4 or len(text) > 200 or not text.isprintable():
        raise ValueError("expected at least four printable characters of a rule")
    return text


def _taint(key: str) -> str:
    domain = key.partition("/")[0]
    if not re.fullmatch(r"[\w.-]{2,253}/[\w.-]{1,63}", key) or domain in _OTHER_TAINTS:
        raise ValueError("expected the key of a taint of the CNI, DOMAIN/NAME")
    return key


def _route_table(number: int) -> int:
    if not 0 < number < 2**32 or number in (253, 254, 255):
        raise ValueError("expected the number of a routing table of the CNI's own")
    return number


_OTHER_MANAGERS = frozenset(
    {"cnibench", "before-first-apply", "k3s", "kubernetes", "kubelet"}
    | {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubeadm", "unknown"}
)
_OTHER_TAINTS = frozenset({"node.kubernetes.io", "node-role.kubernetes.io"})


def _family(number: int) -> int:
    if number not in (4, 6):
        raise ValueError("expected 4 or 6")
    return number


Family = Annotated[int, AfterValidator(_family)]
Path = Annotated[str, AfterValidator(_removable)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Manager = Annotated[str, AfterValidator(_manager)]
Rule = Annotated[str, AfterValidator(_rule)]
Taint = Annotated[str, AfterValidator(_taint)]
RouteTable = Annotated[int, AfterValidator(_route_table)]


class Chart(Part):
    """A helm chart, rendered by ``helm template`` and applied on the server's side."""

    name: str = Field(description="the chart's name in its repository")
    repository: str
    version: str
    sha256: str = Field(
        default="",
        description="of the archive of this version, which is then held to it",
        pattern="^([0-9a-f]{64})?$",
    )
    namespace: str
    release: str = Field(default="", description="the release's name; empty: the chart's")
    hooks: bool = Field(default=False, description="whether its install hooks are applied too")
    values: dict[str, JsonValue] = Field(
        default={},
        description=(
            "${name} stands for a variable of the cluster; '${?name}' drops its key when empty"
        ),
    )
    privileged: tuple[str, ...] = Field(
        default=(),
        description="containers that this mode needs privileged, and the chart does not make so",
    )
    image: str = Field(
        default="",
        description=(
            "the value that --set image=NAME sets; PREFIX.repository,PREFIX.tag when two take it"
        ),
    )


class Manifest(Part):
    """Plain objects: a file of cnibench's own, one by path, or one by URL and digest."""

    file: str = Field(
        default="", description="a file in clusters/kubernetes/manifests, or an absolute path"
    )
    url: str = ""
    sha256: str = Field(default="", pattern="^([0-9a-f]{64})?$")
    options: dict[str, str] = Field(
        default={}, description="what ${key} stands for in it; --set key=value changes it"
    )

    @model_validator(mode="after")
    def _one(self) -> Manifest:
        if bool(self.file) == bool(self.url):
            raise ValueError("expected either file or url")
        if self.url and not self.sha256:
            raise ValueError("a url needs its sha256")
        return self


class Reference(Part):
    """The reference plugins, configured by us on each node, with static routes to the other nodes'
    Pods.
    """

    plugin: Literal["bridge", "ptp"]
    mtu: int = Field(
        default=0, ge=0, description="of the Pods' devices; 0: as the node's device on the wire"
    )


class Step(Part):
    """One of these."""

    chart: Chart | None = None
    manifest: Manifest | None = None
    reference: Reference | None = None

    @model_validator(mode="after")
    def _one(self) -> Step:
        if sum(part is not None for part in (self.chart, self.manifest, self.reference)) != 1:
            raise ValueError("expected one of chart, manifest, reference")
        return self


class Wait(Part):
    """One of: a workload rolled out, a condition of an object, a taint gone from all nodes."""

    rollout: str = Field(
        default="",
        description="daemonset/NAME or deployment/NAME",
        pattern="^((daemonset|deployment)/[a-z0-9.-]+)?$",
    )
    namespace: str = "kube-system"
    logged: str = Field(
        default="", description="with rollout: what each of its Pods must have said"
    )
    object: str = Field(default="", description="RESOURCE/NAME whose condition is waited for")
    condition: str = ""
    taint_gone: str = ""

    @model_validator(mode="after")
    def _one(self) -> Wait:
        if sum(map(bool, (self.rollout, self.object and self.condition, self.taint_gone))) != 1:
            raise ValueError("expected one of rollout, object with condition, taint_gone")
        if self.logged and not self.rollout:
            raise ValueError("logged goes with rollout")
        return self


class Leaves(Part):
    """What the CNI leaves on the nodes when its objects are deleted: shell patterns of names. What
    was there before it stays.
    """

    devices: tuple[Pattern, ...] = Field(
        default=(),
        description=("a name with * or ? matches only a node's ends of Pods' devices, and tunnels"),
    )
    chains: tuple[Pattern, ...] = Field(
        default=(), description="iptables chains; rules that jump to them go with them"
    )
    rules: tuple[Rule, ...] = Field(
        default=(),
        description="texts by which its rules in other chains are known (a device, a comment)",
    )
    ipsets: tuple[Pattern, ...] = ()
    nft_tables: tuple[Pattern, ...] = ()
    programs: tuple[Pattern, ...] = Field(
        default=(), description="names of its eBPF programs at tc"
    )
    route_tables: tuple[RouteTable, ...] = ()
    files: tuple[Path, ...] = ()
    backups: str = Field(
        default="",
        description=(
            "the ending of configuration files that it put aside, which get their names back"
        ),
        pattern=r"^(\.\w+)?$",
    )
    xfrm: bool = Field(default=False, description="it makes IPsec states and policies")
    taints: tuple[Taint, ...] = Field(default=(), description="keys of taints of nodes")


class Fact(Part):
    """A value in an object of the API by which CNI and mode are recognised."""

    object: str = Field(
        description=(
            "KIND/NAMESPACE/NAME, or KIND/NAME; * in the namespace stands for anything; node: each"
            " node"
        )
    )
    at: tuple[str | int, ...] = Field(
        default=(), description="path to the value; JSON and YAML in a string are parsed"
    )
    argument: str = Field(
        default="", description="an option of the containers' command lines instead"
    )
    variable: str = Field(
        default="",
        description=(
            "an environment variable of the containers instead, also where a ConfigMap has its"
            " value; of a Secret's, only whether it has one"
        ),
    )
    container: str = Field(
        default="",
        description="the container that is meant; alone: the name of its image, without registry",
    )
    equals: str = Field(
        description=(
            "expected: a shell pattern of the value as text, with ! before it of what it must not"
            " be; an absent value is the text without letters"
        )
    )
    otherwise: str = Field(default="", description="what an absent value or object means")


class Installation(Part):
    """The real CNI in this mode."""

    host_network: bool = Field(
        default=False, description="nothing is installed, Pods use their node's network"
    )
    steps: tuple[Step, ...] = ()
    installed_by: str = Field(
        default="",
        description=(
            "who else installs it: it is recognised and measured where it runs (--cni current), and"
            " never installed or removed"
        ),
    )
    plugins: tuple[Literal["bridge", "host-local", "portmap", "ptp", "loopback"], ...] = Field(
        default=(),
        description=(
            "reference plugins that must be on the nodes; copied there from the agent's image when"
            " they are not"
        ),
    )
    kube_proxy: bool = Field(default=True, description="false: the CNI takes its place")
    kube_proxy_mode: Literal["", "iptables", "nftables", "ipvs"] = Field(
        default="", description="the mode that kube-proxy has to have, where the CNI follows it"
    )
    kernel: tuple[str, ...] = Field(
        default=(),
        description=(
            "kernel features that it needs: keys of clusters/lab/kernel.py where they are the same"
        ),
    )
    ready: tuple[Wait, ...] = ()
    encapsulation: Encapsulation | None = Field(
        default=None,
        description=(
            "between nodes; absent: the datapath's; with installed_by and without a datapath,"
            " nothing is attested but that Pods reach each other"
        ),
    )
    between_subnets: Encapsulation | None = Field(
        default=None,
        description="between nodes of different subnets, where that differs; overhead is the same",
    )
    tunnel: dict[Family, Pattern] = Field(
        default={}, description="the tunnel device on the nodes, for each family"
    )
    overhead: int | None = Field(
        default=None,
        ge=0,
        le=300,
        description="bytes, Pod MTU = wire MTU - overhead; absent: the datapath's",
    )
    overhead_ipv6: int | None = Field(default=None, ge=0, le=300)
    mtu: int = Field(
        default=0, ge=0, le=65535, description="the Pods' MTU where it does not follow the wire's"
    )
    policy: Literal["none", "unused", "enforced"] = Field(
        default="none",
        description=(
            "cannot enforce policies; could, and none is applied; ours are applied and enforced"
        ),
    )
    managers: tuple[Manager, ...] = Field(
        default=(),
        description=(
            "the names under which its programs write to the API (metadata.managedFields), by which"
            " what they made is known"
        ),
    )
    bookkeeping: tuple[str, ...] = Field(
        default=(),
        description=(
            "PLURAL.GROUP of resources that its programs alone make, and write without saying their"
            " name"
        ),
    )
    leaves: Leaves = Leaves()
    recognise: tuple[Fact, ...] = Field(
        default=(),
        description=(
            "all must hold, the first of them for any mode of the CNI; the profile with the most of"
            " them is it"
        ),
    )
    notes: tuple[str, ...] = Field(default=(), description="what the user should know")

    def means(self) -> tuple[str, ...]:
        """By what it is installed, in words, the CNI's own part last."""
        found = ["Pods on the nodes' network"] if self.host_network else []
        if self.installed_by:
            found.append(f"installed by {self.installed_by}: measured where it runs")
        for step in self.steps:
            if step.chart:
                found.append(
                    f"helm chart {step.chart.name} {step.chart.version} of {step.chart.repository}"
                )
            elif step.manifest:
                found.append(f"manifest {step.manifest.file or step.manifest.url}")
            elif step.reference:
                found.append(f"reference plugin {step.reference.plugin} with static routes")
        return tuple(found)

    def version(self) -> str:
        """Of what is installed: its own chart's, its image's tag, or that in a manifest's URL; ''
        where none of them has one.
        """
        for step in reversed(self.steps):
            if step.chart:
                return step.chart.version
            if step.manifest:
                _, tagged, tag = step.manifest.options.get("image", "").rpartition(":")
                found = re.search(r"/(v?\d+(?:\.\d+)+)/", step.manifest.url)
                return tag if tagged else found[1] if found else ""
        return ""

    @model_validator(mode="after")
    def _whole(self) -> Installation:
        if self.host_network + bool(self.steps) + bool(self.installed_by) != 1:
            raise ValueError("expected one of steps, host_network: true, installed_by")
        return self
