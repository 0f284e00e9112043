"""Conditions of a cell: policies and offload features that are in force while it is measured."""

from __future__ import annotations

import abc
from contextlib import AbstractContextManager
from typing import Any

from cnibench.model.cell import Cell
from cnibench.model.conditions import Conditions
from cnibench.testbed.capability import Capability
from cnibench.testbed.place import Pod


class CellConditions(Capability):
    """Applies what model.conditions describes."""

    title = "conditions (policies and offload features of a cell)"

    @abc.abstractmethod
    def apply_conditions(
        self, asked: Conditions, client: Pod, server: Pod, cell: Cell | None = None
    ) -> AbstractContextManager[list[dict[str, Any]]]:
        """The cell's conditions for the block: made, verified by reading back (one record for
        each), removed at its end.

        ``cell`` says which ports are its workload's (an HTTP rule names one); None: those of the
        first pair, Pod to Pod. Raises UnsupportedError for what the profile cannot have,
        ClusterError when they do not become what was asked.
        """
