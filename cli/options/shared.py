"""Options that several commands share, and how a command gets its options as one object."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from cnibench.cli import completion

F = TypeVar("F", bound=Callable[..., Any])


def gathered(kind: type, parameter: str) -> Callable[[F], F]:
    """Hands those options that are fields of ``kind``, a dataclass, to the command as one object,
    its ``parameter``; fields without an option have their defaults. Belongs right above the
    command's ``def``.
    """
    names = [one.name for one in fields(kind)]

    def decorate(command: F) -> F:
        @wraps(command)
        def call(**given: object) -> object:
            options = kind(**{name: given.pop(name) for name in names if name in given})
            return command(**given, **{parameter: options})

        return call  # type: ignore[return-value]

    return decorate


def hand_down(ctx: click.Context) -> None:
    """What was given to a group is the default of its subcommands: ``runs --json show`` is
    ``runs show --json``.
    """
    assert isinstance(ctx.command, click.Group)
    ctx.default_map = dict.fromkeys(ctx.command.commands, ctx.params)


class FirstName(click.Option):
    """An option whose help shows the first of its names; the others are accepted."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        every, self.opts = self.opts, self.opts[:1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = every


def _runs_option(help: str, *more: str) -> Callable[[F], F]:
    """--folder, and its older names."""
    return click.option(
        "--folder",
        *more,
        "folder",
        cls=FirstName,
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        default=Path("runs"),
        show_default=True,
        help=help,
    )


def _address(ctx: click.Context, option: click.Parameter, value: str | None) -> str:
    """The address of a folder of the Web, with a slash at its end; '' where none is given."""
    if value is None:
        return ""
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname or "", parts.port  # which raises for one beyond 65535
    except ValueError:
        host = ""
    plain = host and parts.scheme in ("http", "https") and "@" not in parts.netloc
    if not (
        plain
        and re.fullmatch(r"([a-z0-9-]+\.)*[a-z0-9-]+|[0-9a-f]*:[0-9a-f:.]+", host)
        and re.fullmatch(r"([A-Za-z0-9._~!$&()*+,;=:@/-]|%[0-9A-Fa-f]{2})*", parts.path)
        and not parts.query + parts.fragment
    ):
        raise click.BadParameter(
            "give an address such as https://example.org/results/, without a password or a query",
            ctx,
            option,
        )
    return value.rstrip("/") + "/"


# Options that several commands have.
url_option = click.option(
    "--url",
    metavar="URL",
    callback=_address,
    help="Where the pages will be published; links to them then show a picture in chats and posts.",
)
folder_option = _runs_option("Directory that contains the run directories.")
new_run_option = _runs_option("Directory for run directories; --out means the same.", "--out")
file_option = click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to this file instead of stdout.",
)
kind_option = click.option(
    "--cluster",
    metavar="KIND",
    shell_complete=completion.clusters,
    help=(
        "Where the Pods run: lab, kind, existing, namespace, or on two machines: ssh://A,ssh://B. "
        " [default: lab]"
    ),
)
method_option = click.option(
    "--method",
    type=click.Choice(["slices", "windows"]),
    help=(
        "slices: all cells alternate every 20 ms; windows: one after the other. "
        " [default: slices if possible, else windows]"
    ),
)
seed_option = click.option(
    "--seed", type=int, metavar="N", help="Random seed for the order of the cells."
)


def pooling_options(command: F) -> F:
    """--baseline, --allow-different and --folder, of commands that show several runs together."""
    options = (
        click.option(
            "--baseline",
            metavar="LABEL",
            default="",
            help="Profile that ratios refer to.  [default: the first]",
        ),
        click.option(
            "--allow-different",
            is_flag=True,
            help="Show runs that are not comparable side by side, without pooling them.",
        ),
        folder_option,
    )
    for option in reversed(options):
        command = option(command)
    return command
