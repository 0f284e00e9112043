"""How much is tried. ``CNIBENCH_FAULTS=full``: every call and a hundred moments; otherwise some,
drawn with ``CNIBENCH_FAULTS_SEED``.
"""

from __future__ import annotations

import os

FULL = os.environ.get("CNIBENCH_FAULTS") == "full"
SEED = os.environ.get("CNIBENCH_FAULTS_SEED", "1")
