"""What ssh says when it makes no connection, and what to do about it."""

from __future__ import annotations

import re
import shlex
from urllib.parse import urlsplit

from cnibench.errors import ClusterError

# (what ssh says, what it means, the remedy); the first that is found counts. {0} is the machine in
# known_hosts, {1} the command that connects.
_SAYINGS = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .* has changed",
        "its host key is another one than known_hosts has",
        "find out why; if the machine was reinstalled: ssh-keygen -R {0}, then connect once by"
        " hand: {1}",
    ),
    (
        r"Host key verification failed|No .* host key is known",
        "its host key is not known yet",
        "connect once by hand and compare the fingerprint: {1}",
    ),
    (
        r"Permission denied",
        "ssh does not let this user in",
        "try by hand: {1}; a key must be in authorized_keys there, and in the agent when it has a"
        " passphrase",
    ),
    (r"Could not resolve hostname", "its name is not known", "check the name and ~/.ssh/config"),
    (
        r"Connection refused",
        "nothing listens on its ssh port",
        "start sshd there, or give the port",
    ),
    (
        r"timed out|No route to host|Network is unreachable",
        "it cannot be reached",
        "check the address and the firewall; ~/.ssh/config may name a jump host (ProxyJump)",
    ),
    (
        r"Connection closed|Connection reset|Broken pipe|not responding|closed by remote host",
        "the connection was lost",
        "is the machine up? what was begun there is put back by: cnibench clean --cluster ...",
    ),
)


def explained(machine: str, said: str) -> ClusterError:
    """The error for what ssh printed on its way out."""
    by_hand, parts = f"ssh {machine}", urlsplit(machine)
    known = shlex.quote(f"[{parts.hostname}]:{parts.port}") if parts.port else parts.hostname
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
    for pattern, meaning, remedy in _SAYINGS:
        if re.search(pattern, said):
            return ClusterError(f"{machine}: {meaning} ({last})", remedy.format(known, by_hand))
    return ClusterError(
        f"{machine}: ssh ended" + (f": {last}" if last else ""), f"try by hand: {by_hand}"
    )
