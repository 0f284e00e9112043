"""Results of cloud-bulldozer/k8s-netperf: the documents of ``--json`` and ``result-*.csv`` (its
pkg/archive/archive.go).

Each document or row is the mean of several samples of that tool, and counts as one measurement
here. Its documents carry a field ``local`` that versions before May 2026 never set: where it is
false, the placement comes from the nodes' names if it gives them, else from the user. It writes 0
for what it could not collect: such a zero is a missing value.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cnibench.errors import InputError
from cnibench.importers.batch import Batch, Figure, Given, Result, placement_of
from cnibench.importers.files import files, label_of, text_of
from cnibench.importers.values import json_of, json_values, mapping, moment, mtu_of, number, whole

_PROFILES = {
    "TCP_STREAM": "tcp-stream",
    "UDP_STREAM": "udp-stream",
    "TCP_RR": "tcp-rr",
    "TCP_CRR": "tcp-crr",
    "UDP_RR": "udp-rr",
    "UDP_CRR": "udp-crr",
    "TCP_STREAM_LAT": "tcp-stream-lat",
    "SCTP_STREAM": "sctp-stream",
    "SCTP_RR": "sctp-rr",
    "SCTP_CRR": "sctp-crr",
}
_COLUMNS = {
    "Driver": "driver",
    "Profile": "profile",
    "Same node": "local",
    "Host Network": "hostNetwork",
    "VM mode": "virt",
    "Service": "service",
    "External Server": "externalServer",
    "UDN Info": "udnInfo",
    "Bridge Info": "bridgeInfo",
    "SR-IOV Info": "sriovInfo",
    "Macvlan Info": "macvlanInfo",
    "Localnet Info": "localnetInfo",
    "Duration": "duration",
    "Parallelism": "parallelism",
    "# of Samples": "samples",
    "Message Size": "messageSize",
    "Burst": "burst",
    "Avg Throughput": "throughput",
    "Throughput Metric": "tputMetric",
    "99%tile Observed Latency": "latency",
    "Latency Metric": "ltcyMetric",
}
# Fields that name another network than the cluster's own, and what they are called as parameters.
_NETWORKS = {
    "udnInfo": "udn",
    "bridgeInfo": "bridge",
    "sriovInfo": "sriov",
    "macvlanInfo": "macvlan",
    "localnetInfo": "localnet",
    "virt": "virt",
    "externalServer": "external_server",
    "acrossAZ": "across_az",
}
_ABSENT: tuple[object, ...] = (None, False, "", {}, [])
_NEEDED = ("Driver", "Profile", "Same node", "Avg Throughput", "Throughput Metric")


def parse_json(text: str, file: Path) -> list[Mapping[str, Any]]:
    """The documents: one JSON array, or one after the other. Raises InputError."""
    if text.lstrip()[:1] == "{":
        found: Any = list(json_values(text, file))
    else:
        found = json_of(text, file)
    if not isinstance(found, list) or not found:
        raise InputError(
            f"{file}: expected an array of documents", "make it with: k8s-netperf --json"
        )
    for at, one in enumerate(found, 1):
        if not isinstance(one, dict) or not {"driver", "profile", "throughput"} <= one.keys():
            raise InputError(
                f"{file}, document {at}: it has no driver, profile and throughput",
                "make it with: k8s-netperf --json",
            )
    return list(found)


def parse_csv(text: str, file: Path) -> list[Mapping[str, Any]]:
    """The rows, with the documents' keys. Raises InputError naming the line."""
    rows = csv.reader(io.StringIO(text, newline=""))
    found: list[Mapping[str, Any]] = []
    try:
        heads = [head.strip() for head in next(rows, [])]
        if missing := [name for name in _NEEDED if name not in heads]:
            raise InputError(
                f"{file}, line 1: no column '{missing[0]}'",
                "take the result-*.csv of k8s-netperf, not its cpu or pod files",
            )
        for row in rows:
            if not row:
                continue
            if len(row) != len(heads):
                raise InputError(
                    f"{file}, line {rows.line_num}: {len(row)} fields, expected {len(heads)}",
                    "use the complete file",
                )
            cells = {
                _COLUMNS[head]: cell.strip()
                for head, cell in zip(heads, row, strict=True)
                if head in _COLUMNS
            }
            truth = {
                key: _truth(cells.get(key, "false"), file, rows.line_num)
                for key in ("local", "hostNetwork", "service", "virt", "externalServer")
            }
            found.append({**cells, **truth, "has_placement": True})
    except csv.Error as error:
        raise InputError(
            f"{file}, line {rows.line_num}: {error}", "check that this is the right file"
        ) from None
    if not found:
        raise InputError(f"{file}: no row below the heading", "check that the file is complete")
    return found


def _truth(word: str, file: Path, line: int) -> bool:
    if word.lower() not in ("true", "false"):
        raise InputError(
            f"{file}, line {line}: expected true or false, got {word[:30]!r}",
            "check that this is the right file",
        )
    return word.lower() == "true"


def result(one: Mapping[str, Any], file: Path, label: str, given: Given) -> Result:
    """One measurement. Raises InputError for a test that is unknown, UsageError when nothing tells
    the placement.
    """
    test, driver = str(one["profile"]), str(one["driver"])
    if test not in _PROFILES:
        raise InputError(
            f"{file}: the test '{test[:60]}' is unknown", f"known: {', '.join(_PROFILES)}"
        )
    figures, reason = _figures(one, test)
    began = moment(one.get("timestamp"))
    host = one.get("hostNetwork") is True
    return Result(
        label=label,
        placement=_placement(one, given),
        workload=_workload(driver, test),
        params=_params(one, test),
        figures=figures,
        file=file,
        reason=reason,
        path="host" if host else "clusterip" if _through_service(one) else "pod",
        fidelity="baseline" if host else "cni",
        mtu=mtu_of(mapping(one.get("metadata")).get("mtu")),
        start=began,
        end=began,
        duration=number(one.get("duration")) or 0.0,
    )


