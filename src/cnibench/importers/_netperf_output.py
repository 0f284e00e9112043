"""What netperf prints, as selectors (THROUGHPUT, P99_LATENCY, ...) and their values: keywords
(``-k``), CSV (``-o``), columns (``-O``, and the omni test's default) and the classic tables, with a
banner or without one (``-P 0``).
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from itertools import pairwise

_BANNER = re.compile(r"(?:MIGRATED )?(.+?) TEST from \S.*\bAF_INET(6?)\b")
_KEYWORD = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)")
_FIGURES = re.compile(r"[-\d.\s]+")
_UNIT = re.compile(r"(?:10\^\d+bits|[KMG]?Bytes)(?=\s*/s)")
_HEADS = 4  # lines of headings above a line of columns

# The headings of CSV and columns are the descriptions of the selectors (netperf 2.7,
# src/nettest_omni.c).
HEADINGS = {
    "Throughput": "THROUGHPUT",
    "Throughput Units": "THROUGHPUT_UNITS",
    "Elapsed Time (sec)": "ELAPSED_TIME",
    "Transaction Rate Tran/s": "TRANSACTION_RATE",
    "Mean Latency Microseconds": "MEAN_LATENCY",
    "50th Percentile Latency Microseconds": "P50_LATENCY",
    "90th Percentile Latency Microseconds": "P90_LATENCY",
    "99th Percentile Latency Microseconds": "P99_LATENCY",
    "Request Size Bytes": "REQUEST_SIZE",
    "Response Size Bytes": "RESPONSE_SIZE",
    "Initial Burst Requests": "BURST_SIZE",
    "Local Send Size": "LOCAL_SEND_SIZE",
    "Remote Send Size": "REMOTE_SEND_SIZE",
    "Local Send Calls": "LOCAL_SEND_CALLS",
    "Remote Recv Calls": "REMOTE_RECV_CALLS",
    "Remote Recv Throughput": "REMOTE_RECV_THROUGHPUT",
    "Local Transport Retransmissions": "LOCAL_TRANSPORT_RETRANS",
    "Protocol": "PROTOCOL",
    "Direction": "DIRECTION",
    "Command Line": "COMMAND_LINE",
}


@dataclass
class Block:
    """The lines below one banner, '' and 0 for what it does not say; a text without banners is one
    block.
    """

    test: str
    ip: int
    line: int
    burst: int = 0
    text: list[str] = field(default_factory=list)

    @property
    def said(self) -> list[str]:
        """The lines that are not blank, without blanks around them."""
        return [line.strip() for line in self.text if line.strip()]


def blocks(text: str) -> list[Block]:
    """The blocks of a text. What precedes the first banner is not netperf's output."""
    found: list[Block] = []
    lines = text.split("\n")
    for at, line in enumerate(lines, 1):
        if match := _BANNER.match(line.strip()):
            burst = re.search(r": first burst (\d{1,9})\s*$", line)
            ip = 6 if match[2] else 4
            found.append(Block(match[1].upper(), ip, at, int(burst[1]) if burst else 0))
        elif found:
            found[-1].text.append(line)
    return found or ([Block("", 0, 1, text=lines)] if text.strip() else [])


def values(block: Block) -> list[dict[str, str]]:
    """The values of each measurement in a block; none where they have no names, as in a classic
    table. Below one banner there are several where netperf went on with -P 0.
    """
    return _keywords(block.said) or _table(block.said) or _columns(block.text)


def _keywords(text: list[str]) -> list[dict[str, str]]:
    """A keyword that comes once more begins another measurement."""
    found: list[dict[str, str]] = []
    for line in text:
        if match := _KEYWORD.fullmatch(line):
            if not found or match[1] in found[-1]:
                found.append({})
            found[-1][match[1]] = match[2].strip()
    return found


def _table(text: list[str]) -> list[dict[str, str]]:
    """The lines of CSV below the first heading line, which may be all that is left of the first of
    them.
    """
    for at, heading in enumerate(text[:-1]):
        names = [name.strip() for name in heading.split(",")]
        if not any(name in HEADINGS for name in names):
            continue
        rows = map(_cells, text[at + 1 :])
        return [
            {
                HEADINGS[name]: cell.strip()
                for name, cell in zip(names, row, strict=False)
                if name in HEADINGS
            }
            for index, row in enumerate(rows)
            if not index or len(row) == len(names)
        ]
    return []


def _cells(line: str) -> list[str]:
    """Of a row of CSV; none where it is no such row: it has a lone carriage return, say."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _columns(text: list[str]) -> list[dict[str, str]]:
    """Headings of several lines, each above its value and beginning in the same column."""
    found = []
    for at, line in enumerate(text):
        row = {}
        starts = [match.start() for match in re.finditer(r"(?<!\S)\S", line)]
        heads = text[max(0, at - _HEADS) : at]
        for start, end in pairwise([*starts, None]):
            parts = (head[start:end].strip() for head in heads)
            if name := HEADINGS.get(" ".join(part for part in parts if part)):
                row[name] = line[start:end].strip()
        if _FIGURES.fullmatch(row.get("THROUGHPUT", row.get("TRANSACTION_RATE", ""))):
            found.append(row)  # else it is a line of headings itself
    return found


def classic(block: Block, workload: str) -> list[dict[str, str]]:
    """The values of the classic tables: rows of figures below headings that name the unit, or
    without any. A first row has all columns of a table, a second one fewer.
    """
    rows = [line.split() for line in block.said if _FIGURES.fullmatch(line)]
    heads = " ".join(line for line in block.said if not _FIGURES.fullmatch(line))
    unit = _UNIT.search(heads)
    units = {"THROUGHPUT_UNITS": f"{unit[0]}/s"} if unit else {}
    if workload.endswith(("rr", "cc")) and not unit and "per sec" in heads:
        units = {"THROUGHPUT_UNITS": "Trans/s"}
    tables: list[list[list[str]]] = []
    for row in rows:
        if not tables or len(row) >= len(tables[-1][0]):
            tables.append([])
        tables[-1].append(row)
    found = [_row(table, workload) for table in tables]
    return [one | units for one in found if one]


def _row(rows: list[list[str]], workload: str) -> dict[str, str]:
    """The values of one table of one or two rows; empty where its columns are not those of such a
    test. With -c and -C four columns more follow.
    """
    first, second = rows[0], rows[1] if len(rows) > 1 else []
    if len(first) == 1:  # -v 0
        return {"THROUGHPUT": first[0]}
    if workload.endswith(("rr", "cc")):
        if len(first) not in (6, 10) or len(second) not in (0, 2):
            return {}
        names = ("REQUEST_SIZE", "RESPONSE_SIZE", "ELAPSED_TIME", "THROUGHPUT")
        return dict(zip(names, first[2:6], strict=True))
    if workload == "udp-stream":
        if len(first) < 6 or len(second) < 4:
            return {}
        return {
            "LOCAL_SEND_SIZE": first[1],
            "ELAPSED_TIME": first[2],
            "LOCAL_SEND_CALLS": first[3],
            "REMOTE_RECV_CALLS": second[2],
            "THROUGHPUT": second[3],
        }
    if len(first) not in (5, 9):
        return {}
    size = "REMOTE_SEND_SIZE" if workload == "tcp-maerts" else "LOCAL_SEND_SIZE"
    return {size: first[2], "ELAPSED_TIME": first[3], "THROUGHPUT": first[4]}
