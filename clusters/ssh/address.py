"""``ssh://[USER@]HOST[:PORT][?address=IP],ssh://...``: which two machines are meant."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from cnibench.errors import UsageError

_REMEDY = "write --cluster ssh://root@one.example,ssh://root@two.example"
# HOST may be an alias of ssh's configuration. Nothing in it may be taken for an option of ssh, or
# be read by a shell.
_URL = re.compile(
    r"ssh://(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]*)(?P<password>:[^@/]*)?@)?"
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]*))"
    r"(?::(?P<port>\d{1,5}))?/?(?:\?address=(?P<measured>[0-9A-Fa-f:.]+))?"
)


@dataclass(frozen=True)
class Address:
    """One machine. ``user`` and ``port``: '' and 0 where ssh's configuration decides. ``measured``
    is the address of the NIC to measure, '' for the one that ssh arrives at.
    """

    host: str
    user: str = ""
    port: int = 0
    measured: str = ""

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ssh://{user}{host}{f':{self.port}' if self.port else ''}"


def parse(text: str) -> tuple[Address, Address]:
    """The client's machine, which is the control plane as well, and the server's. Raises
    UsageError.
    """
    given = [part.strip() for part in text.split(",")]
    if len(given) != 2:
        raise UsageError(
            f"--cluster {text[:200]}: expected two machines, not {len(given)}", _REMEDY
        )
    first, second = (_one(part) for part in given)
    if (first.host, first.port) == (second.host, second.port):
        raise UsageError(f"--cluster names {first} twice", _REMEDY)
    return first, second


def _one(text: str) -> Address:
    match = _URL.fullmatch(text)
    if match is None or not 0 <= int(match["port"] or 0) < 1 << 16:
        raise UsageError(f"{text[:200]} is not ssh://[USER@]HOST[:PORT][?address=IP]", _REMEDY)
    if match["password"]:
        raise UsageError(
            "a password has no place on a command line",
            "use a key (ssh-copy-id); ssh-agent keeps it unlocked",
        )
    measured = match["measured"] or ""
    try:
        measured = str(ipaddress.ip_address(measured)) if measured else ""
    except ValueError:
        raise UsageError(
            f"?address={measured} is no IP address", "give the address of the NIC to measure"
        ) from None
    host = match["v6"] or match["host"]
    return Address(host, match["user"] or "", int(match["port"] or 0), measured)
