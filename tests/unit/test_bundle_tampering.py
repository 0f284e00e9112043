"""More than a hundred ways to tamper with a real bundle: each is refused, for the reason that it
should be.
"""

from __future__ import annotations

import io
import re
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.reports.bundle import container, signature
from cnibench.system import process
from tests.unit._bundles import (
    GOLDEN,
    Files,
    Record,
    document,
    edited,
    lines,
    parts,
    put,
    rechained,
    refigured,
    refusal,
    with_lines,
)

SAMPLES, EVENTS, PLAN, ENV = "samples.jsonl", "events.jsonl", "plan.json", "env.json"


@dataclass(frozen=True)
class Keys:
    owner: Path
    stranger: Path
    signers: Path
    bundle: bytes


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """The golden bundle, signed by its owner, and a list of signers that has nobody else."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("owner", "stranger"):
        key = ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
        process.run(["ssh-keygen", *key], timeout=30)
    public = (folder / "owner.pub").read_text()
    (folder / "signers").write_text(f"owner@example.org {public}")
    return Keys(
        folder / "owner", folder / "stranger", folder / "signers", signed(FILES, folder / "owner")
    )


def signed(files: Files, key: Path) -> bytes:
    archive = container.packed(files)
    text = container.message(container.digest(archive))
    return container.sealed(archive, signature.sign(text, key))


FILES = refigured(parts(GOLDEN.read_bytes()))  # whatever this version computes


def test_the_bundle_itself_is_accepted(keys: Keys, tmp_path: Path) -> None:
    assert refusal(tmp_path, keys.bundle, keys.signers) == ""
    assert refusal(tmp_path, put(rechained(FILES))) == ""  # what the tampering below begins with
    assert refigured(FILES) == rechained(FILES) == FILES


def test_published_bundles_stay_valid(tmp_path: Path) -> None:
    """Where this fails after a change of the statistics, raise ``figures.VERSION``: the figures of
    bundles of the version before are then computed again and not compared.
    """
    assert refusal(tmp_path, GOLDEN.read_bytes()) == ""


# --- the file's bytes, without any knowledge of the format ---


def flipped(at: float) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        place = int(at * (len(data) - 1))
        return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]

    return change


BYTES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty file": (lambda data: b"", "no bundle"),
    "first byte lost": (lambda data: data[1:], "no bundle"),
    "last byte lost": (lambda data: data[:-1], "cut off"),
    "last kilobyte lost": (lambda data: data[:-1024], "cut off"),
    "second half lost": (lambda data: data[: len(data) // 2], "cut off"),
    "a byte lost in the middle": (
        lambda data: data[: len(data) // 2] + data[len(data) // 2 + 1 :],
        "not where it should be",
    ),
    "a byte appended": (lambda data: data + b"\0", "appended"),
    "a newline appended": (lambda data: data + b"\n", "appended"),
    "a newline in front": (lambda data: b"\n" + data, "no bundle"),
    "twice the same": (lambda data: data + data, "not where it should be"),
    "another archive behind it": (lambda data: data + GOLDEN.read_bytes(), "not where"),
    "zeros in the middle": (
        lambda data: data[:4096] + bytes(512) + data[4608:],
        "does not|do not have the seal's hash",
    ),
    "two bytes swapped": (
        lambda data: data[:5000] + data[5001:5002] + data[5000:5001] + data[5002:],
        "seal's hash",
    ),
    "newlines of another system": (
        lambda data: data.replace(b"\n", b"\r\n"),
        "not where it should be",
    ),
    "taken for text": (
        lambda data: data.decode("utf-8", "replace").encode(),
        "no bundle|cut off|not where",
    ),
    "all of it replaced": (lambda data: bytes(len(data)), "no bundle"),
    "text instead": (lambda data: b'{"format":"cnibench-bundle"}', "no bundle"),
} | {
    f"a bit flipped at {at} % of the file": (flipped(at / 100), ".")
    for at in (1, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 97, 98, 99, 100)
}


@pytest.mark.parametrize("name", BYTES)
def test_changed_bytes(name: str, keys: Keys, tmp_path: Path) -> None:
    change, words = BYTES[name]
    assert re.search(words, refusal(tmp_path, change(keys.bundle), keys.signers))


# --- the seal and the signature ---


def reworded(**change: Any) -> Callable[[Keys], bytes]:
    def make(keys: Keys) -> bytes:
        archive = container.packed(FILES)
        seal = msgspec.json.decode(keys.bundle[len(archive) :])
        return commented(archive, msgspec.json.encode(seal | change))

    return make


def commented(archive: bytes, comment: bytes) -> bytes:
    return archive[:-2] + struct.pack("<H", len(comment)) + comment


def signature_as(change: Callable[[str], str]) -> Callable[[Keys], bytes]:
    def make(keys: Keys) -> bytes:
        archive = container.packed(FILES)
        text = msgspec.json.decode(keys.bundle[len(archive) :])["signature"]
        return container.sealed(archive, change(text))

    return make


def in_another_namespace(keys: Keys) -> bytes:
    archive = container.packed(FILES)
    made = process.run(
        ["ssh-keygen", "-Y", "sign", "-n", "file", "-f", str(keys.owner)],
        input=container.message(container.digest(archive)),
        timeout=30,
    )
    return container.sealed(archive, made.stdout)


ARCHIVE = container.packed(FILES)
SEAL: dict[str, tuple[Callable[[Keys], bytes], str]] = {
    "another hash in the seal": (reworded(sha256="0" * 64), "seal's hash"),
    "a seal of a newer version": (reworded(version=2), "newer cnibench"),
    "a seal of version 0": (reworded(version=0), "no seal"),
    "a seal whose version is true": (reworded(version=True), "no seal|seal was changed"),
    "a seal of another format": (reworded(format="zip"), "no seal"),
    "a seal with another key": (reworded(note="trust me"), "seal was changed"),
    "a seal with a blank more": (
        lambda keys: commented(ARCHIVE, keys.bundle[len(ARCHIVE) :].replace(b":", b": ", 1)),
        "seal was changed",
    ),
    "a seal with a key twice": (
        lambda keys: commented(
            ARCHIVE, keys.bundle[len(ARCHIVE) :].replace(b"{", b'{"version":1,', 1)
        ),
        "seal was changed",
    ),
    "no seal": (lambda keys: ARCHIVE, "no seal"),
    "a seal that is no JSON": (lambda keys: commented(ARCHIVE, b"sealed"), "no seal"),
    "a seal nested too deeply": (lambda keys: commented(ARCHIVE, b"[" * 60000), "no seal"),
    "a seal that is a list": (lambda keys: commented(ARCHIVE, b"[]"), "no seal"),
    "the signature removed": (signature_as(lambda text: ""), "not signed"),
    "the signature cut off": (signature_as(lambda text: text[:100]), "cannot be read"),
    "the signature's newlines changed": (
        signature_as(lambda text: text.replace("\n", "\r\n")),
        "cannot be read",
    ),
    "the signature wrapped in another way": (
        signature_as(lambda text: text.replace("\nU1", "\nU1\n", 1)),
        "cannot be read",
    ),
    "a word before the signature": (signature_as(lambda text: "x" + text), "cannot be read"),
    "two signatures": (signature_as(lambda text: text + text), "cannot be read"),
    "a letter of the signature changed": (
        signature_as(lambda text: text.replace(text[250], "A" if text[250] != "A" else "B", 1)),
        "cannot be read|not of these contents",
    ),
    "an endless signature": (signature_as(lambda text: "A" * 50000), "cannot be read"),
    "the signature of other contents": (
        lambda keys: container.sealed(ARCHIVE, signature.sign("other\n", keys.owner)),
        "not of these contents",
    ),
    "a stranger's signature": (lambda keys: signed(FILES, keys.stranger), "not one of"),
    "a signature for another purpose": (in_another_namespace, "not of these contents"),
}


@pytest.mark.parametrize("name", SEAL)
def test_changed_seals(name: str, keys: Keys, tmp_path: Path) -> None:
    make, words = SEAL[name]
    assert re.search(words, refusal(tmp_path, make(keys), keys.signers))


# --- the archive: whoever wrote it knows how to seal it, and does not sign ---


def archive(more: Callable[[zipfile.ZipFile], None], files: Files = FILES) -> bytes:
    buffer = io.BytesIO(container.packed(files))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zipfile, for a name that is there twice
        more(found)
    return container.sealed(buffer.getvalue())


def member(
    name: str, content: bytes = b"x", mode: int = stat.S_IFREG | 0o644, **change: Any
) -> bytes:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.create_system, info.external_attr = 3, mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    for key, value in change.items():
        setattr(info, key, value)
    return archive(lambda found: found.writestr(info, content, compress_type=info.compress_type))


def patched(offset: int, form: str, value: int, *, central: bool) -> bytes:
    """The number of the first file's header there replaced, in the list of files or before it."""
    data = bytearray(container.packed(FILES))
    at = data.index(b"PK\1\2") if central else 0
    struct.pack_into(form, data, at + offset, value)
    return container.sealed(bytes(data))


