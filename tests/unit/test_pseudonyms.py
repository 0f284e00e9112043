"""What is published names no machine, no user and no network, however it is spelled."""

from __future__ import annotations

import datetime
import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.reports.site.publication.pseudonyms import Pseudonyms

WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=0, max_size=5)
SECRET = st.from_regex(r"[bcdfgq-z]{4,7}[0-9]{2}(-[bcdfgq-z]{3,6})?", fullmatch=True)
AROUND = st.text("abcxyz -_./:,()[]'\"=@\u200b\u202e", max_size=6)
CASES = st.sampled_from([str.lower, str.upper, str.title, str.swapcase])
HEX = st.binary(min_size=6, max_size=6).filter(lambda data: re.search(r"[a-f]", data.hex()))
MACS = (":", "-", "_", " ", "Cisco", "CISCO-DASH", "", "0x", "halves-", "halves:", "quads")


def bare(text: str) -> str:
    return re.sub(r"[^0-9a-z]", "", text.lower())


def mac(data: bytes, spelling: str) -> str:
    digits = data.hex()
    if spelling == "Cisco":
        return ".".join(digits[at : at + 4] for at in (0, 4, 8))
    if spelling == "CISCO-DASH":
        return "-".join(digits[at : at + 4] for at in (0, 4, 8)).upper()
    if spelling == "quads":
        return ":".join(digits[at : at + 4] for at in (0, 4, 8))
    if spelling.startswith("halves"):
        return f"{digits[:6]}{spelling[-1]}{digits[6:]}"
    if spelling == "0x":
        return f"0x{digits}"
    return spelling.join(digits[at : at + 2] for at in range(0, 12, 2))


@given(
    SECRET,
    AROUND,
    AROUND,
    CASES,
    st.sampled_from(["-", "_", "", "."]),
    st.sampled_from(["hostname", "NodeName", "user", "foreign"]),
)
def test_a_learned_name_occurs_in_no_case_and_spelling(
    secret: str, before: str, after: str, case: object, separator: str, key: str
) -> None:
    names = Pseudonyms(True)
    names.learn({key: secret})
    written = case(secret.replace("-", separator))  # type: ignore[operator]
    assert bare(secret) not in bare(names.text(f"x{before}{written}{after}y"))


@given(SECRET, SECRET, AROUND, CASES)
def test_a_machine_of_a_long_name_by_each_part(
    name: str, domain: str, around: str, case: object
) -> None:
    names = Pseudonyms(True)
    names.learn({"hostname": f"{name}.{domain}.example.com"})
    for written in (
        name,
        f"{name}.{domain}.example.com",
        f"other.{domain}.example.com",
        f"{domain}.example.com",
    ):
        shown = bare(names.text(f"a{around}{case(written)} b"))  # type: ignore[operator]
        assert bare(name) not in shown
        assert bare(domain) not in shown


@given(SECRET, CASES)
def test_what_was_never_learned_is_known_by_its_form(secret: str, case: object) -> None:
    names = Pseudonyms(True)
    names.learn({})
    for form in (
        "{}@acme.org",
        "mail {}.x+y@mx.acme.org",
        "/home/{}",
        "'/Home/{}/runs'",
        "C:\\Users\\{}\\x",
        "%2Fhome%2F{}%2Frun",
        "/var/home/{}/",
        "/mnt/nfs/homes/{}",
        "~{}/runs",
        "-home-{}/x",
        "/home/kim {}/x",
        "/home/kim van {}/x",
        "{}.acme.xyz",
        "srv.{}.company:443",
        "{}.corp.internal",
        "db.{}.acme.com",
        "https://{}.acme.de:80/x",
        "{}.local",
        "a.{}.lan.",
    ):
        assert bare(secret) not in bare(names.text(f"seen {case(form.format(secret))} there")), form  # type: ignore[operator]


@given(SECRET)
def test_the_owner_of_a_home_folder_is_known_everywhere(secret: str) -> None:
    names = Pseudonyms(True)
    names.learn({"tool": f"/home/{secret}/bin/netperf"})
    assert bare(secret) not in bare(names.text(f"started by {secret.upper()}, {secret}s-laptop"))


@given(
    HEX,
    st.sampled_from(MACS),
    CASES,
    st.sampled_from(["{}", "at {},", "[{}]", "eth0={}", "lladdr {} REACHABLE", "{}\u200b."]),
)
def test_hardware_addresses_in_every_spelling(
    data: bytes, spelling: str, case: object, form: str
) -> None:
    shown = Pseudonyms(True).text(form.format(case(mac(data, spelling))))  # type: ignore[operator]
    assert data.hex() not in bare(shown)


