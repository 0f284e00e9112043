"""A conversation with a program of ours on a node: its answers, its signs of life, its silence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.clusters.kubernetes.nodes.conversation import NodeConversation
from cnibench.clusters.kubernetes.nodes.remote import Answer
from cnibench.errors import ClusterError, LimitError

SLOW = "for n in 1 2 3 4 5 6; do sleep 0.2; echo '{\"alive\": 1}'; done; echo '{\"done\": true}'"
HUNG = "echo '{\"alive\": 1}'; sleep 600"


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
    began = time.monotonic()
    with pytest.raises(LimitError, match=r"node a did not answer within 1 s"):
        conversation(HUNG, stack).ask({}, 600, silence=1)
    assert time.monotonic() - began < 300


def test_an_answer_that_is_late_is_refused_though_there_are_signs_of_life(stack: ExitStack) -> None:
    endless = f"while sleep 0.1; do {HUNG.split(';')[0]}; done"
    with pytest.raises(LimitError, match=r"node a did not answer within"):
        conversation(endless, stack).ask({}, 2, silence=60)


def test_a_program_that_ends_without_an_answer_is_named(stack: ExitStack) -> None:
    with pytest.raises(ClusterError, match="program on node a has ended"):
        conversation("true", stack).ask({}, 60)