def between(at: bytes) -> bytes:
    """Some bytes hidden in front of the first ``at`` behind the first file; the list is mended."""
    data = container.packed(FILES)
    place = data.index(at, 4)
    grown = bytearray(data[:place] + b"hidden" + data[place:])
    end = grown.rindex(b"PK\5\6")
    start = struct.unpack_from("<L", grown, end + 16)[0]
    struct.pack_into("<L", grown, end + 16, start + 6)
    return container.sealed(bytes(grown))


def bomb() -> bytes:
    return archive(lambda found: None, FILES | {"zero.jsonl": bytes(24 << 20)})


CONTAINER: dict[str, tuple[Callable[[], bytes], str]] = {
    "a file outside": (lambda: member("../evil.jsonl"), "no file of a bundle"),
    "a file at the root": (lambda: member("/etc/cron.d/evil"), "no file of a bundle"),
    "a file in a folder": (lambda: member("raw/a/0/stdout"), "no file of a bundle"),
    "a backslash in a name": (lambda: member("..\\evil.jsonl"), "no file of a bundle"),
    "a folder": (lambda: member("raw/", b"", stat.S_IFDIR | 0o755), "no file of a bundle"),
    "an unknown file": (lambda: member("README"), "no file of a bundle"),
    "a script's name": (lambda: member("<script>.jsonl"), "no file of a bundle"),
    "a name that turns its direction": (lambda: member("\u202elnosj.x"), "no file of a bundle"),
    "a name of 10 kB": (lambda: member("x" * 10_000 + ".jsonl"), "no file of a bundle"),
    "a name with a zero": (lambda: member("x.jsonl").replace(b"x.jsonl", b"x\0jsonl"), "."),
    "a link": (lambda: member("link.jsonl", b"/etc/passwd", stat.S_IFLNK | 0o777), "link"),
    "a FIFO": (lambda: member("fifo.jsonl", b"", stat.S_IFIFO | 0o644), "link or another special"),
    "a device": (lambda: member("zero.jsonl", b"", stat.S_IFCHR | 0o644), "link or another"),
    "a file of another system": (lambda: member("x.jsonl", create_system=0), "link or another"),
    "a file twice": (lambda: member(SAMPLES, FILES[SAMPLES]), "there twice"),
    "two plans": (lambda: member(PLAN, FILES[PLAN]), "there twice"),
    "bzip2": (lambda: member("x.jsonl", compress_type=zipfile.ZIP_BZIP2), "unknown way"),
    "a comment on a file": (lambda: member("x.jsonl", comment=b"hello"), "hidden|not where"),
    "an extra field": (lambda: member("x.jsonl", extra=b"\x01\x99\0\0"), "hidden"),
    "marked as encrypted": (lambda: patched(8, "<H", 1, central=True), "encrypted"),
    "a size behind the file": (lambda: patched(8, "<H", 8, central=True), "encrypted"),
    "another checksum": (
        lambda: patched(16, "<L", 1, central=True),
        "cannot be read|not an archive",
    ),
    "a longer file than there is": (lambda: patched(24, "<L", 999_999, central=True), "long|read"),
    "a shorter file than there is": (lambda: patched(24, "<L", 10, central=True), "long|read"),
    "a file of 4 GiB": (lambda: patched(24, "<L", 0xFFFFFFFE, central=True), "unpack to"),
    "a file that begins elsewhere": (lambda: patched(42, "<L", 7, central=True), "hidden|read"),
    "another name in front of a file": (
        lambda: patched(30, "<B", 66, central=False),
        "read|hidden",
    ),
    "a hidden field in front of a file": (lambda: patched(28, "<H", 4, central=False), "hidden"),
    "bytes between the files": (lambda: between(b"PK\3\4"), "hidden|read"),
    "bytes behind the files": (lambda: between(b"PK\1\2"), "hidden"),
    "a bomb of zeros": (bomb, "unpack to"),
    "three hundred files": (
        lambda: archive(lambda found: None, FILES | {f"x{n}.jsonl": b"" for n in range(300)}),
        "more than 200 files",
    ),
}


