"""What all workloads share: sizes as parameters, figures out of text, servers that are waited for,
raw files.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from cnibench.errors import CnibenchError, LimitError, MeasureError, UnsupportedError, UsageError
from cnibench.model import units
from cnibench.run.sample_context import SampleContext
from cnibench.run.slices.readings.sock_diag import SockDiag
from cnibench.system.files import write_private
from cnibench.system.process import Process, ending
from cnibench.testbed.place import Place, Pod

LISTEN_LIMIT = 10.0  # s: a server that does not listen by then will not
_FREE_LIMIT = 3.0  # s
_CUT = 124  # status of coreutils' timeout(1) that has ended its program
_LARGEST = (
    1e24  # beyond any figure of a network in any unit; sums and products of such are still numbers
)
_LISTENING, _ESTABLISHED = "0A", "01"  # include/net/tcp_states.h


def _bytes(value: object) -> object:
    return _read(units.size, value)


def _rate(value: object) -> object:
    return _read(units.bits_per_second, value)


def _read(convert: Any, value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return convert(value)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.remedy}") from None


Size = Annotated[int, BeforeValidator(_bytes), Field(ge=1, le=1 << 30)]  # bytes; '4M' is read too
Rate = Annotated[
    float, BeforeValidator(_rate), Field(ge=0, le=1e12, allow_inf_nan=False)
]  # bit/s; '50M' is read too


def whole_seconds(duration: float) -> int:
    """netperf, iperf3 and ab take whole seconds (netperf reads 0.5 as 0, which is for ever), so a
    part of one counts as one.
    """
    return max(1, math.ceil(duration))


def figure(value: object, what: str, *, negative: bool = False) -> float:
    """A finite number, from text or JSON. Raises MeasureError for anything else, and for negative
    ones unless allowed.
    """
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise MeasureError(f"{what} is not a number: {str(value)[:60]!r}") from None
    if isinstance(value, bool) or not abs(number) <= _LARGEST or (number < 0 and not negative):
        raise MeasureError(f"{what} is not a possible figure: {str(value)[:60]}")
    return number


def sockets(table: str, port: int, state: str) -> int:
    """How many sockets of /proc/net/tcp or tcp6 (proc_net_tcp(5)) are on a local port in a state
    (two hex digits).
    """
    return len(
        re.findall(
            rf"^\s*\d+: [0-9A-F]+:{port:04X} [0-9A-F]+:[0-9A-F]{{4}} {state} ", table, re.MULTILINE
        )
    )


def sockets_file(ip: int) -> str:
    return "/proc/net/tcp6" if ip == 6 else "/proc/net/tcp"


def _listened(pod: Place, port: int, ip: int) -> bool:
    """By the kernel's list of sockets where it can be asked: /proc has the kernel walk its table of
    all connections, which takes ten milliseconds.
    """
    if pod.local:
        with suppress(UnsupportedError), pod.entered(), closing(SockDiag(port, ip)) as kernel:
            return kernel.listened()
    return sockets(pod.read_text(sockets_file(ip)), port, _LISTENING) > 0


def wait_free(pod: Pod, port: int, ip: int, limit: float = _FREE_LIMIT) -> None:
    """Until nobody listens on that port in the Pod: the server before may be dying still. Raises
    MeasureError after ``limit`` seconds.
    """
    end = time.monotonic() + limit
    while _listened(pod, port, ip):
        if time.monotonic() > end:
            raise MeasureError(
                f"the TCP port {port} is in use in {pod.name}", "end the program that listens there"
            )
        time.sleep(0.005)


def wait_listening(
    pod: Pod, port: int, ip: int, server: Process, errors: Path, limit: float = LISTEN_LIMIT
) -> None:
    """Until ``server`` listens on that TCP port in its Pod. Raises MeasureError when it ended,
    LimitError after ``limit`` seconds.
    """
    end = time.monotonic() + limit
    while not _listened(pod, port, ip):
        if (status := server.poll()) is not None:
            raise MeasureError(
                f"the server {tool(server.argv)} {ending(status)} before it listened:"
                f" {tail(read(errors))}"
            )
        if time.monotonic() > end:
            raise LimitError(
                f"the server {tool(server.argv)} did not listen on port {port} within {limit:.0f} s"
            )
        time.sleep(0.005)


def established(table: str, port: int) -> int:
    """Connections that a server on that local port has, by its Pod's /proc/net/tcp or tcp6."""
    return sockets(table, port, _ESTABLISHED)


