"""Capabilities: what a kind of cluster, or a deployment on it, may offer beyond the required
interface.

Each one is a small abstract class in ``testbed.capabilities``. A kind of cluster offers it by
inheriting from it; ``Cluster.deploys`` is the class of its deployments, so that what they offer is
known before anything is installed. Workloads and collectors list what they need as ``needs``.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import ClassVar, Self

from cnibench.errors import UnsupportedError


class Capability(abc.ABC):
    """``title`` names it in messages."""

    title: ClassVar[str]

    @classmethod
    def of(cls, owner: object) -> Self:
        """``owner``, which has this capability. Raises UnsupportedError naming it if not."""
        if isinstance(owner, cls):
            return owner
        name = getattr(owner, "label", None) or getattr(owner, "kind", type(owner).__name__)
        raise UnsupportedError(f"{name} does not support {cls.title}")


def missing(offered: type, needs: Iterable[type[Capability]]) -> str:
    """Which of these capabilities a class does not have, by their titles; '' when it has all."""
    return ", ".join(need.title for need in needs if not issubclass(offered, need))
