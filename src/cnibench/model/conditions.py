"""Conditions of a cell: what is put around a workload while it is measured, as parameters that
every workload takes.

Their names have a dot: ``policy.entries`` (bruijn2017: 0 to 200 policy entries), ``offload.pods``
(bruijn2017: virtual TSO off, then on), ``services.count``. A plan sweeps them like a workload's own
parameters; the cluster makes them before the sample, proves them by reading back, and removes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from cnibench.model.profile import Strict

MOST_ENTRIES = 5000
MOST_SERVICES, MOST_ENDPOINTS = 10_000, 100
# The features of a veth that ``offload.pods`` turns on and off together: TCP segmentation, as
# ethtool names them.
TSO = (
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
)


class Policies(Strict):
    """Policy entries beside the CNI's own, on every node.

    ``setting``: a packet passes all ``entries`` (``no-match``) or meets one that matches first
    (``top-of-chain``). ``restrictions``: so many entries of one policy that selects the peer and
    names another port each. ``conntrack``: ``used`` has packets of established connections pass by
    the entries, as CNIs do; ``bypassed`` has each packet walk them, as bruijn2017 had. ``layer``:
    L4, or an HTTP rule.

    On clusters: ``api`` has them as NetworkPolicy, or as the CNI's own kind of object; ``objects``
    as rules of one, or each as its own.
    """

    entries: int = Field(default=0, ge=0, le=MOST_ENTRIES)
    setting: Literal["no-match", "top-of-chain"] = "no-match"
    restrictions: int = Field(default=0, ge=0, le=1000)
    conntrack: Literal["used", "bypassed"] = "used"
    layer: Literal["L4", "L7"] = "L4"
    api: Literal["kubernetes", "cni"] = "kubernetes"
    objects: Literal["one", "many"] = "one"


class Offload(Strict):
    """Segmentation features of the pair's interfaces (``pods``: TCP segmentation of both ends of
    their veths) and of the ``wire``.

    ``default`` leaves them as the profile and --wire-offload have them.
    """

    pods: Literal["default", "tso-on", "tso-off"] = "default"
    wire: Literal["default", "none", "plain", "vxlan", "all"] = "default"


class Services(Strict):
    """Services of the cluster beside its own and the measured one: ``count`` with one port each,
    before ``endpoints`` that no Pod is.
    """

    count: int = Field(default=0, ge=0, le=MOST_SERVICES)
    endpoints: int = Field(default=1, ge=1, le=MOST_ENDPOINTS)


class Conditions(Strict):
    """What a cell asks for; None: nothing of that kind."""

    policy: Policies | None = None
    offload: Offload | None = None
    services: Services | None = None


NAMES = tuple(
    f"{group}.{key}"
    for group, kind in (("policy", Policies), ("offload", Offload), ("services", Services))
    for key in kind.model_fields
)


def split(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(a workload's own parameters, conditions with all their parameters explicit). Raises
    pydantic.ValidationError.
    """
    own = {name: value for name, value in given.items() if "." not in name}
    asked = {name: value for name, value in given.items() if "." in name}
    return own, flat(_read(asked))


def flat(asked: Conditions) -> dict[str, Any]:
    """As parameters of a cell."""
    groups: dict[str, dict[str, Any]] = asked.model_dump(mode="json", exclude_none=True)
    return {
        f"{group}.{key}": value for group, values in groups.items() for key, value in values.items()
    }


def of(params: Mapping[str, Any]) -> Conditions | None:
    """The conditions among a cell's parameters, None when there are none."""
    asked = {name: value for name, value in params.items() if "." in name}
    return _read(asked) if asked else None


def _read(asked: Mapping[str, Any]) -> Conditions:
    groups: dict[str, dict[str, Any]] = {}
    for name, value in asked.items():
        group, _, key = name.partition(".")
        groups.setdefault(group, {})[key] = value
    return Conditions.model_validate(groups)


def wrong(error: ValidationError) -> bool:
    """Is this error about conditions (and not about a workload's own parameters)?"""
    return error.title == Conditions.__name__
