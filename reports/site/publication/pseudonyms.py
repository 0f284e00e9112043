"""What would name a machine, a network or somebody's programs is replaced before anything is
published.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from cnibench.reports._escape import plain
from cnibench.reports.site.publication import addresses

_LONGEST = 4000
_HOST_KEY = re.compile(r"(host|node|machine)_?name|fqdn|^nodename$|^domain$", re.IGNORECASE)
_USER_KEY = re.compile(r"^(user|user_?name|login|owner|account)$", re.IGNORECASE)
_PROGRAM_KEY = re.compile(
    r"foreign|other_programs|other_processes|^(ps|processes|comm|cmdline)$", re.IGNORECASE
)
# Options of our own command line that name a node or a cluster, and label selectors that do.
_NAMING_OPTION = re.compile(r"--(?:client-node|server-node|context)")
_HOST_SELECTOR = re.compile(r"kubernetes\.io/hostname={1,2}([^,\s]+)")
_EMAIL = re.compile(r"[\w.+%-]+@(?!sha\d+:)[\w-]+(?:\.[\w-]+)*", re.IGNORECASE)
# Words behind the name belong to it when a slash ends them: /home/kim lee/runs. A machine may have
# several such folders: /home2.
_HOME = re.compile(
    r"(/|\\|%2f|%5c)((?:homes?|users)[-_]?\d*)(?:/|\\{1,2}|%2f|%5c)"
    r"([^/\\\s'\"%:;,)]+(?:(?: [^\W\d][\w.-]*){1,2}(?=[/\\]))?)",
    re.IGNORECASE,
)
_TILDE = re.compile(r"(?<![\w.~/-])~[a-z_][\w.-]*(?=/)", re.IGNORECASE)
_DASHED_HOME = re.compile(r"(?<![\w-])-((?:home|users)\d*)-[a-z0-9_.]+", re.IGNORECASE)
_ROOT = re.compile(r"(?<![\w/.-])/root(?![\w-])", re.IGNORECASE)
# Names of machines by their form: any depth below a private top-level domain, or a public one.
_PRIVATE = "internal|local|lan|corp|home|intranet|localdomain|private|arpa"
_PUBLIC = (
    "com|org|net|io|dev|edu|gov|mil|info|biz|cloud|app|tech|ai|co|eu|de|fr|uk|us|nl|it|es|se|no|fi|dk|pl|cz|at|ch|be|pt|ie|ru|cn|jp|kr"
    "|au|nz|ca|br|mx|za|tr"
)
# With two dots any last part of letters will do, unless the name is one of a file, a unit, a
# symbol, a version, a setting of the kernel, a module, or the id of a cell, whose end is eight
# hexadecimal digits.
_NO_DOMAIN = (
    "tar|gz|xz|zst|zip|tgz|json|jsonl|ya?ml|toml|ini|cfg|conf|txt|log|md|rst|html?|css|js|svg|png"
    "|csv|parquet|data|folded|out|err|stdout|stderr|pcap|bin|img|iso|ko|so|py|sh|deb|rpm|pem|crt"
    "|key|sock|lock|new|old|bak|tmp|service|socket|slice|scope|mount|target|timer|path|device|swap"
    "|cold|part|isra|constprop|llvm|[0-9a-f]{8}"
)
_NO_HOST = r"v?\d+\.\d|(?:net|kernel|vm|fs|dev|abi|io|cnibench|numpy|scipy|msgspec|click)\."
_FQDN = re.compile(
    rf"(?<![\w.-])(?:(?:[a-z0-9_-]+\.)+(?:{_PRIVATE}|com|org|net|edu|gov|mil)"
    rf"|(?:[a-z0-9_-]+\.){{2,}}(?:{_PUBLIC})"
    rf"|(?!{_NO_HOST})(?:[a-z0-9-]+\.){{2,}}(?!(?:{_NO_DOMAIN})(?![\w-]))[a-z]{{2,}})"
    rf"(?![\w-]|\.\w)",
    re.IGNORECASE,
)
_NOBODY = frozenset(
    {
        "default",
        "localhost",
        "localdomain",
        "root",
        "user",
        "users",
        "nobody",
        "none",
        "unknown",
        "shared",
        "not recorded",
    }
)
# Parts of long names that many networks have: they tell nothing.
_COMMON = frozenset(
    {"compute", "cloud", "cluster", "svc", "pod", "node", "nodes", "amazonaws", "example", "test"}
    | {*_PRIVATE.split("|"), *_PUBLIC.split("|")}
)


class Pseudonyms:
    """Cleans text for pages: control and direction marks go always; with ``hide`` also addresses,
    names of machines, home folders, e-mail addresses, users and the names of foreign programs
    become pseudonyms, the same one for the same thing everywhere on the site.

    A name is found in any case, with other separators and within other words. One that is a word of
    our own (``keep``, the labels; the names of metrics and fields) reveals nothing and stays; one
    that is a part of such a word is replaced only where it is alone.
    """

    def __init__(self, hide: bool, keep: Iterable[str] = ()) -> None:
        self._hide = hide
        self._given: dict[tuple[str, str], str] = {}
        self._names: dict[str, str] = {}
        self._alone: set[str] = set()  # those of _names that are not looked for within words
        self._keep = {name.lower() for name in keep}
        self._cache: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, *values: Any) -> None:
        """Takes the names out of an env.json, a command line or whatever else is published, and
        those of this machine and its user.
        """
        if not self._hide:
            return
        for kind, name in (*_of_this_machine(), *_named(values)):
            parts = [(part, False) for part in _spellings(kind, name.strip())]
            parts += [(part, True) for part in _domain_parts(kind, name.strip())]
            for part, alone in parts:
                key = _bare(part)
                if (
                    len(key) > 2
                    and part.lower() not in self._keep | _NOBODY | _vocabulary()
                    and key not in self._names
                ):
                    self._names[key] = self._pseudonym(kind, key)
                    if alone:
                        self._alone.add(key)
        words = [
            _anywhere(name, self._keep | _vocabulary(), name in self._alone)
            for name in sorted(self._names, key=len, reverse=True)
        ]
        self._pattern = re.compile("|".join(words), re.IGNORECASE) if words else None
        self._cache.clear()

    def text(self, value: str) -> str:
        """``value`` as one line that may be published."""
        known = self._cache.get(value)
        if known is None:
            # cut behind the replacing: half a name is a name, too
            known = plain(
                self._hidden(plain(value, 2 * _LONGEST)) if self._hide else value, _LONGEST
            )
            self._cache[value] = known
        return known

    def walk(self, value: Any) -> Any:
        """The same structure with every string, keys too, cleaned."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.walk(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [
                self.walk(item) if isinstance(item, str | dict | list | tuple) else item
                for item in value
            ]
        return value

    def _hidden(self, text: str) -> str:
        if "@" in text:  # else each letter of a long word would be tried as the first of one
            text = _EMAIL.sub(self._as("email"), text)
        text = _HOME.sub(lambda match: f"{match[1]}{match[2]}{match[1]}user", text)
        text = _TILDE.sub("~user", text)
        text = _DASHED_HOME.sub(lambda match: f"-{match[1]}-user", text)
        text = _ROOT.sub("/home/user", text)
        text = addresses.replaced(text, self._pseudonym)
        if self._pattern is not None:
            text = self._pattern.sub(lambda match: self._names.get(_bare(match[0]), "name"), text)
        return _FQDN.sub(self._machine, text)

    def _machine(self, match: re.Match[str]) -> str:
        name = match[0].lower()
        if name in self._keep or any(
            name == known or name.endswith(f".{known}") for known in _published()
        ):
            return match[0]
        return self._pseudonym("host", name)

    def _as(self, kind: str) -> Callable[[re.Match[str]], str]:
        return lambda match: self._pseudonym(kind, match[0].lower())

    def _pseudonym(self, kind: str, what: str) -> str:
        if (kind, what) not in self._given:
            number = sum(1 for known, _ in self._given if known == kind) + 1
            self._given[kind, what] = f"{kind}-{number}"
        return self._given[kind, what]


