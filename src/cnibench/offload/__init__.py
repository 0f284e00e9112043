"""What the NICs of the nodes do for tunnels: read from the kernel, judged per tunnel type, and
which profiles it suits.
"""

from __future__ import annotations
