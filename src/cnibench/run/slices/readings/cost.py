"""What a reading costs: one that takes long is not made in each slice."""

from __future__ import annotations

import time
from collections.abc import Callable

_MOST = 0.0002  # s


def too_much(read: Callable[[], object]) -> bool:
    """Does it take longer than a slice may spend on it? Tried three times: one of them may be
    interrupted.
    """
    times = []
    for _ in range(3):
        began = time.monotonic()
        read()
        times.append(time.monotonic() - began)
    return min(times) > _MOST
