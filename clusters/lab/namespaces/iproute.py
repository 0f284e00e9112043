"""pyroute2's IPRoute without the rest of pyroute2.

The package imports every part of itself (NDB, conntrack, ethtool, its plug-ins), of which the lab
uses none: more than half of the time of the import, which under emulation is seconds.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec, module_from_spec
from typing import Any

_PACKAGE = "pyroute2"


@cache
def iproute() -> Any:
    """The class IPRoute. Raises ModuleNotFoundError when pyroute2 is not installed."""
    if _PACKAGE not in sys.modules:
        spec = find_spec(_PACKAGE)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {_PACKAGE!r}", name=_PACKAGE)
        sys.modules[_PACKAGE] = module_from_spec(
            spec
        )  # with the package's path, and its own code not run
    from pyroute2.iproute import IPRoute

    sys.modules[_PACKAGE].IPRoute = IPRoute  # type: ignore[attr-defined]  # for who asks the package itself
    return IPRoute