@pytest.mark.parametrize("name", CONTAINER)
def test_changed_archives(name: str, tmp_path: Path) -> None:
    make, words = CONTAINER[name]
    assert re.search(words, refusal(tmp_path, make()))


# --- the contents, under a right seal, without a signature ---


def line(name: str, at: int, **change: Any) -> Callable[[], Files]:
    return lambda: edited(FILES, name, lambda one: one | change, at)


def order(name: str, change: Callable[[list[Record]], list[Record]]) -> Callable[[], Files]:
    return lambda: with_lines(FILES, name, change(lines(FILES, name)))


def without(name: str) -> Callable[[], Files]:
    return lambda: {key: value for key, value in FILES.items() if key != name}


def figure(change: Callable[[list[Any]], None], **more: Any) -> Callable[[], Files]:
    def make() -> Files:
        found = msgspec.json.decode(FILES[container.CONTENTS])["figures"]
        change(found)
        return document(FILES, container.CONTENTS, figures=found, **more)

    return make


def set_row(what: str, at: int, value: Any) -> Callable[[list[Any]], None]:
    def change(found: list[Any]) -> None:
        rows = found[0][what]
        (rows[0] if isinstance(rows, list) else next(iter(rows.values())))[at] = value

    return change


def factor(one: Record, by: float) -> Record:
    return one | {"value": one["value"] and one["value"] * by}


