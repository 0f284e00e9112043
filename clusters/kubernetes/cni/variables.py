"""Variables of the cluster in a chart's values and in manifests."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any

VARIABLE = re.compile(r"\$\{(\??)([a-z0-9_:]+)\}")


def substitute(value: Any, variables: Mapping[str, str], *, typed: bool = True) -> Any:
    """``${name}`` filled in; where it is the whole text and ``typed``, it becomes true, false or a
    number if it looks like one.

    ``${?name}`` drops its key when empty; ``${random:20}`` is 20 random bytes in hexadecimal
    digits.
    """
    if isinstance(value, Mapping):
        return {
            key: substitute(item, variables, typed=typed)
            for key, item in value.items()
            if not _dropped(item, variables)
        }
    if isinstance(value, list | tuple):
        return [
            substitute(item, variables, typed=typed)
            for item in value
            if not _dropped(item, variables)
        ]
    if not isinstance(value, str):
        return value
    text = VARIABLE.sub(lambda match: _value(match[2], variables), value)
    if typed and VARIABLE.fullmatch(value):
        if text in ("true", "false"):
            return text == "true"
        if text.isdecimal():
            return int(text)
    return text


def derived(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that follow from others."""
    registry = variables.get("registry", "").rstrip("/")
    return {
        "ipv6": "true" if variables.get("pod_cidr_ipv6") else "false",
        "registry_slash": registry + "/" if registry else "",
    }


def _dropped(item: Any, variables: Mapping[str, str]) -> bool:
    match = VARIABLE.fullmatch(item) if isinstance(item, str) else None
    return bool(match and match[1] and not _value(match[2], variables))


def _value(name: str, variables: Mapping[str, str]) -> str:
    kind, _, size = name.partition(":")
    if kind == "random":
        return secrets.token_hex(int(size or 16))
    return variables.get(name, "")
