"""Makes the manual pages from the commands' help: one for cnibench, for each command and for each
subcommand.

usage: python release/man.py FOLDER

Needs click and msgspec only, so that the wheel can be built without the other dependencies. The
macros are those of man(7).
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

_SOURCES = Path(__file__).parents[1] / "src"


def pages(program: click.Command, name: str, version: str) -> dict[str, str]:
    """``{file name: page}`` of a program and all of its commands."""
    found = {}
    for words, command in commands(program, (name,)):
        found[f"{'-'.join(words)}.1"] = _page(words, command, version)
    return found


def commands(
    command: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    for name, inner in _subcommands(command, words):
        yield from commands(inner, (*words, name))


def _subcommands(
    command: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        return
    context = context_of(command, words)
    for name in command.list_commands(context):
        if (inner := command.get_command(context, name)) is not None and not inner.hidden:
            yield name, inner


def context_of(command: click.Command, words: tuple[str, ...]) -> click.Context:
    return click.Context(command, info_name=" ".join(words), help_option_names=["-h", "--help"])


def _page(words: tuple[str, ...], command: click.Command, version: str) -> str:
    context = context_of(command, words)
    name = "-".join(words)
    usage = " ".join(_roff(piece) for piece in command.collect_usage_pieces(context))
    first, *rest = _paragraphs(command.help or "")
    lines = [
        f'.TH "{_roff(name.upper())}" "1" "" "cnibench {_roff(version)}" "cnibench manual"',
        ".SH NAME",
        f"{_roff(name)} \\- {_roff(first.rstrip('.'))}",
        ".SH SYNOPSIS",
        f"\\fB{_roff(' '.join(words))}\\fR {usage}",
    ]
    if rest:
        lines += [".SH DESCRIPTION", *_text(rest)]
    if inner := list(_subcommands(command, words)):
        lines += [".SH COMMANDS"]
        for one, about in inner:
            summary = _paragraphs(about.help or "")[0]
            lines += [".TP", f"\\fB{_roff(f'{name}-{one}')}\\fR(1)", _line(summary)]
    lines += [".SH OPTIONS"]
    for title, options in _options(command, context):
        lines += [f".SS {_roff(title)}"] * (title not in ("", "Options"))
        for option, meaning in options:
            lines += [".TP", f"\\fB{_roff(option)}\\fR", _line(meaning)]
    if command.epilog:
        title, _, examples = inspect.cleandoc(command.epilog).lstrip("\b\n").partition(":\n")
        lines += [f".SH {_roff(title.upper())}", ".nf", *map(_line, examples.splitlines()), ".fi"]
    if above := words[:-1]:
        lines += [".SH SEE ALSO", f"\\fB{_roff('-'.join(above))}\\fR(1)"]
    return "\n".join(lines) + "\n"


def _options(
    command: click.Command, context: click.Context
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """As the help has them: in sections with titles, or else in one without."""
    if hasattr(command, "option_groups"):
        yield from command.option_groups(context)
    else:
        options = [one for one in command.get_params(context) if isinstance(one, click.Option)]
        yield "", [row for one in options if (row := one.get_help_record(context))]


def _paragraphs(text: str) -> list[str]:
    """Paragraphs of a help text, each on one line; those that begin with ``\\b`` as they are."""
    parts = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return [part if part.startswith("\b") else " ".join(part.split()) for part in parts]


def _text(paragraphs: list[str]) -> Iterator[str]:
    for number, one in enumerate(paragraphs):
        yield from [".PP"] * bool(number)
        if one.startswith("\b"):
            yield from (".nf", *map(_line, one.lstrip("\b\n").splitlines()), ".fi")
        else:
            yield _line(one)


def _line(text: str) -> str:
    """A line of text: one that begins with a dot or an apostrophe would be a request."""
    return re.sub(r"^([.'])", r"\\&\1", _roff(text.rstrip()))


def _roff(text: str) -> str:
    """``text`` with what groff would change: backslashes, and ASCII's hyphens and quotes, which
    must be copied from the page as they are.
    """
    for plain, escape in (
        ("\\", "\\e"),
        ("-", "\\-"),
        ("'", "\\(aq"),
        ("^", "\\(ha"),
        ("~", "\\(ti"),
        ("`", "\\(ga"),
    ):
        text = text.replace(plain, escape)
    return text


def main(folder: Path) -> None:
    sys.path.insert(0, str(_SOURCES))
    from cnibench import __version__
    from cnibench.cli.main import group

    folder.mkdir(parents=True, exist_ok=True)
    made = {**pages(group, "cnibench", __version__), "kubectl-cnibench.1": ".so man1/cnibench.1\n"}
    # Another build of this checkout may be reading them: a page is there and whole at any time.
    for name, page in made.items():
        part = folder / f".{name}.{os.getpid()}"
        part.write_text(page, encoding="utf-8")
        part.replace(folder / name)
    for old in folder.glob("*.1"):
        if old.name not in made:
            old.unlink(missing_ok=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.split("\n\n")[1])
    main(Path(sys.argv[1]))