def _bare(name: str) -> str:
    """A name without case and separators: secret-box, Secret_Box and secretbox are one."""
    return re.sub(r"[-_. ]", "", name).lower()


def _anywhere(name: str, own: Iterable[str], alone: bool) -> str:
    """A pattern for that bare name with any separators, alone or, unless ``alone`` or a word of our
    own holds it, within others.
    """
    pattern = "[-_. ]?".join(re.escape(letter) for letter in name)
    alone = alone or any(name in _bare(word) for word in own)
    return rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9])" if alone else pattern


def _spellings(kind: str, name: str) -> Iterator[str]:
    """The name; of a machine's long name the first part and its domain, too; of a program its last
    part without arguments.
    """
    if kind == "program":
        words = name.split()
        name = Path(words[0]).name if words else ""
    yield name
    if kind == "host":
        short, dot, domain = name.partition(".")
        if dot and not addresses.is_address(name):
            yield short
            if "." in domain:
                yield domain


def _domain_parts(kind: str, name: str) -> list[str]:
    """The parts of a machine's domain, without the top-level one and those of many networks."""
    if kind != "host" or addresses.is_address(name):
        return []
    return [part for part in name.split(".")[1:-1] if part.lower() not in _COMMON]


def _of_this_machine() -> Iterator[tuple[str, str]]:
    yield "host", socket.gethostname()
    for name in (os.environ.get("SUDO_USER", ""), os.environ.get("USER", ""), _login()):
        yield "user", name


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        return ""


