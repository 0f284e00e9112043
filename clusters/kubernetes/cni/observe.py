"""The facts by which a CNI is recognised, read from the objects of a cluster: nothing is changed,
and a right that is missing is never taken for an object that is absent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import yaml

from cnibench.clusters.kubernetes.api.access import Access, DeniedError
from cnibench.model.installation import Fact

NODES = "node"  # a fact about each node
_SECRET = "(secret)"
_HIDDEN = re.compile(r"(?i)passw|secret|token|credential|(?<!public)_key$")
_LARGEST = 256 * 1024  # characters of a text in a ConfigMap that is parsed

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Observation:
    """What a fact is on this cluster: its values, several only where nodes differ. ``denied``: its
    object may not be read.
    """

    fact: Fact
    values: tuple[str, ...] = ()
    denied: bool = False

    @property
    def holds(self) -> bool:
        return not self.denied and all(_equal(value, self.fact.equals) for value in self.values)

    @property
    def said(self) -> str:
        """Of one that holds: the value, but a pattern for what may be the cluster's own."""
        return self.expected if "*" in self.fact.equals else self.found

    @property
    def expected(self) -> str:
        pattern = self.fact.equals
        if pattern.startswith("!"):
            return f"anything but {pattern[1:]}"
        return {"": "none", "?*": "any value"}.get(pattern, pattern)

    @property
    def found(self) -> str:
        """What is excluded may be a list of options of a whole program: it is not shown."""
        if self.denied:
            return "what this user may not read"
        if self.fact.equals.startswith("!"):
            return "that"
        return " and ".join(value or "none" for value in sorted(set(self.values)))


class Objects:
    """Objects of a cluster, each read once."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._known: dict[str, Sequence[Object] | DeniedError] = {}

    def observe(self, fact: Fact) -> Observation:
        """Raises ClusterError."""
        try:
            found = self.get(fact.object)
            values = tuple(self._value(fact, one) for one in found) or (fact.otherwise,)
            return Observation(fact, values)
        except DeniedError:
            return Observation(fact, denied=True)

    def get(self, name: str) -> Sequence[Object]:
        """The objects KIND/NAMESPACE/NAME or KIND/NAME, those of all nodes for NODES; none where
        there is none, or no such kind. A namespace may be a shell pattern. Raises DeniedError,
        ClusterError.
        """
        if name not in self._known:
            try:
                self._known[name] = self._read(name)
            except DeniedError as error:
                self._known[name] = error
        found = self._known[name]
        if isinstance(found, DeniedError):
            raise found
        return found

    def _read(self, name: str) -> Sequence[Object]:
        if name == NODES:
            return self.access.listed("nodes")
        kind, *rest = name.split("/")
        namespace = rest[0] if len(rest) == 2 else ""
        if "*" in namespace:
            return [
                one
                for one in self.access.listed(kind)
                if one["metadata"]["name"] == rest[-1]
                and fnmatchcase(one["metadata"]["namespace"], namespace)
            ][:1]
        found = self.access.find(kind, rest[-1], namespace)
        return [] if found is None else [found]

    def _value(self, fact: Fact, found: Object) -> str:
        if fact.argument:
            return _argument(_chosen(found, fact), fact.argument, fact.otherwise)
        if fact.variable:
            return self._variable(found, fact)
        if fact.container:
            return next((image(one) for one in _chosen(found, fact)), fact.otherwise)
        value: Any = found
        in_text = False
        for key in fact.at:
            if isinstance(value, str):
                value, in_text = _parsed(value), True
            try:
                value = value[_spelled(key, value) if in_text else key]
            except (KeyError, IndexError, TypeError):
                return fact.otherwise
        if isinstance(value, bool):
            return "true" if value else "false"
        return fact.otherwise if value is None else str(value)

    def _variable(self, found: Object, fact: Fact) -> str:
        """The value that the container gets, also one that a ConfigMap has. Of a Secret only
        whether it has one, and it is read only where a container names it. Raises DeniedError.
        """
        for container in _chosen(found, fact):
            for item in container.get("env") or ():
                if item["name"] != fact.variable:
                    continue
                source = item.get("valueFrom") or {}
                for kind, key in (("configmap", "configMapKeyRef"), ("secret", "secretKeyRef")):
                    if wanted := source.get(key):
                        where = f"{kind}/{found['metadata']['namespace']}/{wanted['name']}"
                        data = next((one.get("data") or {} for one in self.get(where)), {})
                        value = str(data.get(wanted["key"]) or "")
                        return _shown(fact.variable, value, secret=kind == "secret")
                return _shown(fact.variable, str(item.get("value", "")))
        return fact.otherwise


def containers(found: Object) -> Sequence[Object]:
    """Those of a workload's Pods that go on running."""
    pod = found.get("spec", {}).get("template", {}).get("spec", {})
    return list(pod.get("containers") or ())


def image(container: Object) -> str:
    """A container's image without its registry, and without its digest where it has a tag, as it
    may be shown in a report: kindest/kindnetd:v20250512.
    """
    name, _, digest = str(container.get("image", "")).partition("@")
    host, slash, rest = name.partition("/")
    if slash and (host == "localhost" or re.search("[.:]", host)):
        name = rest
    name = "/".join(name.split("/")[-2:])
    return f"{name}@{digest}" if digest and ":" not in name else name


def version(found: Iterable[Object]) -> str:
    """Of what is recognised: the image of the first container of the first workload, or the
    kubelets' version where it runs in the node's own program; '' where it has none.
    """
    for one in found:
        for container in containers(one):
            name = image(container)
            return name if re.search("[:@]", name) else f"{name}, an image without a tag"
        if kubelet := one.get("status", {}).get("nodeInfo", {}).get("kubeletVersion"):
            return str(kubelet)
    return ""


def _chosen(found: Object, fact: Fact) -> list[Object]:
    return [one for one in containers(found) if fact.container in ("", one.get("name"))]


def _argument(found: Iterable[Object], name: str, otherwise: str) -> str:
    """Of the first container that has the option, the last value, as programs in Go read their
    command lines: pflag takes the last one, and the package flag takes one dash for two.
    """
    for container in found:
        words = [*map(str, (*(container.get("command") or ()), *(container.get("args") or ())))]
        values = []
        for word, after in zip(words, [*words[1:], "-"], strict=False):
            option, equals, given = word.partition("=")
            if option.startswith("-") and option.lstrip("-") == name.lstrip("-"):
                values.append(given if equals else "true" if after.startswith("-") else after)
        if values:
            return values[-1]
    return otherwise


def _shown(name: str, value: str, *, secret: bool = False) -> str:
    return _SECRET if value and (secret or _HIDDEN.search(name)) else value


def _spelled(key: str | int, value: Any) -> str | int:
    """A key as a text of JSON or YAML has it: programs in Go read ``Directrouting`` as
    ``DirectRouting``.
    """
    if not isinstance(value, Mapping) or key in value:
        return key
    return next((one for one in value if str(one).lower() == str(key).lower()), key)


def _equal(value: str, pattern: str) -> bool:
    if pattern.startswith("!"):
        return not fnmatchcase(value, pattern[1:])
    return fnmatchcase(value, pattern)


class _Plain(yaml.SafeLoader):
    """Without aliases: a text that expands is not parsed."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="an alias")
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


def _parsed(text: str) -> Any:
    """JSON or YAML in a text; the text itself where it is neither."""
    if len(text) > _LARGEST:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return yaml.load(text, Loader=_Plain)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text