@contextmanager
def serving(
    s: SampleContext, argv: Sequence[str], port: int, name: str = "server"
) -> Iterator[Process]:
    """A server in the server's Pod, pinned as the cell says; it listens when the block is entered
    and is gone when it is left.

    Raises MeasureError, at the block's end too, when the server has failed by itself.
    """
    command = s.on_server(argv)
    note(s.raw, name, command)
    wait_free(s.server, port, s.cell.ip)
    out, err = s.raw / f"{name}.stdout", s.raw / f"{name}.stderr"
    with s.server.spawn(command, stdout=out, stderr=err) as server:
        wait_listening(s.server, port, s.cell.ip, server, err)
        yield server
        if status := server.poll():
            raise MeasureError(
                f"the server {tool(command)} {ending(status)} during the measurement:"
                f" {tail(read(err)) or 'no output'}"
            )


def start(s: SampleContext, argv: Sequence[str]) -> Process:
    """The measured client, pinned as the cell says; its output goes to client.stdout and
    client.stderr of the raw folder.
    """
    command = s.on_client(argv)
    note(s.raw, "client", command)
    return s.client.spawn(command, stdout=s.raw / "client.stdout", stderr=s.raw / "client.stderr")


def warm(s: SampleContext, argv: Sequence[str], limit: float = 30.0, end: str = "") -> str:
    """Runs a client whose result does not count; its output. Raises MeasureError when it fails, for
    then the measured one would too.

    ``end`` is the signal that ends it where the warm-up is a part of a second, of which its tool
    would make a whole one. LimitError when it takes ``limit`` seconds more than the warm-up.
    """
    cut = end and s.warmup != whole_seconds(s.warmup)
    command = s.on_client(
        ["timeout", f"--signal={end}", f"{s.warmup:g}", *argv] if cut else list(argv)
    )
    note(s.raw, "warmup", command)
    done = s.client.run(command, timeout=s.warmup + limit, check=False)
    if done.returncode not in (0, *([_CUT] if cut else [])):
        raise MeasureError(
            "the warm-up failed:"
            f" {tail(done.stderr or done.stdout) or f'exit status {done.returncode}'}"
        )
    return done.stdout


def outputs(s: SampleContext) -> tuple[str, str]:
    """(standard output, standard error) of the measured client."""
    return read(s.raw / "client.stdout"), read(s.raw / "client.stderr")


def read(path: Path) -> str:
    """Text of a raw file, '' when it is not there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def note(raw: Path, name: str, argv: Sequence[str]) -> None:
    """Adds a command line to commands.json of the raw folder, so that anybody can repeat it by
    hand.
    """
    path = raw / "commands.json"
    known = json.loads(read(path) or "{}")
    known[name] = list(argv)
    write_private(path, json.dumps(known, indent=1) + "\n")


def tail(text: str) -> str:
    """The last lines of what a tool said, as one line."""
    return " | ".join(line.strip() for line in text.strip().splitlines()[-3:] if line.strip())[:400]


def tool(argv: Sequence[str]) -> str:
    """The program's name, whatever pins it."""
    words = [word for word in argv if word.startswith(("netserver", "iperf3", "nginx"))]
    return words[0] if words else argv[0]


def quietly(place: Place, argv: Sequence[str]) -> str | None:
    """Output of a command that a place may refuse or lack (then None): what depends on it has
    another way or says so.
    """
    try:
        done = place.run(argv, timeout=10, check=False)
    except CnibenchError:
        return None
    return done.stdout if done.returncode == 0 else None
