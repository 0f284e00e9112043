"""``--pod-resources``: the requests and limits of each measured Pod."""

from __future__ import annotations

import re

from cnibench.errors import UsageError

# Of Kubernetes (apimachinery/pkg/api/resource), without exponents.
_QUANTITY = re.compile(r"(0\.\d*[1-9]\d*|[1-9]\d*(\.\d+)?)(m|[KMGT]i?)?")
_EXAMPLE = "for example cpu=2,memory=1Gi"


def parse(text: str | None) -> dict[str, str]:
    """``cpu=2,memory=1Gi``, as Kubernetes writes quantities; nothing for None. Raises
    UsageError.
    """
    found: dict[str, str] = {}
    for part in (text or "").split(",") if text is not None else ():
        key, _, value = part.partition("=")
        if key not in ("cpu", "memory") or not _QUANTITY.fullmatch(value) or key in found:
            raise UsageError(f"--pod-resources '{part}' is not valid", _EXAMPLE)
        found[key] = value
    if found and len(found) < 2:
        raise UsageError(
            "--pod-resources needs both cpu and memory",
            f"only then are the Pods of the QoS class Guaranteed: {_EXAMPLE}",
        )
    return found


def fact(text: str | None) -> dict[str, str]:
    """For env.json: figures of Pods with other limits are not comparable."""
    given = sorted(parse(text).items())
    return {"pod_resources": ",".join(f"{key}={value}" for key, value in given) or "none"}
