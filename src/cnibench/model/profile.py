"""Profiles: a CNI in one mode, each one YAML file whose stem is its name; the schema is exported
from these models.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from yaml.composer import Composer

from cnibench.errors import InputError, UsageError
from cnibench.model.installation import Installation
from cnibench.registry import folders
from cnibench.system.files import read_named

FOLDER = Path(__file__).parents[1] / "profiles"
_LARGEST = (
    256 * 1024
)  # bytes: no profile is near it, and an alias bomb needs little text but much expansion


# How Services are implemented on the nodes: kube-proxy's modes, a CNI's programs in its place,
# or not at all.
Proxy = Literal["iptables", "nftables", "ipvs", "ebpf", "none"]
PROXIES: tuple[Proxy, ...] = ("iptables", "nftables", "ipvs", "ebpf", "none")

_MOST_MISTAKES = 5  # that a message names
_KINDS = ("constrained-", "literal[", "function-")  # what pydantic names the members of a union by


class Strict(BaseModel):
    """Base of everything read from files: an unknown key is an error, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Policy(Strict):
    """What kinds of policy the CNI enforces (Table I of qi2021)."""

    kubernetes: bool
    third_party: bool = False
    ingress: bool
    egress: bool
    layers: tuple[Literal["L3", "L4", "L7"], ...] = ()


class Features(Strict):
    """Table I of qi2021 and our own columns."""

    network_model: Literal["L2", "L3", "hybrid", "host"]
    mode: Literal["underlay", "overlay", "none"] = Field(
        description="how this profile crosses nodes"
    )
    tunnels: tuple[str, ...] = Field(
        default=(), description="tunnels that the CNI offers, this mode's first"
    )
    outer_checksum: bool | None = Field(
        default=None,
        description="has the outer UDP header a checksum over IPv4? left out: not attested",
    )
    policy: Policy
    encryption: str = Field(
        default="",
        description="what encrypts between nodes in this mode or is offered; empty: none",
    )
    extra: tuple[str, ...] = ()
    default_mtu: int = Field(
        ge=576, le=65535, description="the CNI's own default on a 1500-byte network"
    )
    ip: tuple[Literal[4, 6], ...] = Field(
        default=(4,), description="address families this mode supports"
    )


class Datapath(Strict):
    """The lab's model of the datapath: which builder makes it, with which options (checked by the
    builder).
    """

    model: str = Field(description="a module of clusters/lab/datapaths")
    encapsulation: Literal[
        "none", "vxlan", "ipip", "geneve", "udp", "wireguard", "esp", "ila", "evpn", "ovs-vxlan"
    ] = "none"
    overhead: int = Field(
        default=0,
        ge=0,
        le=200,
        description="bytes that the encapsulation adds over IPv4: path MTU = wire MTU - overhead",
    )
    overhead_ipv6: int = Field(
        default=0,
        ge=0,
        le=200,
        description="further bytes when Pods have IPv6 and its tunnel runs over IPv6",
    )
    pod_mtu: Literal["path", "wire"] = Field(
        default="path",
        description="the Pods' MTU: that of the path, or the wire's, and ICMP tells the path's",
    )
    policy: Literal["none", "default-chains", "enforced"] = "none"
    needs: tuple[str, ...] = Field(
        default=(), description="kernel features: keys of clusters/lab/kernel.py"
    )
    options: dict[str, JsonValue] = {}


class Source(Strict):
    """The upstream document or source file that the datapath follows."""

    what: str
    url: str


class Profile(Strict):
    """One CNI in one mode."""

    schema_version: Literal[1] = Field(alias="schema")
    name: str = ""
    title: str
    cni: str
    summary: str
    features: Features
    datapath: Datapath | None = Field(
        default=None, description="absent: this profile has no model in the lab"
    )
    reason: str = Field(
        default="", description="without a model in the lab: what there would have to be for one"
    )
    clear: str = Field(
        default="",
        description="the profile of the same mode without encryption; empty: it encrypts nothing",
    )
    proxy: Literal["", "iptables", "nftables", "ipvs", "ebpf", "none"] = Field(
        default="",
        description="how Services are implemented beside it; --proxy sets it; empty: as usual",
    )
    kubernetes: Installation | None = Field(
        default=None, description="how the real CNI is installed; absent: not on Kubernetes"
    )
    sources: tuple[Source, ...] = ()
    studies: dict[Literal["qi2021", "bruijn2017", "makowski2018"], str] = Field(
        default={}, description="the system's name in each study"
    )


