"""What this kernel can do, found by trying it in a scratch network namespace that goes at once;
nothing of the host is touched.

A module that the kernel loads by itself when such a device is asked for counts as there.
br_netfilter is never loaded by us: doing so would change how the host's own bridges filter.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import platform
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from cnibench.clusters.lab.namespaces import netlink, tree
from cnibench.errors import CnibenchError
from cnibench.listing.devices import devices
from cnibench.system.guest import inside, patience
from cnibench.system.namespaces import CLONE_NEWNET, CLONE_NEWPID

_ROOT, _CLSACT = 0xFFFFFFFF, 0xFFFFFFF1  # parents of queueing disciplines
# struct tc_tbf_qopt: 10^6 bytes/s, no peak rate, a queue of 10^6 bytes, a bucket of 10^6 ticks of
# 64 ns (linux/pkt_sched.h)
_TBF = struct.pack("=BBHhHI12xIII", 0, 1, 0, 0, 0, 10**6, 10**6, 10**6, 0)
_NR_BPF = {"x86_64": 321, "aarch64": 280}


@dataclass(frozen=True)
class Feature:
    """``option`` of the configuration, ``words`` for what it is, ``module`` that brings it,
    ``link``: a device kind that proves it.
    """

    option: str
    words: str
    module: str = ""
    link: str = ""
    attributes: Mapping[str, Any] | None = None


FEATURES: Mapping[str, Feature] = {
    "veth": Feature("CONFIG_VETH", "virtual Ethernet pairs", "veth", "veth"),
    "bridge": Feature("CONFIG_BRIDGE", "Linux bridge", "bridge", "bridge"),
    "vxlan": Feature(
        "CONFIG_VXLAN", "VXLAN", "vxlan", "vxlan", {"vxlan_id": 1, "vxlan_port": 8472}
    ),
    "ipip": Feature(
        "CONFIG_NET_IPIP",
        "IP-in-IP",
        "ipip",
        "ipip",
        {"ipip_local": "192.0.2.1", "ipip_remote": "192.0.2.2"},
    ),
    "geneve": Feature(
        "CONFIG_GENEVE",
        "Geneve",
        "geneve",
        "geneve",
        {"geneve_id": 1, "geneve_remote": "192.0.2.2"},
    ),
    "wireguard": Feature("CONFIG_WIREGUARD", "WireGuard", "wireguard", "wireguard"),
    "dummy": Feature("CONFIG_DUMMY", "dummy devices", "dummy", "dummy"),
    "netkit": Feature("CONFIG_NETKIT", "netkit devices", "", "netkit"),
    "vrf": Feature("CONFIG_NET_VRF", "VRF devices", "vrf", "vrf", {"vrf_table": 10}),
    "macvlan": Feature("CONFIG_MACVLAN", "macvlan devices", "macvlan", "macvlan", {"link": 0}),
    "ipvlan": Feature("CONFIG_IPVLAN", "ipvlan devices", "ipvlan", "ipvlan", {"link": 0}),
    "openvswitch": Feature("CONFIG_OPENVSWITCH", "the Open vSwitch datapath", "openvswitch"),
    "ila": Feature("CONFIG_IPV6_ILA", "identifier-locator addressing", "ila"),
    "esp": Feature("CONFIG_INET_ESP and CONFIG_CRYPTO_GCM", "IPsec ESP with AES-GCM", "esp4"),
    "tun": Feature("CONFIG_TUN", "TUN devices", "tun"),
    "ipv6": Feature("CONFIG_IPV6", "IPv6"),
    "br_netfilter": Feature(
        "CONFIG_BRIDGE_NETFILTER", "iptables for bridged packets", "br_netfilter"
    ),
    "iptables": Feature("CONFIG_IP_NF_IPTABLES or CONFIG_NFT_COMPAT", "iptables", "ip_tables"),
    "ip6tables": Feature("CONFIG_IP6_NF_IPTABLES or CONFIG_NFT_COMPAT", "ip6tables", "ip6_tables"),
    "iptables-ipsec": Feature(
        "CONFIG_NETFILTER_XT_MATCH_ESP and CONFIG_NETFILTER_XT_MATCH_POLICY",
        "iptables' matches for IPsec",
        "xt_esp",
    ),
    "ipset": Feature("CONFIG_IP_SET", "IP sets", "ip_set"),
    "ipvs": Feature("CONFIG_IP_VS and CONFIG_IP_VS_RR", "virtual servers (IPVS)", "ip_vs_rr"),
    "nftables": Feature("CONFIG_NF_TABLES", "nftables", "nf_tables"),
    "nft-services": Feature(
        "CONFIG_NFT_CT, CONFIG_NFT_NAT, CONFIG_NFT_MASQ, CONFIG_NFT_NUMGEN and CONFIG_NFT_REJECT",
        "what kube-proxy's rules of nftables are made of",
        "nft_numgen",
    ),
    "big-tcp": Feature("gso_ipv4_max_size (Linux 6.3)", "super-packets of more than 64 KiB"),
    "tbf": Feature("CONFIG_NET_SCH_TBF", "the token bucket queueing discipline", "sch_tbf"),
    "tc-bpf": Feature(
        "CONFIG_NET_CLS_BPF, CONFIG_NET_SCH_INGRESS and CONFIG_BPF_SYSCALL",
        "eBPF programs at tc",
        "cls_bpf",
    ),
}
_LIMIT = 10.0  # s: for a program that tries one
# Tried only for who needs them: to try them loads modules that every network namespace has to do
# with.
_SELDOM = frozenset({"ipip", "openvswitch", "ipvs"})
_GENERIC = {"openvswitch": "ovs_datapath", "ila": "ila"}  # found by their generic netlink families
_COMMANDS = {
    "iptables": (
        ["iptables-restore", "--test"],
        "*filter\n:INPUT ACCEPT\n-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT\nCOMMIT\n",
    ),
    "iptables-ipsec": (
        ["iptables-restore", "--test"],
        "*filter\n:INPUT ACCEPT\n-A INPUT -p esp -m esp --espspi 1 -m policy --dir in --pol none\n"
        "COMMIT\n",
    ),
    "ip6tables": (["ip6tables-restore", "--test"], "*filter\n:INPUT ACCEPT\nCOMMIT\n"),
    "ipset": (["ipset", "create", "probe", "hash:ip"], None),
    "esp": (
        [
            "ip",
            "xfrm",
            "state",
            "add",
            "src",
            "192.0.2.1",
            "dst",
            "192.0.2.2",
            "proto",
            "esp",
            "spi",
            "4096",
            "mode",
            "transport",
            "aead",
            "rfc4106(gcm(aes))",
            f"0x{1:072x}",
            "128",
        ],
        None,
    ),
    "ipvs": (["ipvsadm", "-A", "-t", "192.0.2.1:80", "-s", "rr"], None),
    "nftables": (["nft", "add", "table", "inet", "probe"], None),
    "nft-services": (
        ["nft", "-f", "-"],
        """table ip probe {
            chain a { numgen random mod 2 vmap { 0 : drop, 1 : return } ; }
            chain b { ct state new reject ; }
            chain c {
                type nat hook prerouting priority -100 ;
                meta l4proto tcp dnat to 192.0.2.1:80 ;
            }
            chain d { type nat hook postrouting priority 100 ; masquerade fully-random ; }
        }""",
    ),
}


_asked: set[str] = set()
_found: dict[str, bool] = {}


def found(needs: Iterable[str] = ()) -> Mapping[str, bool]:
    """Feature to whether this kernel, for this user, has it: all of them, each tried once per
    process. Empty when no namespace can be made.

    Under emulation only ``needs`` where some are given: what it takes to try one, a module or a
    program, are tenths of a second there. Where some are given, IP-in-IP, Open vSwitch and
    IPVS are tried only if they are among them: with ipip's module the machine's own network
    namespace gets a device tunl0, with Open vSwitch's Linux 6.1 tracks connections in all of them.
    """
    given = set(needs) & FEATURES.keys()
    wanted = given if inside() == "tcg" and given else FEATURES.keys() - _SELDOM
    wanted = wanted | (_SELDOM & given if given else _SELDOM)
    missing = wanted - _asked
    if missing:
        _asked.update(missing)
        _found.update(_in_scratch(missing))
    return _found


def tried() -> Mapping[str, bool]:
    """What ``found`` has reported so far."""
    return _found


def _in_scratch(features: Collection[str]) -> dict[str, bool]:
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with contextlib.suppress(BaseException):
            tree.unshare(CLONE_NEWNET | tree.CLONE_NEWNS)
            tree.loopback_up()
            os.environ["XTABLES_LOCKFILE"] = "/dev/null"
            os.write(writer, json.dumps(_try_each(features)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    os.waitpid(child, 0)
    return dict(json.loads(said)) if said else {}


def program(need: str) -> str:
    """The program that tries a feature, without which nothing is known of it; '': none is
    needed.
    """
    return _COMMANDS[need][0][0] if need in _COMMANDS else ""


def has_ipvs() -> bool:
    """Does this kernel have virtual servers (ip_vs)?"""
    return netlink.has_generic("IPVS")


def tree_problem() -> str:
    """'' when a tree of namespaces can be made here, else why not and what to do."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            tree.unshare(CLONE_NEWNET | tree.CLONE_NEWNS | CLONE_NEWPID)
        except CnibenchError as error:
            os.write(writer, f"{error.message}\0{error.remedy}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def _try_each(features: Collection[str]) -> dict[str, bool]:
    mine, other = (netlink.link_attributes(name=name) for name in ("under", "under-peer"))
    netlink.ask_here(
        netlink.NEWLINK, netlink.ADD, netlink.veth(netlink.link(), mine, netlink.link(), other)
    )
    under = socket.if_nametoindex("under")
    tries: dict[str, Callable[[], object]] = {
        **{
            key: partial(_link, feature, under) for key, feature in FEATURES.items() if feature.link
        },
        **{key: partial(_generic, family) for key, family in _GENERIC.items()},
        **{key: partial(_command, argv, text) for key, (argv, text) in _COMMANDS.items()},
        "tun": _tun,
        "ipv6": partial(os.stat, "/proc/sys/net/ipv6"),
        "br_netfilter": partial(os.stat, "/proc/sys/net/bridge/bridge-nf-call-iptables"),
        "big-tcp": partial(_big_tcp, under),
        "tbf": partial(_qdisc, under, "tbf", _ROOT, 0x10000, netlink.attribute(1, _TBF)),
        "tc-bpf": partial(_tc_bpf, under),
    }
    return {key: _try(tries[key]) for key in features}


def _try(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except Exception:  # whatever it says, the answer is no
        return False
    return True


def _link(feature: Feature, under: int) -> None:
    attributes = {"ifname": "probe", **(feature.attributes or {})}
    if "link" in attributes:
        attributes["link"] = under
    if feature.link == "veth":
        body = netlink.veth(
            netlink.link(),
            netlink.link_attributes(name="probe"),
            netlink.link(),
            netlink.link_attributes(name="peer"),
        )
    else:
        made = netlink.device(netlink.link(), feature.link, attributes)
        assert made is not None
        body = made
    netlink.ask_here(netlink.NEWLINK, netlink.ADD, body)
    netlink.ask_here(netlink.DELLINK, netlink.CHANGE, netlink.link(socket.if_nametoindex("probe")))


def _qdisc(index: int, kind: str, parent: int, handle: int, options: bytes = b"") -> None:
    netlink.ask_here(
        netlink.NEWQDISC,
        netlink.ADD,
        netlink.qdisc(index, kind, parent=parent, handle=handle, options=options),
    )


def _big_tcp(index: int) -> None:
    """An older kernel ignores what it does not know: what it has is read back."""
    size = 1 << 17
    body = netlink.link(index) + netlink.attribute(63, size)  # IFLA_GSO_IPV4_MAX_SIZE
    netlink.ask_here(netlink.NEWLINK, netlink.CHANGE, body)
    (found,) = (device for device in devices() if device.number == index)
    if f"{found.name} gso-ipv4-max-size {size}" not in found.options:
        raise OSError(errno.EOPNOTSUPP, "gso_ipv4_max_size")


def _generic(family: str) -> None:
    if not netlink.has_generic(family):
        raise OSError(family)


def _tc_bpf(under: int) -> None:
    _qdisc(under, "clsact", _CLSACT, _CLSACT & 0xFFFF0000)
    _load_program()


def _tun() -> None:
    import fcntl

    fd = os.open("/dev/net/tun", os.O_RDWR)
    try:
        fcntl.ioctl(
            fd, 0x400454CA, struct.pack("16sH22x", b"probe-tun", 0x0001 | 0x1000)
        )  # TUNSETIFF, IFF_TUN | IFF_NO_PI
    finally:
        os.close(fd)


def _load_program() -> None:
    """bpf(BPF_PROG_LOAD) of ``return 0`` for tc, by the bare system call."""
    code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0))
    terms = ctypes.create_string_buffer(b"GPL")
    request = ctypes.create_string_buffer(
        struct.pack(
            "<IIQQIIQII", 3, 2, ctypes.addressof(code), ctypes.addressof(terms), 0, 0, 0, 0, 0
        ),
        120,
    )
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(_NR_BPF[platform.machine()], 5, request, 120)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    os.close(fd)


def _command(argv: list[str], text: str | None) -> None:
    subprocess.run(
        argv, input=text, text=True, check=True, capture_output=True, timeout=_LIMIT * patience()
    )
