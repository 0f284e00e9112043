"""A bundle's seal or signature that was changed, removed, or made by somebody else."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.reports.bundle import container, signature
from cnibench.system import process
from tests.unit._bundles import refusal
from tests.unit._tampering import ARCHIVE, FILES, Keys, signed


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


SEAL: dict[str, tuple[Callable[[Keys], bytes], str]] = {
    "another hash in the seal": (reworded(sha256="0" * 64), "seal's hash"),
    "a seal of a newer version": (reworded(version=3), "newer cnibench"),
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
        signature_as(lambda text: text[:250] + ("A" if text[250] != "A" else "B") + text[251:]),
        "cannot be read|does not match the contents",
    ),
    "an endless signature": (signature_as(lambda text: "A" * 50000), "cannot be read"),
    "the signature of other contents": (
        lambda keys: container.sealed(ARCHIVE, signature.sign("other\n", keys.owner)),
        "does not match the contents",
    ),
    "a stranger's signature": (lambda keys: signed(FILES, keys.stranger), "not one of"),
    "a signature for another purpose": (in_another_namespace, "does not match the contents"),
}


@pytest.mark.parametrize("name", SEAL)
def test_changed_seals(name: str, keys: Keys, tmp_path: Path) -> None:
    make, words = SEAL[name]
    assert re.search(words, refusal(tmp_path, make(keys), keys.signers))
