"""Runs mutmut in one staged copy of the repository. The working directory is that copy.

mutmut replaces functions, one at a time, and runs the tests that call them in a forked process.
Five things are added here:

* Text for people is not mutated: strings with a space in them and what ``raise`` is given. A test
  that would notice could only repeat the sentence.
* Arguments that change no result are not mutated (``_UNCHANGED``).
* The order is random, and the same each time: what a run tried whose time was over is a fair
  sample.
* Decorated functions are mutated. mutmut skips them, so ``staging.py`` rewrites the decorators it
  knows as assignments.
* Caches are emptied in each forked process: what the tests left in them hides a mutation.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterable

import libcst as cst
from mutmut import __main__ as mutmut
from mutmut.mutation import file_mutation, mutators

# Arguments that change no result here: the type of arrays whose elements decide it, the kind of a
# sort, and whether sequences of the same length are checked to have it.
_UNCHANGED = frozenset({"dtype", "kind", "strict"})


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


def main() -> None:
    file_mutation.mutation_operators = [
        (kind, _OURS.get(operator, operator)) for kind, operator in mutators.mutation_operators
    ]
    file_mutation.MutationVisitor = _Visitor
    mutmut.estimated_worst_case_time = lambda name: zlib.crc32(name.encode())
    os.register_at_fork(after_in_child=_empty_caches)
    mutmut.cli()


if __name__ == "__main__":
    main()