@given(
    HEX.filter(lambda data: min(data) < 16 and re.search("[a-f]", f"{data[0]:x}{data[5]:x}")),
    st.sampled_from(["{}", "at {},", "lladdr {} REACHABLE", "eth0={}"]),
)
def test_hardware_addresses_without_leading_zeros(data: bytes, form: str) -> None:
    written = ":".join(f"{byte:x}" for byte in data)
    names = Pseudonyms(True)
    assert names.text(form.format(written)) == form.format("mac-1")
    assert names.text(mac(data, ":")) == "mac-1"


def test_letters_only_are_a_hardware_address_too() -> None:
    names = Pseudonyms(True)
    assert {names.text(mac(bytes.fromhex("aabbccddeeff"), spelling)) for spelling in MACS} == {
        "mac-1"
    }


@pytest.mark.parametrize(
    "written",
    [
        "5254:00ab:cdef",
        "5254:0012:3456",
        "525400:123456",
        "mac525400abcdef",
        "MAC525400123456",
        "mac_525400123456",
        "lladdr 525400123456",
        "hwaddr: 525400123456",
        "iface:52:54:00:12:34:56",
        "eth0:52:54:00:12:34:56",
        "mac:5254:0012:3456",
    ],
)
@pytest.mark.parametrize("form", ["{}", "at {},", "({})", "{} REACHABLE", "{}."])
def test_hardware_addresses_that_look_like_something_else(written: str, form: str) -> None:
    names = Pseudonyms(True)
    shown = names.text(form.format(written))
    assert "525400" not in bare(shown)
    assert "mac-1" in shown
    spelled = "52:54:00:ab:cd:ef" if written.endswith("cdef") else "52:54:00:12:34:56"
    assert names.text(spelled) == "mac-1"  # the same one in another spelling


@pytest.mark.parametrize("folder", ["/home2", "/srv/home-03", "/Users1", "/homes10", "%2Fhome2"])
def test_home_folders_with_a_number(folder: str) -> None:
    names = Pseudonyms(True)
    names.learn({"tool": f"{folder}/qwertz77/bin/netperf"})
    shown = names.text(f"in {folder}/qwertz77/x, of Qwertz77")
    assert "qwertz" not in shown.lower()
    assert shown.startswith(f"in {folder}")
    assert "another9" not in Pseudonyms(True).text(f"cd {folder}/another9")  # never learned


def test_a_dashed_home_folder_with_a_number() -> None:
    assert Pseudonyms(True).text("-home2-another9/x") == "-home2-user/x"


@given(HEX)
def test_a_device_that_is_named_by_its_address(data: bytes) -> None:
    assert data.hex() not in bare(Pseudonyms(True).text(f"enx{data.hex()} and wlx{data.hex()}: up"))


@given(st.ip_addresses(v=4).filter(lambda one: not one.is_loopback and not one.is_unspecified))
def test_addresses_of_ipv4(address: ipaddress.IPv4Address) -> None:
    names = Pseudonyms(True)
    for form in (
        "{}",
        "{}/24",
        "to {}.",
        "{}:80",
        "({})",
        "ip={}",
        "eth0-{}",
        "node_{}",
        "http://{}/x",
        "{},{}",
    ):
        assert str(address) not in names.text(form.format(address, address)), form
    dashed = str(address).replace(".", "-")
    assert dashed not in names.text(f"ip-{dashed}.eu-west-1.compute.internal")


@pytest.mark.parametrize(
    "address",
    [
        "2001:db8:12:34:56:78:9a:bc",
        "5254:00ab:cdef::1",
        "::5254:0012:3456",
        "1:2:5254:00ab:cdef:3:4:5",
    ],
)
def test_an_address_of_ipv6_that_contains_what_looks_like_a_hardware_address(address: str) -> None:
    assert Pseudonyms(True).text(f"via {address} dev eth0") == "via address-1 dev eth0"


@given(
    st.ip_addresses(v=6).filter(lambda one: not one.is_loopback and not one.is_unspecified), CASES
)
def test_addresses_of_ipv6(address: ipaddress.IPv6Address, case: object) -> None:
    names = Pseudonyms(True)
    for text in (str(address), address.exploded):
        for form in ("{}", "{}/64", "[{}]:80", "{}%eth0", "node:{}", "to {}.", "{}, {}"):
            written = case(form.format(text, text))  # type: ignore[operator]
            assert text.lower() not in names.text(written).lower(), form


def test_parts_of_a_domain_stand_for_it_alone() -> None:
    names = Pseudonyms(True)
    names.learn({"hostname": "secretbox.prod.acme-lab.compute.internal"})
    shown = names.text("ACME-LAB, acme_lab and prod; products compute")
    assert re.fullmatch(r"(host-\d+), \1 and host-\d+; products compute", shown)


