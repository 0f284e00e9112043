"""Bytes of a signed bundle that were changed without any knowledge of the format."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit._bundles import GOLDEN, refusal
from tests.unit._tampering import Keys


def flipped(at: float) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        place = int(at * (len(data) - 1))
        return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]

    return change


BYTES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty file": (lambda data: b"", "not a bundle"),
    "first byte lost": (lambda data: data[1:], "not a bundle"),
    "last byte lost": (lambda data: data[:-1], "cut off"),
    "last kilobyte lost": (lambda data: data[:-1024], "cut off"),
    "second half lost": (lambda data: data[: len(data) // 2], "cut off"),
    "a byte lost in the middle": (
        lambda data: data[: len(data) // 2] + data[len(data) // 2 + 1 :],
        "not where it should be",
    ),
    "a byte appended": (lambda data: data + b"\0", "appended"),
    "a newline appended": (lambda data: data + b"\n", "appended"),
    "a newline in front": (lambda data: b"\n" + data, "not a bundle"),
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
        "not a bundle|cut off|not where",
    ),
    "all of it replaced": (lambda data: bytes(len(data)), "not a bundle"),
    "text instead": (lambda data: b'{"format":"cnibench-bundle"}', "not a bundle"),
} | {
    f"a bit flipped at {at} % of the file": (flipped(at / 100), ".")
    for at in (1, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 97, 98, 99, 100)
}


@pytest.mark.parametrize("name", BYTES)
def test_changed_bytes(name: str, keys: Keys, tmp_path: Path) -> None:
    change, words = BYTES[name]
    assert re.search(words, refusal(tmp_path, change(keys.bundle), keys.signers))
