"""The kind clusters on this machine's container engine that are cnibench's: whose they are, and
which may be removed.

kind labels the containers with the cluster's name (``io.x-k8s.kind.cluster``) and with nothing
else, so the owner is in the name; the Lease is inside the cluster. A cluster that is being made has
none yet: it is left alone for a while.
"""

from __future__ import annotations

import datetime
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path

from cnibench.clusters.kubernetes import images
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.ownership import discovery, state
from cnibench.errors import ClusterError, CnibenchError
from cnibench.system import process as programs
from cnibench.system import scratch
from cnibench.testbed.capabilities.ownership import Leftover

_DELETE = 120.0  # s
_ASK = 60.0  # s
_TRIES, _PAUSE = 4, 1.0  # of listing the clusters, s between them
_MAKING = datetime.timedelta(
    minutes=6
)  # that a cluster of somebody else may take until it has its Lease


def delete(name: str) -> None:
    """Removes a kind cluster. Raises ClusterError.

    Its nodes are killed first: podman would give the systemd of each 10 s to end, and it does not.
    """
    engine = images.engine().program
    own = f"label=io.x-k8s.kind.cluster={name}"
    listed = programs.run([engine, "ps", "--quiet", "--filter", own], timeout=_ASK, check=False)
    if nodes := listed.stdout.split():
        programs.run([engine, "kill", *nodes], timeout=_ASK, check=False)
    programs.run(
        ["kind", "delete", "cluster", "--name", name, "--kubeconfig", os.devnull], timeout=_DELETE
    )


def _listed() -> list[str]:
    """All kind clusters. Podman cannot list containers at the moment at which one loses its network
    namespace, so the question is asked again.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            return programs.run(["kind", "get", "clusters"], timeout=_ASK).stdout.split()
        except ClusterError:
            if attempt == _TRIES:
                raise
            time.sleep(_PAUSE)
    raise AssertionError


def leftovers(mine: set[str], notify: Callable[[str], None]) -> list[Leftover]:
    """Those of cnibench, each with why it stays when it does; ``mine`` are the owners whose
    clusters may be removed. Raises ClusterError when kind cannot say which there are.
    """
    listed = _listed()
    found = [
        Leftover(
            f"the folder of the kind cluster {path.name}, which is gone",
            functools.partial(_forget, path.name),
            owner=state.owner(),
        )
        for path in sorted(state.clusters().iterdir())
        if path.name not in listed and not state.in_use(path.name)
    ]
    for name in listed:
        owner = state.owner_of(name) or (state.owner() if state.known(name) else "")
        if owner:
            kept, remedy = _kept(name, owner, mine, notify)
            remove = functools.partial(_remove, name)
            found.append(
                Leftover(f"the kind cluster {name}", remove, owner=owner, kept=kept, remedy=remedy)
            )
    return found


def _kept(name: str, owner: str, mine: set[str], notify: Callable[[str], None]) -> tuple[str, str]:
    """(why it stays, what to do), '' when it may be removed."""
    if owner not in mine:
        return (
            f"it is of {owner}",
            f"cnibench clean --cluster kind --owner {owner} removes it, unless a run uses it",
        )
    if state.known(
        name
    ):  # a process on this machine made it, and the kernel says whether that lives
        return ("a run of yours uses it", "wait for its end") if state.in_use(name) else ("", "")
    try:
        return _used(name, owner, notify)
    except CnibenchError as error:
        return (
            f"cannot determine whether a run uses it: {error.message}",
            f"kind delete cluster --name {name}, if no run does",
        )


def _used(name: str, owner: str, notify: Callable[[str], None]) -> tuple[str, str]:
    """By the Lease in it. Raises ClusterError."""
    with scratch.folder() as folder:
        path = Path(folder) / "kubeconfig"
        given = programs.run(["kind", "get", "kubeconfig", "--name", name], timeout=_ASK).stdout
        path.touch(mode=0o600)
        path.write_text(given, encoding="utf-8")
        access = Access(path)
        try:
            spaces = discovery.watched(access, discovery.spaces(access), notify)
        finally:
            access.close()
    if any(one.use in ("live", "held") for one in spaces):
        return f"a run of {owner} uses it", "wait for its end"
    if not spaces and _age(name) < _MAKING:
        return f"a run of {owner} may be making it", "try again in some minutes"
    return "", ""


def _age(name: str) -> datetime.timedelta:
    """Since its first container was made, by the engine. Raises ClusterError."""
    engine = images.engine().program
    names = programs.run(["kind", "get", "nodes", "--name", name], timeout=_ASK).stdout.split()
    if not names:
        raise ClusterError(f"the kind cluster {name} has no nodes")
    said = programs.run(
        [engine, "inspect", "--format", "{{.Created}}", names[0]], timeout=_ASK
    ).stdout.strip()
    return datetime.datetime.now(datetime.UTC) - _moment(said)


def _moment(said: str) -> datetime.datetime:
    """A time as docker (RFC 3339) and podman (Go's String) write it, to the second. Raises
    ClusterError.
    """
    try:
        day, clock = said.replace("T", " ").split(" ")[:2]
        moment = datetime.datetime.fromisoformat(f"{day} {clock[:8]}")
        zone = next(
            (word for word in said.split(" ")[2:] if word[:1] in "+-" and word[1:].isdigit()),
            "+0000",
        )
        return moment.replace(tzinfo=datetime.datetime.strptime(zone, "%z").tzinfo)
    except ValueError:
        raise ClusterError(f"'{said}' is no time that is known here") from None


def _forget(name: str) -> None:
    """Unless a process has begun to use it meanwhile."""
    if not state.in_use(name):
        state.forget(name)


def _remove(name: str) -> None:
    delete(name)
    state.forget(name)
    state.unmark_ended()
