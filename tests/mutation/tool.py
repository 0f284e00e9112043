"""Runs mutmut in one staged copy of the repository. The working directory is that copy.

mutmut replaces functions, one at a time, and runs the tests that call them in a forked process.
Seven things are added here:

* Text for people is not mutated: strings with a space in them and what ``raise`` is given. A test
  that would notice could only repeat the sentence.
* Arguments that change no result are not mutated (``_UNCHANGED``).
* The order is random, and the same each time: the mutants that a run tried before its time was
  over are a fair sample. CNIBENCH_MUTATION_SAMPLE limits the sample to so many of each module.
* Decorated functions are mutated. mutmut skips them, so ``staging.py`` rewrites the decorators it
  knows as assignments.
* Caches are emptied in each forked process: what the tests left in them hides a mutation.
* The fastest tests of a mutant run first.
* A mutant runs out of CPU time, or of far more time than it needs: on a busy machine it would
  otherwise count as killed because it had to wait.

Mutants are forked from a server that has imported the tests and run none of them
(``process_isolation``): a process that has drawn a chart has threads which a forked copy lacks, and
the copy waits for them until its time is over.
"""

from __future__ import annotations

import os
import signal
import sys
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import libcst as cst
from mutmut import __main__ as mutmut
from mutmut.mutation import file_mutation, mutators
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.workers import isolation, timeout

# Arguments that change no result here: the type of arrays whose elements decide it, the kind of a
# sort, and whether sequences of the same length are checked to have it.
_UNCHANGED = frozenset({"dtype", "kind", "strict"})
_PATIENCE = 12  # times as long a mutant may take on a busy machine; its CPU time has mutmut's limit


def _string(node: cst.BaseString) -> Iterable[cst.BaseString]:
    if isinstance(node, cst.SimpleString) and " " in node.raw_value:
        return
    yield from mutators.operator_string(node)


def _arguments(node: cst.Call) -> Iterable[cst.Call]:
    kept = [arg for arg in node.args if arg.keyword and arg.keyword.value in _UNCHANGED]
    for mutant in mutators.operator_arg_removal(node):
        present = {arg.keyword.value: arg for arg in mutant.args if arg.keyword}
        if all(present.get(arg.keyword.value) is arg for arg in kept if arg.keyword):
            yield mutant


_OURS = {mutators.operator_string: _string, mutators.operator_arg_removal: _arguments}


class _Visitor(file_mutation.MutationVisitor):
    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        text = isinstance(node, cst.FormattedString) and any(
            isinstance(part, cst.FormattedStringText) and " " in part.value for part in node.parts
        )
        technical = isinstance(node, cst.Arg) and node.keyword and node.keyword.value in _UNCHANGED
        if technical or text or isinstance(node, cst.Raise):
            return True
        return super()._skip_node_and_children(node)


def _empty_caches() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("cnibench"):
            for value in list(vars(module).values()):
                if clear := getattr(value, "cache_clear", None):
                    clear()


class _FastestFirst(PytestRunner):
    def run_tests(self, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        durations = state().duration_by_test
        ordered = sorted(tests, key=lambda test: durations.get(test, 0.0))
        return super().run_tests(mutant_name=mutant_name, tests=ordered)


def _rank(name: str) -> int:
    """The place of a mutant in the random order."""
    return zlib.crc32(name.encode())


_collect = mutmut.collect_source_file_mutation_data


def _sample(*, mutant_names: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """What mutmut's function returns (the mutants to try, all modules), limited to the sample."""
    mutants, modules = _collect(mutant_names=mutant_names)
    size = int(os.environ.get("CNIBENCH_MUTATION_SAMPLE", "0")) or None
    sample = {
        name
        for module in modules.values()
        for name in sorted(module.exit_code_by_key, key=_rank)[:size]
    }
    return [mutant for mutant in mutants if mutant[1] in sample], modules


def main() -> None:
    # A job that a script starts in the background ignores SIGINT, which ends the search in time.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    file_mutation.mutation_operators = [
        (kind, _OURS.get(operator, operator)) for kind, operator in mutators.mutation_operators
    ]
    file_mutation.MutationVisitor = _Visitor
    mutmut.estimated_worst_case_time = _rank
    mutmut.collect_source_file_mutation_data = _sample
    isolation.PytestRunner = _FastestFirst
    isolation.register_timeout = lambda pid, limit: timeout.register_timeout(pid, _PATIENCE * limit)
    os.register_at_fork(after_in_child=_empty_caches)
    mutmut.cli()


if __name__ == "__main__":
    main()
