"""Mutations of what tools really printed, reproducible by their seed: of bytes, of lines and
numbers, of JSON's structure.
"""

from __future__ import annotations

import copy
import json
import random
import struct
from typing import Any

_NUMBERS = (
    "0",
    "-0",
    "-1",
    "1e999",
    "-1e999",
    "nan",
    "NaN",
    "inf",
    "Infinity",
    "1e-999",
    "9" * 30,
    "1" * 5000,
    "0x10",
    "1_000",
    "٣",
    "²",
    "",
    "18446744073709551615",
    "4294967296",
    "2147483648",
    "1,5",
    "1.5.2",
    ".",
    "-",
    "+5",
    " 5",
    "5 ",
    "1e",
    "true",
    "null",
    "½",
)
_WORDS = (
    "\x00",
    "\x1b]0;x\x07",
    "\u202e",
    "\ud800",
    "\ufffd",
    "..",
    "../../etc/passwd",
    "/",
    "\n",
    "\r",
    "\t",
    "'",
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    ";",
    "#",
    "=",
    "%",
    "*",
    "&a",
    "*a",
    "-",
    "!!python/object:os.system",
    "a" * 10000,
    " ",
    "\x85",
    "\u2028",
)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    -0.0,
    1e308,
    10**400,
    -(10**30),
    2**64,
    float("nan"),
    float("inf"),
    "",
    "0",
    "nan",
    "\ud800",
    "a" * 5000,
    [],
    {},
    [[]],
    {"": {}},
    [None] * 50,
    {"a": 1},
)
_EDGES = (
    0,
    1,
    7,
    8,
    15,
    16,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    2**63,
    2**64 - 1,
)


def of_bytes(data: bytes, at: random.Random) -> bytes:
    """One or several changes of single bytes, words of 2, 4 or 8 bytes, blocks."""
    found = bytearray(data)
    for _ in range(at.choice((1, 1, 1, 2, 4, 16))):
        size = len(found)
        where = at.randrange(size + 1)
        match at.randrange(7):
            case 0 if size:
                found[where % size] = at.randrange(256)
            case 1 if size:
                found[where % size] ^= 1 << at.randrange(8)
            case 2:
                code = at.choice("HIQ")
                word = struct.pack(
                    at.choice("<>") + code,
                    at.choice(_EDGES) & (2 ** (8 * struct.calcsize(f"<{code}")) - 1),
                )
                found[where : where + len(word)] = word
            case 3:
                del found[where : where + at.choice((1, 2, 8, 100))]
            case 4:
                found[where:where] = found[where : where + at.choice((1, 8, 64, 1000))]
            case 5:
                del found[where:]
            case 6:
                found[where:where] = at.randbytes(at.choice((1, 4, 16)))
    return bytes(found)


def of_text(text: str, at: random.Random) -> str:
    """One or several changes of numbers, lines, words, or characters."""
    for _ in range(at.choice((1, 1, 1, 2, 4))):
        match at.randrange(6):
            case 0:
                text = _number(text, at)
            case 1 | 2:
                text = _lines(text, at)
            case 3:
                where = at.randrange(len(text) + 1)
                text = text[:where] + at.choice(_WORDS) + text[where + at.choice((0, 0, 1, 5)) :]
            case 4:
                where = at.randrange(len(text) + 1)
                text = text[:where] + text[where + at.choice((1, 2, 20)) :]
            case 5:
                text = of_bytes(text.encode("utf-8", "surrogatepass"), at).decode(errors="replace")
    return text


def _number(text: str, at: random.Random) -> str:
    """Another number in place of one."""
    where = at.randrange(len(text) + 1)
    begin = next((n for n in range(where, len(text)) if text[n].isdigit()), -1)
    if begin < 0:
        return text
    end = begin
    while end < len(text) and (text[end].isdigit() or text[end] == "."):
        end += 1
    return text[:begin] + at.choice(_NUMBERS) + text[end:]


def _lines(text: str, at: random.Random) -> str:
    lines = text.split("\n")
    one, other = at.randrange(len(lines)), at.randrange(len(lines))
    match at.randrange(6):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case 2:
            lines[one], lines[other] = lines[other], lines[one]
        case 3:
            del lines[one:]
        case 4:
            words = lines[one].split(" ")
            del words[at.randrange(len(words))]
            lines[one] = " ".join(words)
        case 5:
            lines[one] = lines[one] + lines[other]
    return "\n".join(lines)


def of_json(text: str, at: random.Random) -> str:
    """A change of JSON's structure: a value becomes another, keys go, come twice or are exchanged;
    now and then one of its text.
    """
    if at.random() < 0.25:
        return of_text(text, at)
    try:
        data = json.loads(text)
    except ValueError:
        return of_text(text, at)
    for _ in range(at.choice((1, 1, 2, 4))):
        places = list(_places(data))
        if not places:
            break
        where, key = at.choice(places)
        match at.randrange(5):
            case 0 | 1:
                where[key] = copy.deepcopy(at.choice(_VALUES))
            case 2:
                del where[key]
            case 3:
                other, there = at.choice(places)
                where[key] = copy.deepcopy(other[there])
            case 4:
                if isinstance(where, list):
                    where.insert(at.randrange(len(where) + 1), copy.deepcopy(where[key]))
                else:
                    where[at.choice(("", "error", "sum", str(key).upper()))] = copy.deepcopy(
                        where[key]
                    )
    return json.dumps(data) if at.random() > 0.01 else "[" * 100_000


def _places(data: Any) -> Any:
    """(container, key) of everything in it."""
    left = [data]
    while left:
        one = left.pop()
        for key in (
            list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        ):
            yield one, key
            left.append(one[key])
