"""``--cluster ssh://A,ssh://B``: what is taken for two machines, and what ssh says of them."""

from __future__ import annotations

import pytest

from cnibench.clusters.ssh.address import Address, parse
from cnibench.clusters.ssh.failures import explained
from cnibench.clusters.ssh.machine import no_root
from cnibench.errors import UsageError
from cnibench.registry import provider
from cnibench.testbed.cluster import Options


def test_two_machines() -> None:
    assert parse("ssh://root@one.example, ssh://Lab-2:2222/?address=10.0.0.2") == (
        Address("one.example", "root"),
        Address("Lab-2", "", 2222, "10.0.0.2"),
    )
    v6, other = parse("ssh://[fd00::1]:22,ssh://b?address=fd00::2")
    assert (v6.host, v6.port, other.measured) == ("fd00::1", 22, "fd00::2")
    assert [str(one) for one in (v6, other)] == ["ssh://[fd00::1]:22", "ssh://b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ssh://a", "expected two machines, not 1"),
        ("ssh://a,ssh://b,ssh://c", "not 3"),
        ("ssh://a,ssh://root@a", "twice"),
        ("ssh://a,b", "b is not ssh://"),
        ("ssh://-oProxyCommand=x,ssh://b", "is not ssh://"),
        ("ssh://a;reboot,ssh://b", "is not ssh://"),
        ("ssh://a b,ssh://c", "is not ssh://"),
        ("ssh://$(x)@a,ssh://b", "is not ssh://"),
        ("ssh://root:secret@a,ssh://b", "a password has no place"),
        ("ssh://a:99999,ssh://b", "is not ssh://"),
        ("ssh://a?address=10.0.0,ssh://b", "no IP address"),
        ("ssh://a/path,ssh://b", "is not ssh://"),
        ("ssh://,ssh://b", "is not ssh://"),
    ],
)
def test_what_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert said in caught.value.message
    assert "secret" not in caught.value.message
    assert caught.value.remedy


def test_the_machines_are_a_kind_of_cluster() -> None:
    kind = provider("clusters", "ssh://root@a,ssh://b")
    cluster = kind(Options())
    assert [str(machine.address) for machine in cluster.machines] == ["ssh://root@a", "ssh://b"]
    assert (cluster.kind, cluster.testbed, cluster.manages_nodes) == ("ssh", "cluster", False)
    with pytest.raises(UsageError, match="names no machines"):
        provider("clusters", "ssh")(Options())
    with pytest.raises(UsageError, match="there is no kind of cluster 'telnet'"):
        provider("clusters", "telnet://a,telnet://b")
    with pytest.raises(UsageError, match="there is no kind of cluster 'kind://a'"):
        provider("clusters", "kind://a")


CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
Host key verification failed.
"""


@pytest.mark.parametrize(
    ("printed", "said", "remedy"),
    [
        (CHANGED, "its host key is another one", "ssh-keygen -R a, then"),
        ("Host key verification failed.", "its host key is not known yet", "fingerprint"),
        ("root@a: Permission denied (publickey).", "does not let this user in", "authorized_keys"),
        ("ssh: connect to host a port 22: Connection refused", "nothing listens", "sshd"),
        ("ssh: Could not resolve hostname a: Name not known", "name is not known", "config"),
        ("ssh: connect to host a port 22: No route to host", "cannot be reached", "ProxyJump"),
        ("Timeout, server a not responding.", "the connection was lost", "clean"),
        ("", "ssh ended", "ssh ssh://a"),
    ],
)
def test_what_ssh_says_is_explained(printed: str, said: str, remedy: str) -> None:
    error = explained("ssh://a", printed)
    assert "ssh://a" in error.message
    assert said in error.message
    assert remedy in error.remedy


def test_the_key_of_a_port_is_known_by_it() -> None:
    error = explained("ssh://root@a:2222", CHANGED)
    assert "ssh-keygen -R '[a]:2222', then connect once by hand: ssh ssh://root@a:2222" in (
        error.remedy
    )


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("sudo: a password is required\n", "sudo asks for a password"),
        ("sh: 1: sudo: not found\n", "sudo is not installed"),
        ("admin is not in the sudoers file.\n", "may not use sudo"),
    ],
)
def test_what_sudo_says_is_explained(printed: str, said: str) -> None:
    error = no_root("ssh://admin@a", printed)
    assert said in error.message
    assert "NOPASSWD" in error.remedy
