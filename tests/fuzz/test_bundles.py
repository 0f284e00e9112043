"""Bundles of somebody who changes anything in one and makes all hashes and figures again: each is
accepted or refused with a reason, and the board shows what is accepted.
"""

from __future__ import annotations

import os
import random
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cnibench.errors import CnibenchError
from cnibench.reports.board import entry
from cnibench.reports.board.data import board_data
from cnibench.reports.bundle.verifying import verified
from tests.unit._bundles import GOLDEN, Files, lines, parts, put, rechained, refigured

SEED = int(os.environ.get("CNIBENCH_FUZZ_SEED", "1"))
SECONDS = float(os.environ.get("CNIBENCH_FUZZ_SECONDS", "6"))
ORIGINAL = refigured(parts(GOLDEN.read_bytes()))
NAMES = sorted(set(ORIGINAL) - {"seal.json"})
STRANGE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1e308, 5e-324, -0.0, 2**70, "", " ", "x" * 10_000, "nan"),
    *("\u202e</script>", "2026-01-01T00:00:00Z", [], {}, [[]], ["x"], [None], {"a": {"b": [1]}}),
)


def changed(value: Any, rng: random.Random) -> Any:
    """The same with one part of it lost, doubled or replaced."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key, chance = rng.choice(list(value)), rng.random()
        if chance < 0.1:
            return {name: one for name, one in value.items() if name != key}
        if chance < 0.15:
            return {**value, rng.choice(["x", "\u202e", "name"]): rng.choice(STRANGE)}
        return {**value, key: changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at, chance = rng.randrange(len(value)), rng.random()
        if chance < 0.1:
            return value[:at] + value[at + 1 :]
        if chance < 0.2:
            return [*value, value[at]]
        return [*value[:at], changed(value[at], rng), *value[at + 1 :]]
    return rng.choice(STRANGE)


def mutated(rng: random.Random) -> Files:
    files = dict(ORIGINAL)
    for _ in range(rng.choice([1, 1, 2, 4])):
        name = rng.choice(NAMES)
        if name.endswith(".json"):
            new = changed(msgspec.json.decode(files[name]), rng)
            files[name] = msgspec.json.encode(new)
            continue
        found = [one for one in lines(files, name) if isinstance(one, dict) and one]
        if found and rng.random() < 0.3:
            key, value = rng.choice(list(rng.choice(found))), rng.choice(STRANGE)
            found = [{**one, key: value} for one in found]
        elif found:
            at = rng.randrange(len(found))
            found[at] = changed(found[at], rng)
        files[name] = b"".join(msgspec.json.encode(one) + b"\n" for one in found)
    # what cannot be made again, because too much of it is gone, is tried as it is
    with suppress(AttributeError, LookupError, TypeError, ValueError, CnibenchError):
        files = rechained(files)
        if rng.random() < 0.7:
            files = refigured(files)
    return files


@pytest.mark.timeout(SECONDS * 2 + 300)
def test_whatever_a_bundle_says_it_is_accepted_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.cnibench"
    end, number, accepted = time.monotonic() + SECONDS, 0, 0
    while time.monotonic() < end or number < 20:
        number += 1
        path.write_bytes(put(mutated(random.Random(f"{SEED} {number}"))))
        try:
            with verified(path) as (found, reader, analysis):
                if found.problems:
                    continue
                assert analysis is not None
                shown = entry.of(found, reader, analysis)
                board_data([(cast(Any, SimpleNamespace(testbed="t")), shown, "page")])
                accepted += 1
        except CnibenchError:
            continue
        except Exception as error:
            pytest.fail(f"mutation {SEED} {number}: {type(error).__name__}: {error}")
    assert 0 < accepted < number
