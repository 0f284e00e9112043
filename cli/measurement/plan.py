"""From the options of a command to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from cnibench.cli.options.cluster import between_machines
from cnibench.cli.options.plan import PlanOptions
from cnibench.errors import UsageError
from cnibench.model import profile
from cnibench.model.profile import Profile
from cnibench.planning.method import WARMUP
from cnibench.planning.plan import Plan, build_plan
from cnibench.planning.plans import named, scaled
from cnibench.registry import provider, providers
from cnibench.rundir.schema import LONGEST_NAME
from cnibench.system.guest import inside
from cnibench.testbed.cluster import Cluster

_SINGLE = (
    "cluster",
    "method",
    "duration",
    "warmup",
    "cpus",
    "mtu",
    "wire_offload",
    "wire_rate",
    "congestion_control",
    "priority",
    "pairs",
    "target_ci",
    "max_blocks",
    "budget",
    "resolution",
    "noise",
    "seed",
    "title",
)  # options whose value is that of the plan's key


def plan_of(given: PlanOptions) -> Plan:
    """The plan that the command line asks for: its options over the plan file's keys. Raises
    UsageError, InputError.
    """
    base = named(given.plan) if given.plan else None
    options: dict[str, Any] = {
        key: value for key in _SINGLE if (value := getattr(given, key)) is not None
    }
    if given.lab:
        options["cluster"] = between_machines(given.cluster or (base.cluster if base else None))
    for key in ("cni", "placement", "path", "proxy"):
        if listed := _list(getattr(given, key)):
            options[key] = listed
    if listed := _list(given.workload):
        options["workload"] = [_work(item) for item in listed]
    if given.ip:
        options["ip"] = [4, 6] if given.ip == "both" else [int(given.ip)]
    if given.blocks is not None:
        options["blocks"] = _blocks(given.blocks)
    if given.no_perf:
        options["windows"] = ["speed"]
    if given.settings:
        options["settings"] = settings_of(given.settings, base)
    plan = build_plan(options, base)
    if plan.method == "slices" and "warmup" not in plan.model_fields_set:
        plan = build_plan({"warmup": WARMUP}, plan)
    return plan


def facts_of(given: Sequence[str]) -> dict[str, str]:
    """KEY=VALUE of ``--fact``. Raises UsageError."""
    found: dict[str, str] = {}
    for entry in given:
        key, equals, value = entry.partition("=")
        if not equals or not key or not value or key in found or len(entry) > LONGEST_NAME:
            raise UsageError(
                f"--fact {entry[:80]}: expected KEY=VALUE, each KEY once",
                "for example --fact commit=1a2b3c4",
            )
        found[key] = value
    return found


def with_usual_method(plan: Plan, options: PlanOptions) -> Plan:
    """Slices, where the cluster can pause its load generators and neither an option nor a plan file
    decides. Several pairs at the same time, a plan made shorter, and what runs in a VM are measured
    in windows.
    """
    kind: type[Cluster] = provider("clusters", plan.cluster)
    decided = options.method or options.plan or options.scale is not None
    if decided or plan.pairs > 1 or inside() or not kind.slices:
        return plan
    update: dict[str, Any] = {"method": "slices"}
    if options.warmup is None:
        update["warmup"] = WARMUP
    several = len(plan.cni) > 1 or any(name == "all" or "*" in name for name in plan.cni)
    if kind.slices == "in turn" and several and "host" not in plan.path:
        update["path"] = (*plan.path, "host")  # what they are compared by
    return plan.model_copy(update=update)


def _list(given: Sequence[str] | None) -> list[str]:
    return [part.strip() for item in given or () for part in item.split(",") if part.strip()]


def _blocks(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"--blocks takes a number or auto, not '{text}'",
            "leave it out: auto plans enough blocks",
        ) from None


def _work(text: str) -> dict[str, Any]:
    """``NAME`` or ``NAME:KEY=VALUE:KEY=VALUE``."""
    name, *pairs = text.split(":")
    params = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(
                f"'{pair}' in --workload {text} is not KEY=VALUE", "write tcp-rr:request_size=64"
            )
        try:
            params[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            params[key] = value
    return {"name": name, "params": params}


def settings_of(given: Sequence[str], base: Plan | None = None) -> dict[str, dict[str, str]]:
    """``[LABEL:]KEY=VALUE`` to label (or '') to key to value, over the plan's own."""
    found = {label: dict(keys) for label, keys in (base.settings if base else {}).items()}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(
                f"--set takes [LABEL:]KEY=VALUE, not '{item}'",
                "write --set candidate:image=registry.example/cni:v2",
            )
        label, _, key = name.rpartition(":")
        found.setdefault(label, {})[key] = value
    return found


def profiles_of(plan: Plan) -> dict[str, Profile]:
    """Labels to the profiles that the plan names, one for each implementation of Services that it
    asks for. Raises UsageError, InputError.
    """
    found = profile.choose(["*" if item == "all" else item for item in plan.cni])
    return profile.with_proxies(found, plan.proxy)


def at_scale(plan: Plan, factor: float) -> tuple[Plan, list[str]]:
    """``--scale``: the shorter plan, and in words what changed. Raises UsageError."""
    return scaled(plan, factor, len(profiles_of(plan)), providers("workloads"))


def suited(plan: Plan, options: PlanOptions) -> tuple[Plan, list[str]]:
    """The plan file's plan without what its kind of cluster cannot have, and in words what that
    gave up. Raises UsageError.

    What was typed stays as it is: whoever asks for it by name is refused rather than given
    something else.
    """
    if not options.plan:
        return plan, []
    kind: type[Cluster] = provider("clusters", plan.cluster)
    changes = []
    if kind.mtus and plan.mtu not in kind.mtus and options.mtu is None:
        changes.append(
            f"an MTU of {kind.mtus[0]} instead of {plan.mtu}, the only one that its wire supports"
        )
        plan = plan.model_copy(update={"mtu": kind.mtus[0]})
    if not kind.conntrack_bypass and not options.workload:
        plan, names = plan.with_conntrack()
        if names:
            changes.append(
                f"policy.conntrack: used instead of bypassed, for {', '.join(names)}: whether"
                " packets of established connections are checked against the policies depends on"
                " the CNI"
            )
    return plan, [
        f"--cluster {plan.cluster} changes the plan: {'; '.join(changes)}"
    ] if changes else []
