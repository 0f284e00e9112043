"""How different two colours are, to people with and without a colour blindness."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
WHITE, NIGHT, BLACK = "#ffffff", "#14161a", "#000000"  # the backgrounds of the site, and its text
# Machado, Oliveira and Fernandes (2009), severity 1: what somebody sees, in linear RGB.
_SIGHT = np.array(
    [
        np.eye(3),
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    ]
)
# Ottosson (2020): OKLab, in which equal distances look equally different.
_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def contrast(one: str, other: str) -> float:
    """That of WCAG 2."""
    low, high = sorted(
        float(_linear(color) @ np.array([0.2126, 0.7152, 0.0722])) for color in (one, other)
    )
    return (high + 0.05) / (low + 0.05)


def difference(one: str, other: str) -> tuple[float, float]:
    """The distance in OKLab, and the least of it to protanopes, deuteranopes and tritanopes."""
    found = np.linalg.norm(_seen(one) - _seen(other), axis=1)
    return float(found[0]), float(found.min())


@cache
def _linear(color: str) -> Array:
    value = np.array([int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


@cache
def _seen(color: str) -> Array:
    light = np.clip(_SIGHT @ _linear(color), 0, 1)
    found: Array = np.cbrt(light @ _CONES.T) @ _LAB.T
    return found