CONTENTS: dict[str, tuple[Callable[[], Files], str]] = {
    "a better value": (line(SAMPLES, 0, value=9e12), "samples.jsonl.*changed"),
    "a value's last digit": (
        lambda: edited(FILES, SAMPLES, lambda one: factor(one, 1 + 1e-15), 3),
        "samples.jsonl.*changed",
    ),
    "a value removed": (line(SAMPLES, 0, value=None), "samples.jsonl.*changed"),
    "a sample deleted": (order(SAMPLES, lambda all: all[1:]), "samples.jsonl.*lost"),
    "the last sample deleted": (order(SAMPLES, lambda all: all[:-1]), "samples.jsonl.*lost"),
    "half of the samples deleted": (order(SAMPLES, lambda all: all[::2]), "samples.jsonl.*lost"),
    "a sample twice": (order(SAMPLES, lambda all: [all[0], *all]), "samples.jsonl.*doubled"),
    "a sample invented": (order(SAMPLES, lambda all: [*all, all[0]]), "samples.jsonl"),
    "samples in another order": (order(SAMPLES, lambda all: all[::-1]), "samples.jsonl"),
    "two samples swapped": (
        order(SAMPLES, lambda all: [all[1], all[0], *all[2:]]),
        "samples.jsonl",
    ),
    "all samples removed": (order(SAMPLES, lambda all: []), "samples.jsonl.*lost"),
    "no file of samples": (without(SAMPLES), "samples.jsonl.*lost"),
    "another label": (line(SAMPLES, 0, label="winner"), "samples.jsonl.*changed"),
    "another metric": (line(SAMPLES, 0, metric="retransmits"), "samples.jsonl.*changed"),
    "another block": (line(SAMPLES, 0, block=99), "samples.jsonl.*lost"),
    "a failure made up": (line(SAMPLES, 0, status="failed"), "samples.jsonl.*changed"),
    "a disturbance made up": (line(SAMPLES, 0, disturbed="noise"), "samples.jsonl.*changed"),
    "another time": (line(SAMPLES, 0, end="2026-01-01T00:00:00.000000Z"), "samples.jsonl.*changed"),
    "a blank in a line": (
        lambda: FILES | {SAMPLES: FILES[SAMPLES].replace(b":", b": ", 1)},
        "samples.jsonl.*changed",
    ),
    "the last newline lost": (lambda: FILES | {SAMPLES: FILES[SAMPLES][:-1]}, "samples.jsonl"),
    "another seed": (lambda: document(FILES, PLAN, seed=1), "plan.json.*changed"),
    "another command": (lambda: document(FILES, PLAN, command=["cnibench"]), "plan.json.*changed"),
    "another run id": (lambda: document(FILES, PLAN, id="other"), "plan.json.*changed"),
    "fewer blocks planned": (lambda: document(FILES, PLAN, blocks=1), "plan.json.*changed"),
    "no cells": (lambda: document(FILES, PLAN, cells=[]), "plan.json.*changed"),
    "no plan": (without(PLAN), "plan.json"),
    "a plan that is no JSON": (lambda: FILES | {PLAN: b"{"}, "plan.json: not JSON"),
    "a plan nested too deeply": (lambda: FILES | {PLAN: b"[" * 100_000}, "plan.json"),
    "a plan of a newer version": (lambda: document(FILES, PLAN, schema=99), "newer cnibench"),
    "a plan without end": (lambda: document(FILES, PLAN, blocks=10**9), "plan.json"),
    "another kernel": (lambda: document(FILES, ENV, kernel="6.99.0"), "env.json.*changed"),
    "another CPU": (lambda: document(FILES, ENV, cpu_model="Intel"), "env.json.*changed"),
    "no environment": (without(ENV), "env.json.*lost"),
    "a second environment": (lambda: FILES | {"env-2.json": FILES[ENV]}, "no event commits it"),
    "the first event deleted": (order(EVENTS, lambda all: all[1:]), "events.jsonl|plan.json"),
    "an event deleted": (order(EVENTS, lambda all: all[:4] + all[5:]), "events.jsonl.*lost"),
    "the last event deleted": (order(EVENTS, lambda all: all[:-1]), "had finished|not finished"),
    "an event twice": (order(EVENTS, lambda all: [*all[:5], *all[4:]]), "events.jsonl.*doubled"),
    "two events swapped": (
        order(EVENTS, lambda all: [*all[:3], all[4], all[3], *all[5:]]),
        "events.jsonl.*(order|lost)",
    ),
    "an event's time": (line(EVENTS, 2, time="2020-01-01T00:00:00Z"), "events.jsonl.*changed"),
    "an event's hash": (line(EVENTS, 2, sha256="0" * 64), "events.jsonl.*changed"),
    "no events": (without(EVENTS), "."),
    "no event but empty": (lambda: FILES | {EVENTS: b""}, "."),
    "events of a newer version": (
        lambda: rechained(edited(FILES, EVENTS, lambda one: one | {"schema": 99}, 3)),
        "newer cnibench",
    ),
    "a run without a chain": (
        lambda: document(
            edited(FILES, EVENTS, lambda one: {"schema": 1, "time": "", "event": "x"}),
            PLAN,
            schema=1,
        ),
        "no chain of hashes",
    ),
    "no seal of the run": (without("seal.json"), "not finished|end is missing"),
    "another seal of the run": (lambda: document(FILES, "seal.json", lines=3), "had finished"),
    "an attestation that passes": (
        line("attestations.jsonl", 0, passed=False),
        "attestations.jsonl.*lost",
    ),
    "other cycles": (line("cpp.jsonl", 0, total=1.0), "cpp.jsonl.*changed"),
    "another stall": (line("stalls.jsonl", 0, others=0.5), "stalls.jsonl.*changed"),
    "a file of lines more": (lambda: FILES | {"extra.jsonl": b"{}\n"}, "no event commits it"),
    "a median of its own": (figure(set_row("labels", 2, 1e12)), "the samples give"),
    "a mean of its own": (figure(set_row("labels", 1, 1e12)), "the samples give"),
    "an interval of its own": (figure(set_row("labels", 3, 1.0)), "the samples give"),
    "more blocks than there are": (figure(set_row("labels", 0, 1000)), "the samples give"),
    "a ratio of its own": (figure(set_row("pairs", 3, 2.0)), "the samples give"),
    "a p of its own": (figure(set_row("pairs", 6, 1e-6)), "the samples give"),
    "a verdict of its own": (figure(set_row("pairs", 8, "b-better-by-far")), "the samples give"),
    "a figure true instead of 1": (figure(set_row("labels", 5, True)), "the samples give"),
    "a figure without a number": (figure(set_row("labels", 2, None)), "the samples give"),
    "a pair left out": (figure(lambda all: all[0]["pairs"].pop()), "the samples give"),
    "a label left out": (figure(lambda all: all[0]["labels"].popitem()), "missing"),
    "a label more": (figure(lambda all: all[0]["labels"].update(x=[])), "not among those"),
    "a place left out": (figure(lambda all: all.pop()), "the samples give"),
    "no figures": (figure(lambda all: all.clear()), "the samples give"),
    "figures of another run": (figure(lambda all: None, run="other"), "is of the run"),
    "figures of an unknown version": (
        figure(lambda all: None, figures_version=7),
        "unknown version",
    ),
    "figures of version 0": (figure(lambda all: None, figures_version=0), "unknown version"),
    "another key beside the figures": (figure(lambda all: None, note="x"), "cannot be read"),
    "figures with a blank more": (
        lambda: FILES | {container.CONTENTS: FILES[container.CONTENTS].replace(b":", b": ", 1)},
        "not written as we write it",
    ),
    "no file of figures": (without(container.CONTENTS), "bundle.json: it cannot be read"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_changed_contents(name: str, tmp_path: Path) -> None:
    make, words = CONTENTS[name]
    assert re.search(words, refusal(tmp_path, put(make())))


# --- the contents with all hashes made again ---


def every(**change: Any) -> Callable[[], Files]:
    return lambda: edited(FILES, SAMPLES, lambda one: one | change)


def of_label(label: str, change: Callable[[Record], Record]) -> Callable[[], Files]:
    return lambda: edited(FILES, SAMPLES, lambda one: change(one) if one["label"] == label else one)


def swapped(one: Record) -> Record:
    other = {"flannel": "cilium", "cilium": "flannel"}
    name = other.get(one["label"], one["label"])
    return one | {"label": name, "profile": name}


RECHAINED: dict[str, tuple[Callable[[], Files], str]] = {
    "one CNI made a hundredth faster": (
        of_label("cilium", lambda one: factor(one, 1.01)),
        "the samples give",
    ),
    "all made faster alike": (
        lambda: edited(FILES, SAMPLES, lambda one: factor(one, 2.0)),
        "the samples give",
    ),
    "two CNIs exchanged": (lambda: edited(FILES, SAMPLES, swapped), "its cell"),
    "bad values marked as disturbed": (
        of_label("flannel", lambda one: one | {"disturbed": "noise"}),
        "the samples give|missing|not among",
    ),
    "other cycles of a component": (
        lambda: edited(FILES, "cpp.jsonl", lambda one: one | {"total": one["total"] / 2}),
        "the samples give",
    ),
    "a testbed that it is not": (every(testbed="cluster"), "says testbed"),
    "a wire that it is not": (every(wire="nic"), "says wire"),
    "a real CNI instead of a model": (every(fidelity="cni"), "fidelity 'cni' is impossible"),
    "a cluster's environment": (
        lambda: document(
            edited(FILES, SAMPLES, lambda one: one | {"testbed": "kind", "wire": "nic"}),
            ENV,
            testbed="kind",
            wire="nic",
        ),
        "impossible in a kind",
    ),
    "another cell's coordinates": (every(placement="intra"), "says placement"),
    "a cell that was not planned": (
        lambda: edited(
            edited(FILES, SAMPLES, lambda one: one | {"cell": "x"}, 0), EVENTS, lambda one: one
        ),
        "no such cell|left out",
    ),
    "other parameters": (every(params={"size": [{}]}), "other parameters"),
    "another unit": (every(unit="kbit/s"), "is no metric"),
    "the worse counted as better": (every(better="lower"), "is no metric"),
    "samples of another day": (
        every(start="2020-01-01T00:00:00.000000Z"),
        "not measured during the run",
    ),
    "samples that end before they begin": (
        every(end="2020-01-01T00:00:00.000000Z"),
        "not measured during the run",
    ),
    "a run of the future": (
        lambda: edited(
            FILES, EVENTS, lambda one: one | {"time": one["time"].replace("20", "29", 1)}
        ),
        "in the future",
    ),
    "a negative rate": (every(value=-1.0), "is -1"),
    "an emulated processor": (
        lambda: document(FILES, ENV, accelerator="tcg"),
        "the processor was emulated",
    ),
    "no virtual machine": (lambda: document(FILES, ENV, virtualisation=""), "no virtual machine"),
    "a kernel of fantasy": (lambda: document(FILES, ENV, kernel="fastest ever"), "no version"),
    "a kernel with a script": (
        lambda: document(FILES, ENV, kernel="<script>alert(1)</script>"),
        "no version of Linux",
    ),
    "more CPUs online than there are": (
        lambda: document(FILES, ENV, cpus=1, cpus_online=64),
        "more CPUs are online",
    ),
    "a negative memory": (lambda: document(FILES, ENV, memory=-1), "no such number"),
    "another architecture": (
        lambda: document(FILES, ENV, architecture="aarch64"),
        "has not the architecture",
    ),
}


@pytest.mark.parametrize("name", RECHAINED)
def test_changes_with_all_hashes_made_again(name: str, tmp_path: Path) -> None:
    make, words = RECHAINED[name]
    assert re.search(words, refusal(tmp_path, put(rechained(make()))))


# --- all hashes and figures made again: only the signature tells ---

CONSISTENT: dict[str, Callable[[], Files]] = {
    "one CNI faster, with its figures": of_label("cilium", lambda one: factor(one, 1.3)),
    "another CPU, in all of it": lambda: document(FILES, ENV, cpu_model="AMD EPYC 9999"),
    "another kernel, in all of it": lambda: document(FILES, ENV, kernel="6.99.0"),
    "another seed, in all of it": lambda: document(FILES, PLAN, seed=7),
    "another command, in all of it": lambda: document(FILES, PLAN, command=["cnibench", "run"]),
    "another origin": lambda: document(
        FILES, container.CONTENTS, origin={"events": 3, "last": "0" * 64}
    ),
    "attestations that all passed": lambda: edited(
        FILES, "attestations.jsonl", lambda one: one | {"observed": one["expected"]}
    ),
}


@pytest.mark.parametrize("name", CONSISTENT)
def test_consistent_changes_have_no_owner(name: str, keys: Keys, tmp_path: Path) -> None:
    changed = refigured(CONSISTENT[name]())
    assert changed != FILES
    seal = msgspec.json.decode(keys.bundle[len(ARCHIVE) :])
    old = refusal(tmp_path, put(changed, seal["signature"]), keys.signers)
    none = refusal(tmp_path, put(changed), keys.signers)
    stranger = refusal(tmp_path, signed(changed, keys.stranger), keys.signers)
    assert ("not of these contents" in old, "not signed" in none, "not one of" in stranger) == (
        True,
        True,
        True,
    )


def test_a_hundred_ways_are_tried() -> None:
    assert sum(map(len, (BYTES, SEAL, CONTAINER, CONTENTS, RECHAINED, CONSISTENT))) >= 100