def test_words_behind_a_home_folder_stay() -> None:
    text = "/home/user and /var/x, /home/user --out a/b, ~ 5 ms/x, 1.2~rc1/x, --out-home-dir"
    assert Pseudonyms(True).text(text) == text


@given(
    st.integers(0, 10**15),
    st.floats(allow_nan=False, allow_infinity=False),
    st.datetimes(),
    st.binary(min_size=32, max_size=32),
)
def test_figures_times_and_digests_stay(
    whole: int, figure: float, time: datetime.datetime, digest: bytes
) -> None:
    text = (
        f"{whole} {whole:,} {figure} {figure:.3g} {time:%Y%m%d-%H%M%S}-{digest.hex()[:4]}"
        f" {time:%H:%M:%S} sha256:{digest.hex()} flannel.inter.tcp-rr.ip4.speed.{digest.hex()[:8]}"
    )
    assert Pseudonyms(True).text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "20261123-065408-e17d",
        "flannel.intra.tcp-rr.ip4.speed.abcdefab",
        "10 20 30 40 50 60",
        "0:1:21:33:9:48",
        "261123-065408",
        "cnibench.run.workload",
        "net.core.somaxconn",
        "v1.2.3.beta",
        "a.b.service",
        "tcp.isra.cold",
        "10-1-2-3",
        "0x0a010203",
        "[525400:123456] -A FORWARD",
        "525400-123456",
        "6.1.0-00123-g525400abcdef",
        "15b3:1017:15b3:0016",
        "0000:3b:00.0",
        "231072:65536",
        "/homepage/x",
        "6.1.0-13-amd64",
        "22:30:58",
        "0.0.0.0",
        "::1",
        "127.0.0.1",
        "1.2.3",
        "a::b::c",
        "nf_hook_slow",
        "10.5 Gbit/s",
        "std::vector",
        "20261122-193845-iperf3-87e3",
        "2026-11-22T19:38:25.291337Z",
        "kernel 5.15.0",
        "tcp-stream",
        "throughput over message",
        "docker.io/flannel/flannel:v0.28.4",
        "https://docs.tigera.io/x",
        "report.json",
        "perf.data.gz",
        "driver v1.2.3.4",
        "x@sha256:0123",
        "CONFIG_NET_IPIP",
        "a:b",
        "123456789012",
        "ip6tables",
        "libc.so.6",
        "node a",
        "lab",
    ],
)
def test_what_names_nobody_stays(text: str) -> None:
    names = Pseudonyms(True, ["flannel"])
    names.learn({"hostname": "secret-box7"})
    assert names.text(text) == text


def test_a_name_that_is_a_word_of_ours_stays_and_breaks_nothing() -> None:
    names = Pseudonyms(True, ["flannel"])
    names.learn({"hostname": "throughput", "node_name": "flannel", "fqdn": "put"})
    assert names.text("throughput of flannel") == "throughput of flannel"
    assert "put" not in names.text("on put: 3").split()


def test_half_a_name_at_the_cut_is_a_name_too() -> None:
    names = Pseudonyms(True)
    names.learn({"hostname": "secretbox77"})
    for length in range(3980, 4001):
        assert "secr" not in names.text("x" * length + "secretbox77" * 3)


@pytest.mark.parametrize(
    "options",
    [
        ["--client-node", "secretbox77"],
        ["--server-node=secretbox77"],
        ["--context", "secretbox77"],
        ["--client-selector", "pool=fast,kubernetes.io/hostname=secretbox77"],
        ["--server-selector=kubernetes.io/hostname==secretbox77"],
    ],
)
def test_nodes_that_the_command_line_names(options: list[str]) -> None:
    names = Pseudonyms(True, ["flannel"])
    command = ["cnibench", "run", "--cni", "flannel", *options, "--context", "default"]
    names.learn({}, command)
    shown = names.text(f"{' '.join(command)}; error: secretbox77 is not ready, by default")
    assert "secretbox" not in shown
    assert shown.startswith("cnibench run --cni flannel --")
    assert shown.endswith("is not ready, by default")


def test_pseudonyms_keep_what_is_no_name() -> None:
    names = Pseudonyms(True, ["flannel"])
    names.learn({"hostname": "flannel", "node_name": "node-x"})
    assert names.text("flannel") == "flannel"
    assert "node-x" not in names.text("node-x and node-xy")
    assert names.text("10.0.0.1/24") == names.text("10.0.0.1/24") == "address-1/24"
    assert Pseudonyms(False).text("10.0.0.1\x1b[31m") == "10.0.0.1"
