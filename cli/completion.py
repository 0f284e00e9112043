"""What a shell completes: profiles, workloads, plans, runs and other names.

Names are read from the names and texts of files, as ``--help`` reads the commands: to import what
they stand for would take longer than anybody waits for a key. Profiles of other installed packages
are not among them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import cnibench

if TYPE_CHECKING:
    from click import Context, Parameter
    from click.shell_completion import CompletionItem

_ROOT = Path(cnibench.__file__).parent
VARIABLE = "_CNIBENCH_COMPLETE"  # click's: for which shell, and what of it
_NAME = re.compile(r'^    (?:name|kind)(?:: ClassVar\[str\])? = "([a-z0-9-]+)"$', re.MULTILINE)
_NUMBER = re.compile(r'^  - number: "([0-9A-Za-z.]+)"$', re.MULTILINE)  # of a study's figure
_PLAIN = re.compile(r"[\w.+-]+")  # bash expands what it is given: no other name of a folder


def profiles(ctx: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    names = sorted(path.stem for path in (_ROOT / "profiles").glob("*.yaml"))
    return _in_list(names, incomplete)


def to_measure(ctx: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """Profiles, and the words that stand for some."""
    return [*profiles(ctx, parameter, incomplete), *_in_list(("all", "current"), incomplete)]


def workloads(ctx: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    return _in_list(named("workloads"), incomplete)


def proxies(ctx: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    return _in_list(("iptables", "nftables", "ipvs", "ebpf", "none"), incomplete)


def formats(ctx: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    return _beginning(named("reports"), incomplete)


def importers(ctx: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    return _beginning(named("importers"), incomplete)


def clusters(ctx: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    return _beginning(named("clusters"), incomplete)


def studies(ctx: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    names = sorted(path.stem for path in (_ROOT / "reports" / "claims").glob("*.yaml"))
    return _in_list(names, incomplete)


def figures(ctx: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """The figures of the study that the command line names, of all studies without one."""
    words = [ctx.params.get("study"), *ctx.args]  # click has it in one or the other
    files = sorted((_ROOT / "reports" / "figures").glob("*.yaml"))
    named = [path for path in files if path.stem in words]
    texts = [path.read_text(encoding="utf-8") for path in named or files]
    names = dict.fromkeys(name for text in texts for name in _NUMBER.findall(text))
    return _in_list(names, incomplete)


def plans(ctx: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """The plans that cnibench has, else files."""
    names = sorted(path.stem for path in (_ROOT / "planning" / "plans").glob("*.yaml"))
    return _beginning(names, incomplete) or _paths("file", incomplete)


def runs(ctx: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    """The runs in the directory that the command line names, the newest first, else directories."""
    return _runs(ctx, incomplete) or _paths("dir", incomplete)


def runs_or_files(ctx: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    return _runs(ctx, incomplete) or _paths("file", incomplete)


def _runs(ctx: Context, incomplete: str) -> list[CompletionItem]:
    folder = Path(ctx.params.get("folder") or "runs")
    try:
        names = sorted(path.parent.name for path in folder.glob("*/plan.json"))
    except OSError:
        names = []
    known = ["last", *reversed([name for name in names if _PLAIN.fullmatch(name)])]
    return _beginning(known if names else [], incomplete)


def placements(ctx: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
    return _in_list(("intra", "inter"), incomplete)


def named(package: str) -> list[str]:
    """The names of the providers in a package, out of the text of its modules. One that is a
    package itself has the name in one of its modules.
    """
    folder = _ROOT / package
    modules = [*folder.glob("[!_]*.py")]
    for path in folder.glob("[!_]*/__init__.py"):
        if "\nPROVIDER" in path.read_text(encoding="utf-8"):
            modules += path.parent.glob("*.py")
    texts = (path.read_text(encoding="utf-8") for path in modules)
    return sorted({name for text in texts for name in _NAME.findall(text)})


def _in_list(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """The last item of a list that commas separate; what the list has already is not offered."""
    before, comma, _ = incomplete.rpartition(",")
    rest = [name for name in names if name not in before.split(",")]
    return _beginning([before + comma + name for name in rest], incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _paths(kind: str, incomplete: str) -> list[CompletionItem]:
    """What the shell itself completes: ``file`` or ``dir``."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type=kind)]


def wanted() -> bool:
    """Does a shell ask for completions?"""
    return VARIABLE in os.environ


def prepare() -> None:
    """bash makes three words of ``--cni=flannel``, of which click knows what to do with two."""
    from click.shell_completion import BashComplete, add_completion_class

    class Bash(BashComplete):
        def get_completion_args(self) -> tuple[list[str], str]:
            words, incomplete = super().get_completion_args()
            kept = [
                word
                for before, word in zip(["", *words], words, strict=False)
                if word != "=" or not before.startswith("--")
            ]
            return kept, incomplete

    add_completion_class(Bash)