# Stands for whatever runs on a cluster (``--cni current``) until the cluster has reported
# what that is; its features are nobody's.
CURRENT = Profile(
    schema=1,
    name="current",
    title="what runs on the cluster",
    cni="unknown",
    summary="The CNI that is there, measured as it is.",
    features=Features(
        network_model="hybrid",
        mode="none",
        policy=Policy(kubernetes=False, ingress=False, egress=False),
        default_mtu=1500,
        ip=(4, 6),
    ),
    reason="a cluster on which it runs: --cluster existing",
)


# libyaml parses in a sixth of the time. Composer comes first: libyaml's own expands aliases.
_BASES: tuple[Any, ...] = (
    (Composer, yaml.CSafeLoader) if yaml.__with_libyaml__ else (yaml.SafeLoader,)
)


class _NoAliases(*_BASES):  # type: ignore[misc]  # one of two, which mypy cannot follow
    """YAML without aliases (a billion laughs is refused, not expanded) and without duplicate
    keys.
    """

    def __init__(self, stream: str) -> None:
        _BASES[-1].__init__(self, stream)
        Composer.__init__(self)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(
                problem="aliases are not allowed here",
                problem_mark=parent.start_mark if parent else None,
            )
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key '{key}' occurs twice", problem_mark=key_node.start_mark
                )
            if isinstance(key, str):
                seen.add(key)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


def read_yaml(path: Path) -> Mapping[str, Any]:
    """The mapping in a YAML file. Raises InputError naming the file, the line and what was
    expected.
    """
    try:
        return parse_yaml(read_named(path, _LARGEST).decode(), path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "check the path") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text", "is this the right file?") from None


