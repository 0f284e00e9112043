"""Options that only some kinds of cluster take: those of Kubernetes, and of kind."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, fields
from typing import Any

from cnibench.errors import InputError

# What several kinds of cluster take (Cluster.takes).
ACCESS = frozenset({"kubeconfig", "context", "as_user", "as_group", "namespace"})
NODES = frozenset({"client_node", "server_node", "toleration"})
PODS = frozenset({"registry", "pull_secret", "pod_resources", "keep"})


@dataclass(frozen=True)
class ClusterOptions:
    """As the user typed them: the kind of cluster that takes one checks it. None, () and False: not
    given.
    """

    kubeconfig: str | None = None
    context: str | None = None
    as_user: str | None = None
    as_group: tuple[str, ...] = ()
    namespace: str | None = None
    client_node: str | None = None
    server_node: str | None = None
    client_selector: str | None = None
    server_selector: str | None = None
    toleration: tuple[str, ...] = ()
    max_rate: str | None = None
    allow_load: bool = False
    allow_install: bool = False
    allow_replace: str | None = None
    allow_node_changes: bool = False
    patience: str | None = None
    registry: str | None = None
    pull_secret: str | None = None
    pod_resources: str | None = None
    node_image: str | None = None
    kind_nodes: int | None = None
    image_archive: tuple[str, ...] = ()
    kubernetes: str | None = None

    def only(self, names: Container[str]) -> ClusterOptions:
        """Without those that were given and are none of ``names``."""
        given = self.given()
        return ClusterOptions(**{name: given[name] for name in given if name in names})

    def given(self) -> dict[str, Any]:
        """Those that were given, as a run directory stores them."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value not in (None, (), False)}


def spelled(name: str) -> str:
    """``as_user`` as the user types it: ``--as``."""
    return "--" + name.removesuffix("_user").replace("_", "-")


def stored(values: Mapping[str, Any]) -> ClusterOptions:
    """The reverse of ``given``. Raises InputError for an option that does not exist, or a value of
    another type: a run directory may come from elsewhere.
    """
    from pydantic import TypeAdapter, ValidationError

    known = {one.name for one in fields(ClusterOptions)}
    if unknown := sorted(values.keys() - known):
        raise InputError(
            f"the run has an option that this version does not know: {unknown[0]}",
            "resume it with the version that began it",
        )
    try:
        return TypeAdapter(ClusterOptions).validate_python(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"the run's option {'.'.join(map(str, first['loc']))}: {first['msg']}",
            "begin a new run",
        ) from None
