"""What would name a machine, a network or somebody's programs is replaced before anything is published."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cnibench.reports._escape import plain

_LONGEST = 4000
_HOST_KEY = re.compile(r"(host|node|machine)_?name|fqdn|^nodename$", re.IGNORECASE)
_PROGRAM_KEY = re.compile(r"foreign|other_programs|other_processes", re.IGNORECASE)
_MAC = re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])")
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d\.|\w)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f]*:)[0-9A-Fa-f:]{3,39}(?![\w:])")
_HOME = re.compile(r"/(home|Users)/[^/\s'\"]+")


class Pseudonyms:
    """Cleans text for pages: control and direction marks go always; with ``hide`` also addresses, host names, home folders and the names of
    foreign programs become pseudonyms, the same one for the same thing everywhere on the site."""

    def __init__(self, hide: bool, keep: Iterable[str] = ()) -> None:
        self._hide = hide
        self._given: dict[tuple[str, str], str] = {}
        self._names: dict[str, str] = {}
        self._keep = {name.lower() for name in keep}
        self._cache: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, environment: Mapping[str, Any]) -> None:
        """Takes host names and foreign programs' names out of an env.json, and this machine's own name."""
        if not self._hide:
            return
        own = socket.gethostname()
        found = [("host", own), ("host", own.partition(".")[0]), *_named(environment)]
        for kind, name in found:
            if len(name) > 2 and name.lower() not in self._keep and name.lower() != "localhost":
                self._names.setdefault(name, self._pseudonym(kind, name))
        words = "|".join(re.escape(name) for name in sorted(self._names, key=len, reverse=True))
        self._pattern = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])") if words else None
        self._cache.clear()

    def text(self, value: str) -> str:
        """``value`` as one line that may be published."""
        known = self._cache.get(value)
        if known is None:
            known = plain(value, _LONGEST)
            self._cache[value] = known = self._hidden(known) if self._hide else known
        return known

    def walk(self, value: Any) -> Any:
        """The same structure with every string, keys too, cleaned."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.walk(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.walk(item) if isinstance(item, str | dict | list | tuple) else item for item in value]
        return value

    def _hidden(self, text: str) -> str:
        if self._pattern is not None:
            text = self._pattern.sub(lambda match: self._names[match[0]], text)
        text = _HOME.sub(r"/\1/user", text)
        text = _MAC.sub(lambda match: self._pseudonym("mac", match[0].lower()), text)
        for pattern in (_IPV4, _IPV6):
            text = pattern.sub(self._address, text)
        return text

    def _address(self, match: re.Match[str]) -> str:
        try:
            found = ipaddress.ip_address(match[0])
        except ValueError:
            return match[0]
        return match[0] if found.is_unspecified or found.is_loopback else self._pseudonym("address", str(found))

    def _pseudonym(self, kind: str, what: str) -> str:
        if (kind, what) not in self._given:
            number = sum(1 for known, _ in self._given if known == kind) + 1
            self._given[kind, what] = f"{kind}-{number}"
        return self._given[kind, what]


def _named(value: Any, kind: str = "") -> Iterator[tuple[str, str]]:
    """(kind, name) of all host names and foreign programs in an environment, found by the names of their keys."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            here = "host" if _HOST_KEY.search(str(key)) else "program" if _PROGRAM_KEY.search(str(key)) else kind
            yield from _named(item, here)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _named(item, kind)
    elif isinstance(value, str) and kind:
        yield kind, Path(value).name if kind == "program" else value