def parse_yaml(text: str, path: Path) -> Mapping[str, Any]:
    """The mapping in the text of a YAML file. Raises InputError as ``read_yaml``."""
    try:
        data = yaml.load(text, Loader=_NoAliases)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise InputError(
            f"{path}, line {line}: {error.problem}", "write plain YAML: one mapping, no aliases"
        ) from None
    except RecursionError:
        raise InputError(
            f"{path}: not YAML that can be read: nested too deeply", "write plain YAML: one mapping"
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(
            f"{path}: not YAML that can be read: {str(error).splitlines()[0]}",
            "write plain YAML: one mapping",
        ) from None
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise InputError(
            f"{path}: expected a mapping of keys to values",
            "'cnibench profiles show flannel' shows a complete profile",
        )
    return data


def explain(path: Path | str, error: ValidationError) -> InputError:
    """A pydantic error as one InputError: the file, each key, what was expected."""
    details = "; ".join(
        f"{where}{where and ': '}{', or '.join(words)}" for where, words in mistakes(error).items()
    )
    return InputError(
        f"{path}: {details}", "schema.json in the profiles' directory describes each key"
    )


def mistakes(error: ValidationError) -> dict[str, list[str]]:
    """Of a pydantic error, the first keys (``placement.0``; empty: the whole) to what was expected.

    A list whose items are wrong is also too short once they are dropped: only the items are named.
    """
    items = error.errors(include_url=False)
    found: dict[str, list[str]] = {}
    for item in items:
        loc = item["loc"]
        inner = (one["loc"] for one in items if len(one["loc"]) > len(loc))
        if item["type"] == "too_short" and any(one[: len(loc)] == loc for one in inner):
            continue
        where = ".".join(str(part) for part in loc if not str(part).startswith(_KINDS))
        found.setdefault(where, []).append(_expected(item))
        if sum(map(len, found.values())) == _MOST_MISTAKES:
            break
    return found


def _expected(item: Mapping[str, Any]) -> str:
    """What was expected, in words that no version of pydantic changes."""
    limits = item.get("ctx", {})
    for kind, words in (
        ("ge", "at least"),
        ("gt", "more than"),
        ("le", "at most"),
        ("lt", "less than"),
    ):
        if kind in limits:
            limit = limits[kind]
            shown = f"{limit:.0f}" if limit == round(limit) else f"{limit:g}"
            return f"expected {words} {shown}, got {item['input']}"
    if item["type"] == "literal_error":
        return f"expected {limits['expected']}, got {item['input']!r}"
    if item["type"] == "extra_forbidden":
        return "there is no such key"
    if item["type"] == "missing":
        return "is missing"
    return str(item["msg"]).removeprefix("Value error, ")


def read_profile(path: Path) -> Profile:
    """The profile in that file. Raises InputError."""
    data = dict(read_yaml(path))
    if "name" in data:
        raise InputError(
            f"{path}: name: the file's stem is the profile's name", "remove the key 'name'"
        )
    try:
        return Profile.model_validate({**data, "name": path.stem})
    except ValidationError as error:
        raise explain(path, error) from None


class _Shipped(Mapping[str, Profile]):
    """Profiles by name, out of the files of those names: most commands ask for one or two of
    fifty.
    """

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths
        self._read: dict[str, Profile] = {}

    def __getitem__(self, name: str) -> Profile:
        if name not in self._read:
            self._read[name] = read_profile(self._paths[name])
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


@cache
def builtin() -> Mapping[str, Profile]:
    """All profiles that cnibench and other installed packages ship, by name, in alphabetical order.
    Each is read when it is asked for first, and raises InputError then where its file is wrong.

    Raises UsageError when two packages ship one of the same name, MissingError for a package that
    cannot be imported.
    """
    found: dict[str, Path] = {}
    for path in (
        path for folder in (FOLDER, *folders("profiles")) for path in folder.glob("*.yaml")
    ):
        if path.stem in found:
            raise UsageError(
                f"two profiles are called '{path.stem}': {found[path.stem]} and {path}",
                "rename or uninstall one of them",
            )
        found[path.stem] = path
    return _Shipped({name: found[name] for name in sorted(found)})


def choose(names: Iterable[str]) -> dict[str, Profile]:
    """Labels to profiles: each of ``names`` is a name, a shell pattern, a path to a file, or
    LABEL=one of these; a comma separates too.

    Raises UsageError for what matches nothing (with the nearest names), for what is written twice,
    or for one label given twice to different profiles.
    """
    chosen: dict[str, Profile] = {}
    entries = [part.strip() for name in names for part in name.split(",")]
    for number, entry in enumerate(entries):
        if not entry:
            continue
        if entry in entries[:number]:
            name = entry.rpartition("=")[2]
            raise UsageError(
                f"'{entry}' is named twice",
                f"name it once, or measure it twice under two labels: a={name},b={name}",
            )
        label, equals, name = entry.partition("=")
        if not equals:
            label, name = "", entry
        found = _match(name)
        if label and len(found) != 1:
            raise UsageError(
                f"the label '{label}' is for one profile, and '{name}' is {len(found)}",
                "give each its own LABEL=NAME",
            )
        for profile in found:
            key = label or profile.name
            if key in chosen and chosen[key] != profile:
                raise UsageError(
                    f"the label '{key}' is used for two profiles", "give each its own LABEL=NAME"
                )
            chosen[key] = profile
    if not chosen:
        raise UsageError(
            "no profile was named", "'cnibench profiles' lists them; name one with --cni NAME"
        )
    return chosen


def with_proxies(profiles: Mapping[str, Profile], modes: Sequence[str]) -> dict[str, Profile]:
    """Each profile with each of these implementations of Services; with several of them the label
    says which: ``flannel+nftables``.
    """
    if not modes:
        return dict(profiles)
    return {
        f"{label}+{mode}" if len(modes) > 1 else label: item.model_copy(update={"proxy": mode})
        for label, item in profiles.items()
        for mode in modes
    }


def _match(name: str) -> list[Profile]:
    if name == CURRENT.name:
        return [CURRENT]
    if name.endswith((".yaml", ".yml")) or "/" in name:
        return [read_profile(Path(name))]
    known = builtin()
    if any(letter in name for letter in "*?["):
        found = [known[key] for key in fnmatch.filter(known, name)]
    else:
        found = [known[name]] if name in known else []
    if not found:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"nearest: {', '.join(near)}" if near else "'cnibench profiles' lists them"
        raise UsageError(f"there is no profile '{name}'", hint)
    return found


def schema_text() -> str:
    """The JSON Schema of a profile file, as cni-profiles/schema.json holds it; ``python -m
    cnibench.model.profile`` writes that file.
    """
    schema = Profile.model_json_schema()
    del schema["properties"]["name"]  # the file's stem
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**head, **schema}, indent=2) + "\n"


if __name__ == "__main__":
    (FOLDER / "schema.json").write_text(schema_text())