def _named(value: Any, kind: str = "") -> Iterator[tuple[str, str]]:
    """(kind, name) of all machines, users and foreign programs, found by the names of their keys;
    users by their home folders, too.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            kinds = (("host", _HOST_KEY), ("user", _USER_KEY), ("program", _PROGRAM_KEY))
            yield from _named(
                item, next((name for name, pattern in kinds if pattern.search(str(key))), kind)
            )
    elif isinstance(value, list | tuple):
        before = ""
        for item in value:
            option, _, given = item.partition("=") if isinstance(item, str) else ("", "", "")
            if _NAMING_OPTION.fullmatch(before):
                yield "host", plain(item, _LONGEST)
            elif given and _NAMING_OPTION.fullmatch(option):
                yield "host", plain(given, _LONGEST)
            before = option if not given else ""
            yield from _named(item, kind)
    elif isinstance(value, str):
        if kind:
            yield kind, plain(value, _LONGEST)
        for match in _HOME.finditer(plain(value, _LONGEST)):
            yield "user", match[3]
            yield "user", match[3].split()[0]
        for match in _HOST_SELECTOR.finditer(plain(value, _LONGEST)):
            yield "host", match[1]


@cache
def _vocabulary() -> frozenset[str]:
    """Our own words in what is published: the fields of what reports are made of, and the
    metrics.
    """
    import msgspec

    from cnibench.analysis import model
    from cnibench.model import cell
    from cnibench.model.metrics import METRICS
    from cnibench.rundir import schema as layout

    found = set(METRICS)
    for module in (cell, layout, model):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                found |= {field.name for field in msgspec.structs.fields(kind)}
    return frozenset(word.lower() for word in found)


@cache
def _published() -> frozenset[str]:
    """Domains that the shipped profiles name: upstream's documents and registries."""
    from cnibench.model.profile import FOLDER

    text = "\n".join(file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.yaml")))
    return frozenset(match[0].lower() for match in _FQDN.finditer(text))