def _through_service(one: Mapping[str, Any]) -> bool:
    """An external server and a localnet are met directly, whatever ``service`` says
    (cmd/k8s-netperf/k8s-netperf.go, executeWorkload).
    """
    direct = one.get("externalServer") is True or one.get("localnetInfo") not in _ABSENT
    return one.get("service") is True and not direct


def _workload(driver: str, test: str) -> str:
    name = _PROFILES[test]
    if driver == "iperf3" and test.endswith("STREAM"):
        return "iperf3-tcp" if test.startswith("TCP") else "iperf3-udp"
    return name if driver == "netperf" else f"{driver[:40]}-{name}"


def _params(one: Mapping[str, Any], test: str) -> dict[str, Any]:
    message = whole(one.get("messageSize"))
    found: dict[str, Any] = (
        {"request": message, "response": message} if test.endswith("RR") else {"message": message}
    )
    found["streams"] = whole(one.get("parallelism")) or 1
    if burst := whole(one.get("burst")):
        found["burst"] = burst
    return found | _network(one)


def _network(one: Mapping[str, Any]) -> dict[str, Any]:
    """Which network it was, beside the cluster's own Pod network: figures of different networks are
    different figures.
    """
    found = {name: one.get(key) for key, name in _NETWORKS.items()}
    return {
        name: value if isinstance(value, str | bool) else _text(value)
        for name, value in found.items()
        if value not in _ABSENT
    }


def _text(value: object) -> str:
    """What is no word, as one: its JSON, or a hash of that where it is long."""
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 200 else hashlib.sha256(text.encode()).hexdigest()


def _placement(one: Mapping[str, Any], given: Given) -> str:
    if one.get("local") is True:
        return "intra"
    if one.get("has_placement"):
        return "inter"
    sides = ("clientNodeInfo", "serverNodeInfo")
    return placement_of(
        given, "k8s-netperf", *(mapping(one.get(side)).get("nodeName") for side in sides)
    )


def _figures(one: Mapping[str, Any], test: str) -> tuple[tuple[Figure, ...], str]:
    """(figures, '') or (none, why)."""
    rate, unit = number(one.get("throughput")), str(one.get("tputMetric", ""))
    if not rate:
        return (
            (),
            (
                "the throughput is 0, which k8s-netperf writes for what it could not collect"
                if rate == 0
                else "the throughput is missing"
            ),
        )
    found = []
    driver = one["driver"]
    if unit == "Mb/s":
        # ib_write_bw's are MiB/s, whatever the document calls them (pkg/drivers/ibwritebw.go)
        found.append(Figure("throughput", rate * (8 * 2**20 if driver == "ib_write_bw" else 1e6)))
    elif unit == "OP/s":
        found.append(Figure("transaction_rate", rate))
    else:
        return (), f"the unit of the throughput is '{unit[:30]}', expected Mb/s or OP/s"
    if (
        test.endswith("RR")
        and driver != "uperf"  # its 99th percentile is one of means over a second
        and (latency := number(one.get("latency")))
        and one.get("ltcyMetric") == "usec"
    ):
        found.append(Figure("latency_p99", latency * 1e-6))
    if test == "TCP_STREAM" and (retransmits := number(one.get("tcpRetransmits"))):
        found.append(Figure("retransmits", retransmits))
    if test == "UDP_STREAM" and (lost := number(one.get("udpLossPercent"))) and lost <= 100:
        found.append(Figure("loss", lost / 100))
    return tuple(found), ""


class K8sNetperf:
    """Reads .json and .csv files, or those of a folder."""

    name = "k8s-netperf"
    title = "k8s-netperf's --json output or result-*.csv: a file, or a folder of them (PROFILE/*)"

    def read(self, path: Path, given: Given) -> Batch:
        batch = Batch(path, given, facts={"source": "k8s-netperf"})
        for file in files(path, (".json", ".csv")):
            if path.is_dir() and file.suffix == ".csv" and not file.name.startswith("result-"):
                batch.note("left out: k8s-netperf's files of CPU and memory")
                continue
            text = text_of(file, path)
            documents = (
                parse_json(text, file) if text.lstrip()[:1] in ("[", "{") else parse_csv(text, file)
            )
            for one in documents:
                found = result(one, file, label_of(file, path, given), given)
                batch.add([found])
                batch.duration = batch.duration or (number(one.get("duration")) or 0.0)
                batch.facts_of(
                    mapping(one.get("metadata")),
                    kernel="kernel",
                    kubernetes="k8sVersion",
                    platform="platform",
                    network="sdnType",
                )
        batch.note(
            "each figure is the mean of several samples of k8s-netperf; its CPU shares are left"
            " out, for the number of CPUs is not recorded"
        )
        if any(one.workload.startswith("uperf-") for one in batch.results):
            batch.note("uperf's latencies are left out: they are of means over one second")
        batch.note(
            "retransmits and loss of 0 are left out: k8s-netperf writes 0 also for what it could"
            " not collect"
        )
        return batch


PROVIDER = K8sNetperf()
