"""The netfilter rules that one packet truly traverses: the kernel's own trace of it, walked through
the rules that were there.
"""

from __future__ import annotations
