"""The program ``cnibench``: finds its commands by their file names and imports only the one that is
called.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnibench import __version__
from cnibench.cli import completion

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_COMMANDS = Path(__file__).parent / "commands"
_SBIN = (
    "/usr/local/sbin",
    "/usr/sbin",
    "/sbin",
)  # of nginx, iptables, ipset; a user's PATH, or that of a plain su, has them not
# allocations between two collections: with the usual 700 a sixth of an analysis' time goes into
# looking through samples that are all still needed
GARBAGE = 100_000


class Commands(click.Group):
    """A group whose commands are the modules in the packages of ``commands``: ``measure/run.py`` is
    ``cnibench run``, ``share/import_.py`` is ``cnibench import``.

    The first line of each module is its docstring and the line of help, so that ``--help`` imports
    none of them.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(files())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        path = files().get(cmd_name)
        if path is None:
            return None
        import importlib

        module = f"cnibench.cli.commands.{path.parent.name}.{path.stem}"
        command: click.Command = importlib.import_module(module).command
        _with_verbose(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        unknown = args and not args[0].startswith("-") and args[0] not in files()
        if unknown and not ctx.resilient_parsing:
            import difflib

            from cnibench.errors import UsageError

            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=3, cutoff=0.5)
            hint = f"nearest: {', '.join(near)}" if near else "'cnibench --help' lists them"
            raise UsageError(f"there is no command '{args[0]}'", hint)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=first_line(path))
            for name, path in sorted(files().items())
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, first_line(path)) for name, path in sorted(files().items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _verbose(ctx: click.Context, _: click.Parameter, count: int) -> None:
    if count:
        from cnibench.system import log

        log.to_stderr(count)


VERBOSE = click.Option(
    ["-v", "--verbose"],
    count=True,
    expose_value=False,
    callback=_verbose,
    help="Show the log on stderr; -vv: with every command and API request.",
)


def _with_verbose(command: click.Command) -> None:
    """Every command and subcommand takes -v, wherever the user types it."""
    if VERBOSE not in command.params:
        command.params.append(VERBOSE)
        for one in command.commands.values() if isinstance(command, click.Group) else ():
            _with_verbose(one)


@functools.cache
def files() -> Mapping[str, Path]:
    """The file of each command, by the command's name."""
    return {
        path.stem.rstrip("_").replace("_", "-"): path for path in _COMMANDS.glob("[!_]*/[!_]*.py")
    }


def first_line(path: Path) -> str:
    """The first line of a module's docstring, read as text."""
    with path.open(encoding="utf-8") as file:
        return file.readline().strip().strip('"').rstrip(".")


@click.group(
    cls=Commands,
    params=[VERBOSE],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.version_option(__version__, prog_name="cnibench")
def group() -> None:
    """Measure and compare Kubernetes CNIs on your own machines.

    To start, run 'cnibench doctor', then, as root, 'cnibench run --cni flannel,cilium'. With
    --debug, errors include a traceback.

    Completion in bash: eval "$(_CNIBENCH_COMPLETE=bash_source cnibench)"
    """


def main() -> None:
    """The entry point: exit codes and messages as INTERFACE gives them."""
    try:
        _main()
    except KeyboardInterrupt:  # before ``guarded`` is imported
        print("\nerror: interrupted", file=sys.stderr)
        sys.exit(130)


def _main() -> None:
    _open_streams()
    if completion.wanted():
        completion.prepare()
        group.main(prog_name="cnibench")  # ends the process
    from cnibench.cli import memory
    from cnibench.cli.errors import guarded

    # numpy's BLAS ends the process where it cannot start a thread for each CPU, or waits for ever;
    # nothing here is large enough for them
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    gc.set_threshold(GARBAGE)
    memory.install()
    arguments = sys.argv[1:]
    if "--debug" in arguments:
        arguments.remove("--debug")
        os.environ["CNIBENCH_DEBUG"] = "1"
    os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SBIN))
    plugin = Path(sys.argv[0]).name.startswith("kubectl-")  # its usage names kubectl, then
    name = "kubectl cnibench" if plugin else "cnibench"
    status = guarded(lambda: group.main(arguments, prog_name=name, standalone_mode=False))
    sys.exit(status)


def _open_streams() -> None:
    """A standard stream that is closed (``>&-``) is /dev/null: else the next file that is opened
    would take its place.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
