"""A repository of results: a folder with one folder for each testbed, and bundles in these.

A testbed's folder may have a file ``allowed_signers`` (ssh-keygen(1)): its bundles must then be
signed by one of these keys. What is refused is named, with the reason.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cnibench.analysis.model import Analysis
from cnibench.errors import CnibenchError, InputError
from cnibench.model.measured import values
from cnibench.model.units import plural
from cnibench.reports.bundle import container
from cnibench.reports.bundle.verifying import Verified, verified
from cnibench.rundir.chain import digest
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import SAMPLES
from cnibench.system import scratch
from cnibench.system.files import read_beneath

SIGNERS = "allowed_signers"
_MOST_TESTBEDS, _MOST_BUNDLES = 1000, 10_000
_LARGEST_SIGNERS = 1 << 20  # bytes
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # of a testbed
# Facts in which all bundles of a testbed agree: its kernel may be a newer one.
_MACHINE = ("cpu_model", "architecture", "cpus")
T = TypeVar("T")


@dataclass(frozen=True)
class Refusal:
    """``path`` is relative to the repository."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True)
class Found:
    """A bundle that was accepted, with what ``take`` made of it."""

    path: Path
    testbed: str
    verified: Verified
    machine: tuple[str, ...]
    samples: str
    taken: object


def bundles(folder: Path) -> tuple[list[Path], list[Refusal]]:
    """The bundles below ``folder``, relative to it, in order, and what else has no place there.

    Raises InputError when the folder cannot be read or has too many entries.
    """
    found: list[Path] = []
    refused: list[Refusal] = []
    testbeds = _entries(folder, _MOST_TESTBEDS)
    for entry in testbeds:
        if entry.name.startswith(".") or not _is_folder(entry):
            if entry.name.endswith(container.SUFFIX):
                words = "a bundle belongs in the folder of its testbed"
                refused.append(Refusal(_shown(entry.name), words))
            continue
        inside = _entries(folder / entry.name, _MOST_BUNDLES)
        names = [one.name for one in inside if one.name.endswith(container.SUFFIX)]
        if names and not _NAME.fullmatch(entry.name):
            words = "the name of a testbed has letters, digits and . _ - only, at most 64"
            refused.append(Refusal(_shown(entry.name), words))
            continue
        found += [Path(entry.name, name) for name in names]
        if len(found) > _MOST_BUNDLES:
            raise InputError(f"{folder}: more than {_MOST_BUNDLES:,} bundles", "build it in parts")
    return found, refused


def _entries(folder: Path, most: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            found = []
            for entry in entries:
                found.append(entry)
                if len(found) > most:
                    raise InputError(f"{folder}: more than {most:,} entries", "build it in parts")
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}", "name the folder of the results") from None
    return sorted(found, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _shown(name: str) -> str:
    return name if len(name) <= 100 else f"{name[:99]}…"


def accepted(
    folder: Path,
    take: Callable[[Verified, RunReader, Analysis], T],
    only: Iterable[Path] | None = None,
) -> tuple[list[Found], list[Refusal]]:
    """All bundles that verify, with what ``take`` made of each, and what was refused: bundles that
    do not verify, two of the same run or with the same samples (neither is taken), and those that
    describe their testbed otherwise than most others of it.
    """
    paths, refused = bundles(folder)
    found: list[Found] = []
    for path in paths if only is None else only:
        try:
            found.append(_one(folder, path, take))
        except CnibenchError as error:
            reason = error.message.removeprefix(f"{folder / path}: ")
            refused.append(Refusal(_shown(str(path)), reason))
        except (
            ArithmeticError,
            AssertionError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            # One bundle must not take the board of all others with it.
            reason = f"it cannot be read, by a bug in cnibench: {type(error).__name__}: {error}"
            refused.append(Refusal(_shown(str(path)), reason[:300]))
    for key, words in (
        (lambda one: one.verified.run, "the same run as"),
        (lambda one: one.samples, "the same samples as"),
    ):  # type: tuple[Callable[[Found], str], str]
        found, more = _once(found, key, words)
        refused += more
    found, more = _agreeing(found)
    return found, sorted([*refused, *more], key=str)


def _one(folder: Path, path: Path, take: Callable[[Verified, RunReader, Analysis], T]) -> Found:
    with scratch.folder() as private:
        # copies: what is verified is what is read, whatever happens to the repository meanwhile
        copy = private / "bundle"
        signers = None
        try:
            copy.write_bytes(read_beneath(folder, path, container.LARGEST_FILE))
            listed = read_beneath(folder, path.parent / SIGNERS, _LARGEST_SIGNERS)
            signers = private / SIGNERS
            signers.write_bytes(listed)
        except FileNotFoundError:
            if not copy.exists():
                raise InputError(f"{path}: it is gone", "build the board again") from None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}", "check its permissions") from None
        try:
            return _verified(path, copy, signers, take)
        except CnibenchError as error:
            words = error.message.replace(f"{copy}: ", "").replace(str(private), str(path.parent))
            raise InputError(words, error.remedy) from None


def _verified(
    path: Path, copy: Path, signers: Path | None, take: Callable[[Verified, RunReader, Analysis], T]
) -> Found:
    with verified(copy, signers) as (result, reader, analysis):
        if result.problems or analysis is None:
            more = len(result.problems) - 1
            words = result.problems[0] if result.problems else "it cannot be analysed"
            if signers is not None:
                words = words.replace(str(signers), str(path.parent / SIGNERS))
            raise InputError(
                words + (f" (and {plural(more, 'more problem')})" if more > 0 else ""), ""
            )
        machine = tuple(", ".join(values(reader.environment, name)) for name in _MACHINE)
        samples = (reader.path / SAMPLES).read_bytes()
        taken = take(result, reader, analysis)
        result.stacks, result.groups = None, ()  # what was made of them is kept
    return Found(path, path.parent.name, result, machine, digest(samples), taken)


def _once(
    found: list[Found], key: Callable[[Found], str], words: str
) -> tuple[list[Found], list[Refusal]]:
    """Those whose key no other one has: which of two is the right one, we cannot know."""
    same: dict[str, list[Found]] = defaultdict(list)
    for one in found:
        same[key(one)].append(one)
    refused = [
        Refusal(str(one.path), f"{words} {next(str(o.path) for o in alike if o is not one)}")
        for alike in same.values()
        if len(alike) > 1
        for one in alike
    ]
    return [one for one in found if len(same[key(one)]) == 1], refused


def _agreeing(found: list[Found]) -> tuple[list[Found], list[Refusal]]:
    """Those that describe the machine as most bundles of their testbed do, the oldest where there
    are as many.
    """
    said: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for one in sorted(found, key=lambda one: one.verified.run):
        said[one.testbed].append(one.machine)
    usual = {testbed: max(all_, key=all_.count) for testbed, all_ in said.items()}
    refused = []
    for one in found:
        for name, theirs, ours in zip(_MACHINE, one.machine, usual[one.testbed], strict=True):
            if theirs != ours:
                words = f"it says {name} {theirs[:60]!a}, others of this testbed {ours[:60]!a}"
                refused.append(Refusal(str(one.path), words))
                break
    wrong = {one.path for one in refused}
    return [one for one in found if str(one.path) not in wrong], refused
