"""Turns what a command raises into a message on stderr and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click

from cnibench.errors import CnibenchError


def guarded(work: Callable[[], Any]) -> int:
    """Runs ``work``; its exit status: what it returns when that is a number, else 0, and that of the error when it raises one."""
    try:
        status = work()
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except CnibenchError as error:
        return _say(error.message, error.remedy, error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "cnibench"
        return _say(error.format_message().rstrip("."), f"'{path} --help' says what it takes", 2)
    except click.ClickException as error:
        return _say(error.format_message(), "", error.exit_code)
    except click.exceptions.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted", "", 130)
    except BrokenPipeError:
        # The reader of our output has gone (| head); nothing more can be said there, the interpreter's own flush included.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _say(f"a defect of cnibench: {type(error).__name__}: {error}", "report it with what --debug shows", 1)


def _say(message: str, remedy: str, status: int) -> int:
    if os.environ.get("CNIBENCH_DEBUG"):
        import traceback

        traceback.print_exc()
    try:
        print(f"error: {message}", file=sys.stderr)
        if remedy:
            print(f"  remedy: {remedy}", file=sys.stderr)
    except OSError:
        pass  # stderr is closed: the exit status is all that is left
    return status
