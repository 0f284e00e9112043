"""Results of knb (InfraBuilder/k8s-bench-suite, knb 1.5.0): the output of ``-o json``, ``-o yaml``
and ``-o data`` (a .tar.gz, usually called .knbdata).

Bandwidths are Mbit/s that iperf3's receiver counted with one stream; memory is the mean of ``free
-m`` in MiB; CPU is a share of all CPUs of a node, whose number is not recorded, and is left out.
knb leaves a figure that it could not collect blank, which is no JSON, and ends some objects with a
comma. A test that was not chosen (``-ot``) has no part in JSON and YAML and a blank name in the
data.
"""

from __future__ import annotations

import io
import re
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cnibench.errors import InputError
from cnibench.importers.batch import Batch, Given, Result, placement_of
from cnibench.importers.files import content_of, decoded, files, label_of
from cnibench.importers.values import figure, json_of, mapping, moment, mtu_of
from cnibench.model.profile import parse_yaml

_TESTS = {  # part of the document: (path, workload, the name of its Pod in the data)
    ("idle", ""): ("pod", "idle", "IDLE_POD_NAME"),
    ("pod2pod", "tcp"): ("pod", "iperf3-tcp", "CLIENT_TCP_P2P_POD_NAME"),
    ("pod2pod", "udp"): ("pod", "iperf3-udp", "CLIENT_UDP_P2P_POD_NAME"),
    ("pod2svc", "tcp"): ("clusterip", "iperf3-tcp", "CLIENT_TCP_P2S_POD_NAME"),
    ("pod2svc", "udp"): ("clusterip", "iperf3-udp", "CLIENT_UDP_P2S_POD_NAME"),
}
_ENDINGS = (".json", ".yaml", ".yml", ".knbdata", ".tar.gz", ".tgz")
_GZIP = b"\x1f\x8b"
_LARGEST = 16 << 20  # bytes of an archive's contents
_LARGEST_TEXT = 1 << 20  # bytes of JSON or YAML, of which knb writes a few thousand
_MOST_MEMBERS = 1000
_MIB = 2.0**20
_MEMBER = 1 << 20  # bytes of one file in it


def parse(content: bytes, file: Path) -> Mapping[str, Any]:
    """The document that ``-o json`` would have printed. Raises InputError."""
    if content.startswith(_GZIP):
        found: Any = _of_data(_members(content, file))
    elif len(content) > _LARGEST_TEXT:
        raise InputError(
            f"{file}: larger than {_LARGEST_TEXT} bytes", "check that this is the right file"
        )
    else:
        text = decoded(content, file)
        found = _of_json(text, file) if text.lstrip()[:1] == "{" else parse_yaml(text, file)
    metadata = mapping(mapping(found).get("metadata"))
    if metadata.get("generator") != "knb" or not any(_part(found, *test) for test in _TESTS):
        raise InputError(
            f"{file}: no results of knb in it", "make them with: knb -o json, -o yaml or -o data"
        )
    return mapping(found)


def _of_json(text: str, file: Path) -> Any:
    """knb's JSON, blank figures as null and without commas before a closing brace."""
    try:
        return json_of(text, file)
    except InputError as error:
        mended = re.sub(r'("(?:bandwidth|ram)":)[ \t]*(?=,?\n)', r"\1 null", text)
        try:
            return json_of(re.sub(r",(?=\s*\})", "", mended), file)
        except InputError:
            raise error from None


def _members(content: bytes, file: Path) -> dict[str, str]:
    """Name to text of the regular files of an archive. Raises InputError."""
    try:
        plain = zlib.decompressobj(31).decompress(content, _LARGEST + 1)
        if len(plain) > _LARGEST:
            raise ValueError("it is too large")
        found: dict[str, str] = {}
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            for member in archive:
                if len(found) >= _MOST_MEMBERS or member.size > _MEMBER:
                    raise ValueError("it has too many or too large files")
                if member.isreg() and (data := archive.extractfile(member)):
                    name = member.name.removeprefix("./")
                    found[name] = data.read(_MEMBER).decode(errors="replace")
        return found
    except (
        tarfile.TarError,
        zlib.error,
        EOFError,
        OSError,
        ValueError,
        OverflowError,
        RecursionError,
    ) as error:
        raise InputError(
            f"{file}: not the archive of knb -o data: {str(error)[:100]}", "use the complete file"
        ) from None


