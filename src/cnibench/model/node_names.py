"""How nodes are named in sentences."""

from __future__ import annotations


def named(node: str) -> str:
    """``node a``; of several that are one machine (``a+b``): ``nodes a and b (one machine)``."""
    names = node.split("+")
    if len(names) == 1:
        return f"node {node}"
    return f"nodes {', '.join(names[:-1])} and {names[-1]} (one machine)"
