"""netperf TCP_RR: one request, one response, over and over on one connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cnibench.model.cell import Cell
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements
from cnibench.run.slices.load import Load
from cnibench.workloads import _netperf, _slices
from cnibench.workloads._common import Size


class Params(Strict):
    """Bytes of a request and of a response: 1 and 1 as in qi2021; bruijn2017 used 100 and 200."""

    request: Size = 1
    response: Size = 1


class TcpRr(_netperf.Netperf):
    name = "tcp-rr"
    title = "netperf TCP_RR"
    Params = Params
    slices_noise = 0.02  # docs/adr/0012-shorter-blocks.md
    primary = "transaction_rate"
    test = "TCP_RR"
    selectors = ("TRANSACTION_RATE", *_netperf.LATENCIES, "LOCAL_TRANSPORT_RETRANS")

    def arguments(self, params: Mapping[str, Any]) -> list[str]:
        return ["-r", f"{params['request']},{params['response']}"]

    def load(self, cell: Cell) -> Load:
        return _slices.Transactions(self)

    def interpret(self, values: Mapping[str, float | str]) -> Measurements:
        return _netperf.transactions(values)


PROVIDER = TcpRr()
