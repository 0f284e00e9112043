"""``all.results`` of InfraBuilder's benchmark-k8s-cni (2024-01): KEY=value lines, one file for each
repeat of each CNI.

A key is PATH TRANSPORT STREAMS _ WHAT: D direct to the Pod, S through a service; T TCP, U UDP; S
one stream, M eight (IDLE: no traffic). _BW is bit/s, _RTS retransmits, _LOST %, _JITTER ms; CLIENT
and SERVER nodes' _SYSTEM and _USER are cores, their _MEM bytes. Client and server run on two nodes.
A tree PROFILE/REPEAT/all.results becomes one run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cnibench.errors import InputError
from cnibench.importers.batch import Batch, Figure, Given, Result
from cnibench.importers.files import below, readable, text_of
from cnibench.importers.values import figure, lines

_NAME = "all.results"
_TESTS = {
    f"{path}{transport}{streams}": (path, transport, streams)
    for path in "DS"
    for transport in "TU"
    for streams in "SM"
}
_PATHS = {"D": "pod", "S": "clusterip"}
_STREAMS = {"S": 1, "M": 8}
_SIDES = ("CLIENT", "SERVER")
_NODE = (("SYSTEM", "cpu_system"), ("USER", "cpu_user"), ("MEM", "memory"))


def parse(text: str, file: Path) -> dict[str, str]:
    """KEY to the text of its value. Raises InputError naming the line."""
    found: dict[str, str] = {}
    for at, line in lines(text):
        match = re.fullmatch(r"([A-Z][A-Z0-9_]*)=(.*)", line)
        if not match:
            raise InputError(
                f"{file}, line {at}: expected KEY=value, got {line[:60]!r}",
                "take an all.results of benchmark-k8s-cni",
            )
        if match[1] in found:
            raise InputError(
                f"{file}, line {at}: {match[1]} occurs twice", "import one repeat of one CNI a file"
            )
        found[match[1]] = match[2].strip()
    if not any(key.startswith((*(f"{test}_" for test in _TESTS), "IDLE_")) for key in found):
        raise InputError(
            f"{file}: none of the keys of benchmark-k8s-cni is in it (DTS_BW, STM_BW, ...)",
            "check that this is the right file",
        )
    return found


def not_run(values: dict[str, str]) -> list[str]:
    """The tests of which the file has no key at all. One that failed has its keys without values
    (bench.sh writes them in any case).
    """
    return [test for test in _TESTS if not any(key.startswith(f"{test}_") for key in values)]


def results(values: dict[str, str], label: str, repeat: int, file: Path) -> list[Result]:
    """One result for each test that was run; one whose bandwidth is missing, null or blank
    failed.
    """
    found = []
    common: dict[str, Any] = {
        "label": label,
        "placement": "inter",
        "file": file,
        "fidelity": "cni",
        "repeat": repeat,
    }
    skipped = not_run(values)
    for test, (path, transport, streams) in _TESTS.items():
        if test in skipped:
            continue
        where = common | {
            "workload": "iperf3-tcp" if transport == "T" else "iperf3-udp",
            "params": {"streams": _STREAMS[streams]},
            "path": _PATHS[path],
        }
        speed = figure("throughput", values.get(f"{test}_BW"), f"{test}_BW")
        if not speed.value:
            found.append(Result(**where, figures=(), reason=speed.reason or f"{test}_BW is 0"))
            continue
        extra = (
            figure("retransmits", values.get(f"{test}_RTS"), f"{test}_RTS")
            if transport == "T"
            else figure("loss", values.get(f"{test}_LOST"), f"{test}_LOST", 0.01)
        )
        found.append(Result(**where, figures=(speed, extra, *_nodes(values, test))))
    if any(key.startswith("IDLE_") for key in values):
        idle = common | {"workload": "idle", "params": {}, "path": "pod"}
        found.append(Result(**idle, figures=_nodes(values, "IDLE")))
    return found


def _nodes(values: dict[str, str], test: str) -> tuple[Figure, ...]:
    return tuple(
        figure(
            metric, values.get(f"{test}_{side}_{what}"), f"{test}_{side}_{what}", node=side.lower()
        )
        for side in _SIDES
        for what, metric in _NODE
    )


class Infrabuilder:
    """Reads one all.results, or a tree of them."""

    name = "infrabuilder"
    title = (
        "all.results of InfraBuilder/benchmark-k8s-cni: a file, or a tree"
        " PROFILE/REPEAT/all.results"
    )

    def read(self, path: Path, given: Given) -> Batch:
        found = [file for file in below(path, (_NAME,)) if file == path or file.name == _NAME]
        if not found:
            raise InputError(
                f"{path}: no {_NAME} below it",
                "name the folder above PROFILE/REPEAT/all.results, or one such file",
            )
        places = [_place(file) for file in found]
        order = {
            name: i for i, name in enumerate(sorted({repeat for _, repeat in places}, key=_natural))
        }
        if len({(given.label or label, repeat) for label, repeat in places}) < len(places):
            raise InputError(
                f"{path}: two files are the same repeat of one CNI",
                "one tree PROFILE/REPEAT/all.results is one run",
            )
        batch = Batch(path, given, facts={"source": "InfraBuilder/benchmark-k8s-cni"})
        for file, (label, repeat) in zip(found, places, strict=True):
            values = parse(text_of(file, path), file)
            batch.add(results(values, given.label or label, order[repeat], file))
            batch.not_run += [(given.label or label, test) for test in not_run(values)]
            _note(batch, values)
        batch.note(
            "every CNI was measured by itself: repeats of the same number are combined into"
            " one block"
        )
        batch.note(
            "figures of a node are of all that ran on it; jitter is left out, there is no metric"
            " for it"
        )
        return batch


def _place(file: Path) -> tuple[str, str]:
    """(profile, repeat): the two folders that the file lies in."""
    above = file.absolute().parents
    return readable(above[1].name if len(above) > 1 else ""), above[0].name or "1"


def _natural(name: str) -> tuple[int, int, str]:
    return (0, int(name), "") if name.isdecimal() and len(name) < 10 else (1, 0, name)


def _note(batch: Batch, values: dict[str, str]) -> None:
    ends = ("_BW", "_RTS", "_LOST", "_JITTER", *(f"_{what}" for what, _ in _NODE))
    strange = sorted(
        key
        for key in values
        if not key.startswith((*(f"{test}_" for test in _TESTS), "IDLE_")) or not key.endswith(ends)
    )
    if strange:
        batch.note(f"left out, unknown: {', '.join(strange[:8])}")


PROVIDER = Infrabuilder()
