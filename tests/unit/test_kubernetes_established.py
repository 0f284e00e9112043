"""A custom resource definition is waited for until it can be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.cni import wait
from cnibench.errors import LimitError

DEFINITION = {"metadata": {"name": "policies.example.org"}}
ESTABLISHED = {"status": {"conditions": [{"type": "Established", "status": "True"}]}}


class Server:
    """Answers with one status after the other; the last one stays."""

    def __init__(self, answers: Sequence[dict[str, Any] | None]) -> None:
        self.answers, self.asked = list(answers), list[str]()

    def look_up(self, what: str, namespace: str = "") -> dict[str, Any] | None:
        self.asked.append(what)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "_STEP", 0.01)


def test_one_without_conditions_is_waited_for() -> None:
    server = Server([None, {}, {"status": {}}, {"status": {"conditions": None}}, ESTABLISHED])
    wait.established(cast(Access, server), [DEFINITION])
    assert len(server.asked) == 5
    assert server.asked[0] == "customresourcedefinition/policies.example.org"


def test_one_that_is_never_established_is_named() -> None:
    with pytest.raises(LimitError, match=r"policies\.example\.org is not Established"):
        wait.established(cast(Access, Server([{"status": {}}])), [DEFINITION], limit=0.05)


def test_without_definitions_nothing_is_asked() -> None:
    server = Server([None])
    wait.established(cast(Access, server), [])
    assert server.asked == []
