"""What the program ethtool(8) prints, for nodes on which programs can only be run."""

from __future__ import annotations

import re

from cnibench.system.ethtool import Feature

# What ethtool(8) calls some bits, and the kernel's own names.
_ALIASES = {
    "generic-segmentation-offload": "tx-generic-segmentation",
    "generic-receive-offload": "rx-gro",
    "large-receive-offload": "rx-lro",
    "receive-hashing": "rx-hashing",
    "rx-checksumming": "rx-checksum",
    "ntuple-filters": "rx-ntuple-filter",
    "rx-vlan-offload": "rx-vlan-hw-parse",
    "tx-vlan-offload": "tx-vlan-hw-insert",
}
_HASHED = (
    ("IP SA", "s"),
    ("IP DA", "d"),
    ("L4 bytes 0 & 1", "f"),
    ("L4 bytes 2 & 3", "n"),
)  # dump_rxfhash of ethtool's rxclass.c
_SUMMARIES = (
    "tx-checksumming",
    "scatter-gather",
    "tcp-segmentation-offload",
)  # of several bits, which follow


def states(text: str) -> dict[str, str]:
    """``ethtool -k``: name, as printed, to state (``on``, ``off [fixed]``, ...)."""
    return dict(re.findall(r"^\s*([a-z0-9_-]+): ((?:on|off)(?: \[.*\])?)$", text, re.MULTILINE))


def parse_features(text: str) -> dict[str, Feature]:
    """``ethtool -k``: name to state, by the kernel's names."""
    found = {}
    for name, state in states(text).items():
        if name not in _SUMMARIES:
            on, asked = state.startswith("on"), re.search(r"requested (on|off)", state)
            fixed = "fixed" in state
            found[_ALIASES.get(name, name)] = Feature(
                on, fixed, asked[1] == "on" if asked else on and not fixed
            )
    return found


def parse_driver(text: str) -> dict[str, str]:
    """``ethtool -i``: key to value."""
    return {
        key: value.strip()
        for key, colon, value in (line.partition(":") for line in text.splitlines())
        if colon
    }


def parse_ports(text: str) -> tuple[tuple[str, int], ...]:
    """``ethtool --show-tunnels``: (tunnel type, UDP port) pairs."""
    return tuple(
        sorted(
            (kind, int(port))
            for port, kind in re.findall(r"^\s*port ([0-9]{1,5}), ([a-z-]+)", text, re.MULTILINE)
        )
    )


def parse_hash(text: str) -> str:
    """``ethtool -n DEVICE rx-flow-hash udp4``: what chooses a packet's queue, as the letters that
    ``ethtool -N`` takes.
    """
    return "".join(letter for word, letter in _HASHED if re.search(rf"^{word}", text, re.MULTILINE))
