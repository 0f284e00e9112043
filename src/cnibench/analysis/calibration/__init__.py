"""What the tool finds between equal profiles: false alarms, the noise floor and where it
comes from, and what a wished resolution costs.
"""

from __future__ import annotations

from cnibench.analysis.calibration.build import Calibration, calibration
from cnibench.analysis.calibration.floors import LEAST, SLICED, Floor
from cnibench.analysis.calibration.noise import scatter
from cnibench.analysis.calibration.spread import Part, Spread

__all__ = ["LEAST", "SLICED", "Calibration", "Floor", "Part", "Spread", "calibration", "scatter"]
