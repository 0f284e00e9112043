"""Identifier-locator addressing, by the kernel's own translation and by eBPF programs."""

from __future__ import annotations

from cnibench.clusters.lab.datapaths.ila.ebpf import IlaEbpf
from cnibench.clusters.lab.datapaths.ila.kernel import Ila

PROVIDER = (Ila, IlaEbpf)