def _of_data(members: Mapping[str, str]) -> dict[str, Any]:
    """The document out of the files of the data."""
    env = dict(re.findall(r'^([A-Z0-9_]+)="(.*)"$', members.get("env", ""), re.M))
    data: dict[str, Any] = {
        name: members.get(name, "").strip() for name in ("cpu", "kernel", "k8s-version", "mtu")
    }
    for (section, transport), (_, _, variable) in _TESTS.items():
        if not (pod := env.get(variable)):
            continue
        part: dict[str, Any] = {"bandwidth": members.get(f"{pod}.bw", "").strip()}
        for side in ("client", "server"):
            rows = members.get(f"{pod}-{side}.avg", "").splitlines()
            means = rows[1].split() if len(rows) > 1 else []
            part[side] = {"ram": means[5] if len(means) > 5 else None}
        if transport:
            data.setdefault(section, {})[transport] = part
        else:
            data[section] = part
    names = {
        "name": "BENCHMARK_RUN_NAME",
        "generator": "GENERATOR",
        "date": "BENCHMARK_DATE",
        "server-node": "SERVER_NODE",
        "client-node": "CLIENT_NODE",
        "socket-buffer-size": "SOCKET_BUFFER_SIZE",
    }
    return {"metadata": {key: env.get(name, "") for key, name in names.items()}, "data": data}


def _part(document: Any, section: str, transport: str) -> Mapping[str, Any]:
    found = mapping(mapping(mapping(document).get("data")).get(section))
    return mapping(found.get(transport)) if transport else found


def results(document: Mapping[str, Any], file: Path, label: str, given: Given) -> list[Result]:
    """One result for each test that was run. Raises UsageError when nothing tells the placement."""
    about = mapping(document.get("metadata"))
    placement = placement_of(given, "knb", about.get("server-node"), about.get("client-node"))
    window = str(about.get("socket-buffer-size") or "auto")[:60]
    found = []
    for test, (path, workload, _) in _TESTS.items():
        if not (part := _part(document, *test)):
            continue
        idle = workload == "idle"
        params: dict[str, Any] = {} if idle else {"streams": 1}
        if workload == "iperf3-udp" and window != "auto":
            params["window"] = window
        speed = figure("throughput", part.get("bandwidth"), "bandwidth", 1e6)
        memory = tuple(
            figure("memory", mapping(part.get(side)).get("ram"), f"ram of {side}", _MIB, node=side)
            for side in ("client", "server")
        )
        main = memory if idle else (speed,)
        reason = "" if any(one.value for one in main) else main[0].failure
        found.append(
            Result(
                label=label,
                placement=placement,
                workload=workload,
                params=params,
                figures=() if reason else memory if idle else (speed, *memory),
                file=file,
                reason=reason,
                path=path,
                fidelity="cni",
                mtu=mtu_of(mapping(document.get("data")).get("mtu")),
                start=moment(about.get("date")),
            )
        )
    return found


class Knb:
    """Reads one file, or those of a folder."""

    name = "knb"
    title = "knb's -o json, yaml or data: a file, or a folder of them (PROFILE/*)"

    def read(self, path: Path, given: Given) -> Batch:
        batch = Batch(path, given, facts={"source": "knb"})
        for file in files(path, _ENDINGS):
            label = label_of(file, path, given)
            document = parse(content_of(file, path), file)
            batch.add(results(document, file, label, given))
            batch.not_run += [
                (label, " ".join(test).strip()) for test in _TESTS if not _part(document, *test)
            ]
            data = mapping(document.get("data"))
            batch.facts_of(data, kernel="kernel", cpu_model="cpu", kubernetes="k8s-version")
        batch.note("CPU shares of knb are left out, for the number of CPUs is not recorded")
        batch.note("the times are those at which knb began")
        return batch


PROVIDER = Knb()
