"""A conversation with a program of ours on a node: its answers, its signs of life, its silence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.clusters.kubernetes.connection.remote import Answer
from cnibench.clusters.kubernetes.nodes.conversation import NodeConversation
from cnibench.errors import ClusterError, LimitError

ALIVE, DONE = """echo '{"alive": 1}'""", """echo '{"done": true, "number": 1}'"""
SLOW = f"for n in 1 2 3 4 5 6; do sleep 0.2; {ALIVE}; done; {DONE}"
HUNG = f"{ALIVE}; sleep 600"


class Shell:
    """Starts a script in place of the program that it is asked for."""

    def __init__(self, script: str, stack: ExitStack) -> None:
        self.script, self.stack = script, stack

    def converse(self, argv: Sequence[str], given: bytes, answer: Answer) -> Any:
        program = subprocess.Popen(
            ["sh", "-c", self.script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            process_group=0,
        )

        def kill() -> None:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)

        assert program.stdout
        assert answer.told
        told, stdout = answer.told, program.stdout

        def take() -> None:
            for line in stdout:
                told(line)
            answer.ended.set()

        reader = threading.Thread(target=take)
        reader.start()
        for end in (stdout.close, reader.join, program.wait, kill):
            self.stack.callback(end)
        return SimpleNamespace(write=lambda data: None, kill=kill)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def conversation(script: str, stack: ExitStack) -> NodeConversation:
    node: Any = SimpleNamespace(name="a", python=sys.executable, gateway=Shell(script, stack))
    return NodeConversation(node, "program", b"")


def test_an_answer_may_take_longer_than_the_silence_between_two_signs_of_life(
    stack: ExitStack,
) -> None:
    assert conversation(SLOW, stack).ask({}, 60, silence=5) == {"done": True}


def test_a_node_that_falls_silent_is_named_long_before_the_answer_is_due(stack: ExitStack) -> None:
    with pytest.raises(LimitError, match=r"node a did not answer within \d s"):
        conversation(HUNG, stack).ask({}, 600, silence=1)


def test_an_answer_that_is_late_is_refused_though_there_are_signs_of_life(stack: ExitStack) -> None:
    endless = f"while sleep 0.1; do {ALIVE}; done"
    with pytest.raises(LimitError, match=r"node a did not answer within"):
        conversation(endless, stack).ask({}, 2, silence=60)


def test_a_program_that_ends_without_an_answer_is_named(stack: ExitStack) -> None:
    with pytest.raises(ClusterError, match="program on node a has ended"):
        conversation("true", stack).ask({}, 60)


def test_a_late_answer_is_not_taken_for_the_next_one(stack: ExitStack) -> None:
    late = """sleep 1; echo '{"of": 1, "number": 1}'; echo '{"of": 2, "number": 2}'; sleep 60"""
    found = conversation(late, stack)
    with pytest.raises(LimitError):
        found.ask({}, 0.1)
    assert found.ask({}, 60) == {"of": 2}
