"""A run directory of somebody else: read and resumed by root, it neither leaves its folder nor
hangs nor ends in a traceback.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.errors import InputError
from cnibench.model.cell import Cell
from cnibench.rundir.chain import digest, link
from cnibench.rundir.files import open_log
from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from tests.fuzz.stored_run import build
from tests.unit._call import call
from tests.unit._runs import synthetic

READERS = (
    ["report"],
    ["report", "--format", "csv"],
    ["runs", "show"],
    ["verify"],
    ["cpp"],
    ["claims"],
    ["query", "select 1"],
    ["rulepath"],
)
LIMIT = 20.0  # s, far above what refusing takes


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stored") / "run"
    build(path, 1, finished=False)
    return path


@pytest.fixture
def run(stored: Path, tmp_path: Path) -> Path:
    """A copy: each test does something else to it."""
    return shutil.copytree(stored, tmp_path / "run")


def _plan(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    plan = json.loads((run / "plan.json").read_text())
    change(plan)
    (run / "plan.json").write_text(json.dumps(plan))


def _relink(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the last event and hashes it again, as somebody does who wants to be believed."""
    *before, last = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    event = json.loads(last)
    del event["sha256"]
    change(event)
    line, _ = link(event, event.pop("before"))
    (run / "events.jsonl").write_bytes(b"".join([*before, line, b"\n"]))


_NOTHING = {"at": 0, "bytes": 0, "lines": 0, "sha256": digest(b"")}


def _reported(run: Path) -> None:
    """Every reader says what is wrong, at once, and never exits 0."""
    for arguments in READERS:
        began = time.monotonic()
        done = call([*arguments, str(run)])
        assert time.monotonic() - began < LIMIT
        assert done.exit_code in (1, 2), (arguments, done)
        assert "defect" not in done.stderr + done.stdout
        assert "problem: " in done.stderr + done.stdout or "  remedy: " in done.stderr


@pytest.mark.parametrize(
    "name", ["plan.json", "events.jsonl", "samples.jsonl", "cpp.jsonl", "env.json"]
)
@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "link", "loop"])
def test_what_is_no_regular_file_is_refused_at_once(
    run: Path, tmp_path: Path, name: str, kind: str
) -> None:
    content = (run / name).read_bytes()
    (run / name).unlink()
    if kind == "fifo":
        os.mkfifo(run / name)
    elif kind == "folder":
        (run / name).mkdir()
    elif kind == "device":
        (run / name).symlink_to("/dev/zero")
    elif kind == "loop":
        (run / name).symlink_to(name)
    else:
        (tmp_path / "real").write_bytes(content)
        (run / name).symlink_to(tmp_path / "real")
    _reported(run)
    with pytest.raises(InputError):
        RunWriter.resume(run)


DEEP = b"[" * 100_000 + b"]" * 100_000
SHAPES = [
    b"",
    b"null",
    b"[]",
    b"\xff\xfe",
    b'{"schema": 2}',
    b'{"schema": NaN}',
    b'{"schema": 1e400}',
    b'{"schema": true}',
    DEEP,
    b'{"schema": 2, "a": ' + DEEP + b"}",
    b"9" * 10_000,
    b'{"schema": ' + b"9" * 5000 + b"}",
]


@pytest.mark.parametrize("name", ["plan.json", "events.jsonl", "samples.jsonl", "env.json"])
@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_a_wrong_shape_is_reported(run: Path, name: str, shape: bytes) -> None:
    (run / name).write_bytes(shape + b"\n")
    _reported(run)


def _cell(plan: dict[str, Any]) -> dict[str, Any]:
    cell: dict[str, Any] = plan["cells"][0]
    return cell


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "blocks": lambda plan: plan.update(blocks=10**12),
    "negative": lambda plan: plan.update(blocks=-1),
    "duration": lambda plan: plan.update(duration=1e300),
    "max-blocks": lambda plan: plan.update(max_blocks=10**30),
    "cell-blocks": lambda plan: _cell(plan).update(blocks=10**9),
    "mtu": lambda plan: _cell(plan).update(mtu=10**100),
    "ip": lambda plan: _cell(plan).update(ip=10**100),
    "label": lambda plan: _cell(plan).update(label="x" * 5000),
    "id": lambda plan: plan.update(id="x" * 5000),
    "type": lambda plan: plan.update(cells="none"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_fields_out_of_bounds_are_refused(run: Path, change: str) -> None:
    _plan(run, CHANGES[change])
    _reported(run)
    with pytest.raises(InputError, match=r"plan\.json"):
        RunWriter.resume(run)


def test_a_raw_file_without_an_end_is_refused_at_once(run: Path) -> None:
    reader = RunReader(run)
    raw = sorted(run.glob("raw/*/0/*"))[0]
    os.truncate(raw, 1 << 43)
    problems = verify(reader, raw=True)
    assert [(one.kind, one.file) for one in problems] == [("changed", str(raw.relative_to(run)))]


def test_names_of_a_plan_stay_inside_the_raw_folder() -> None:
    for text in ("../../etc", "/etc/passwd", "a/b", "..", "", "x" * 900, "\x1b[31m", "\0"):
        one = Cell(label=text, profile=text, placement="inter", workload=text)
        assert "/" not in one.id
        assert "\0" not in one.id
        assert one.id.strip(".")
        assert len(one.id) < 250


def test_a_record_cannot_name_a_raw_file_outside(run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "stacks.folded").write_text("secret")
    reader = RunReader(run)
    for cell in ("../../secret", str(tmp_path / "secret"), "..", "\0"):
        with pytest.raises(InputError):
            reader.raw_bytes(cell, 0, "stacks.folded")
    cell = reader.plan.cells[0].id
    folder = run / "raw" / cell / "0"
    (folder / "stacks.folded").symlink_to(tmp_path / "secret" / "stacks.folded")
    with pytest.raises(InputError):
        reader.raw_bytes(cell, 0, "stacks.folded")


LINKS = [
    "samples.jsonl",
    "events.jsonl",
    "cpp.jsonl",
    "plan.json",
    "env.json",
    "env-3.json",
    "seal.json",
    "report.md",
    "calibration.json",
    "samples.jsonl.orphan-1",
    "vm",
]


@pytest.mark.parametrize("name", [*LINKS, "raw", "raw/CELL", "raw/CELL/2"])
def test_resuming_writes_through_no_link(run: Path, tmp_path: Path, name: str) -> None:
    from cnibench.run.provenance import Provenance, failure

    cell = RunReader(run).plan.cells[-1]
    with (run / "samples.jsonl").open(
        "ab"
    ) as file:  # of a sample in flight, so that something must be moved aside
        line = failure(
            cell,
            2,
            Provenance("lab", "veth", "all", "cni"),
            "failed",
            "gone",
            "2026-01-01T00:00:00Z",
        )[0]
        file.write(msgspec.json.encode(line) + b"\n")
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_bytes(b"of somebody else\n" * 3)
    path = run / name.replace("CELL", cell.id)
    target = victim if name == "vm" or name.startswith("raw") else victim / "file"
    if path.is_dir():
        path.rename(path.with_name("elsewhere"))
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target)
    with suppress(InputError):  # refused, or done without it
        with RunWriter.resume(run) as writer:
            writer.event("run-resumed")
            writer.environment({"kernel": "x"})
            (writer.raw(cell, 2) / "stdout").write_text("new")
            writer.finish(cell, 2, [line], [("cpp", {"total": 1.0})])
            writer.event("run-finished")
        call(["run", "--resume", str(run)])  # complete: it only writes the report
    assert (victim / "file").read_bytes() == b"of somebody else\n" * 3
    assert os.listdir(victim) == ["file"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("files", {"notes.txt": _NOTHING}),
        ("files", {"plan.json": _NOTHING}),
        ("files", {"events.jsonl": _NOTHING}),
        ("files", {"raw/x": _NOTHING}),
        ("files", {"./samples.jsonl": _NOTHING}),
        ("documents", {"notes.txt": ""}),
        ("documents", {"samples.jsonl": ""}),
        ("raw", {"../../notes.txt": ""}),
        ("folder", "../.."),
    ],
)
def test_an_event_names_no_file_that_is_not_of_a_run(
    run: Path, key: str, value: dict[str, object]
) -> None:
    (run / "notes.txt").write_text("of somebody else")
    _relink(run, lambda event: event.update({key: value}))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    problems = verify(RunReader(run), raw=True)
    assert any(problem.file == "events.jsonl" for problem in problems), problems
    with pytest.raises(InputError, match=r"events\.jsonl"):
        RunWriter.resume(run)
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize("sizes", [{"notes.txt": 2}, {"cpp.jsonl": "2"}, {"cpp.jsonl": -1}])
def test_an_old_event_names_no_file_that_is_not_of_a_run(
    tmp_path: Path, sizes: dict[str, object]
) -> None:
    """Version 1 said in its events how long each file was."""
    run = synthetic(tmp_path, {"a": 1.0}, blocks=1, finished=False).path
    (run / "notes.txt").write_text("of somebody else")
    events = (run / "events.jsonl").read_bytes().splitlines()
    event = json.loads(events[-1]) | {"sizes": sizes}
    (run / "events.jsonl").write_bytes(b"\n".join([*events[:-1], json.dumps(event).encode(), b""]))
    with pytest.raises(InputError, match="not of a run"):
        RunWriter.resume(run)
    assert (run / "notes.txt").read_text() == "of somebody else"


def test_a_hard_linked_copy_is_not_resumed(run: Path, tmp_path: Path) -> None:
    """Its lines would go into the run that it was copied from, too."""
    with (run / "samples.jsonl").open("ab") as file:
        file.write(b'{"schema":2,"cell":"x"')  # of a sample in flight
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    shutil.copytree(run, tmp_path / "copy", copy_function=os.link)
    with pytest.raises(InputError, match="hard link") as refused:
        RunWriter.resume(tmp_path / "copy")
    assert "cp -a" in refused.value.remedy
    for name in ("events.jsonl", "plan.json"):  # one file of its own does not make the rest so
        (tmp_path / "copy" / name).unlink()
        shutil.copy2(run / name, tmp_path / "copy" / name)
    with pytest.raises(InputError, match="hard link"):
        RunWriter.resume(tmp_path / "copy")
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    shutil.copytree(run, tmp_path / "other")
    RunWriter.resume(tmp_path / "other").close()


def _tree(folder: Path) -> dict[str, bytes]:
    """Every name in the folder, files with their content; FIFOs are not opened."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["hard link", "link", "fifo", "folder"])
@pytest.mark.parametrize("events", [True, False])
def test_a_log_that_cannot_be_written_is_refused_before_anything_is_changed(
    run: Path, tmp_path: Path, kind: str, events: bool
) -> None:
    cell = RunReader(run).plan.cells[-1]
    with (run / "samples.jsonl").open("ab") as file:
        file.write(b'{"schema":2,"cell":"x"')  # of a sample in flight
    (run / "raw" / cell.id / "2").mkdir()
    if not events:
        for path in run.glob("*.json*"):
            if path.name != "plan.json":
                path.unlink()
        shutil.rmtree(run / "raw")
    victim = tmp_path / "victim"
    victim.write_text("of somebody else\n")
    log = run / "run.log"
    if kind == "hard link":
        os.link(victim, log)
    elif kind == "link":
        log.symlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(log)
    else:
        log.mkdir()
    with pytest.raises(InputError, match=kind if "link" in kind else "regular file"):
        open_log(run)
    before = _tree(run)
    with pytest.raises(InputError, match=r"run\.log") as refused:
        RunWriter.resume(run)
    assert "remove it" in refused.value.remedy
    assert _tree(run) == before
    assert victim.read_text() == "of somebody else\n"
    log.rmdir() if kind == "folder" else log.unlink()
    RunWriter.resume(run).close()


def test_a_refused_resume_makes_no_events(run: Path) -> None:
    """Without samples nothing says that events are missing, but the environment does."""
    for name in ("events.jsonl", "samples.jsonl"):
        (run / name).unlink()
    before = _tree(run)
    with pytest.raises(InputError, match="damaged and cannot be resumed"):
        RunWriter.resume(run)
    assert _tree(run) == before


def test_a_hard_link_in_a_run_of_version_1_is_refused_before_anything_is_moved(
    tmp_path: Path,
) -> None:
    run = synthetic(tmp_path, {"a": 1.0}, blocks=1, finished=False).path
    *events, last = (run / "events.jsonl").read_bytes().splitlines()
    sizes = {"samples.jsonl": (run / "samples.jsonl").stat().st_size}
    event = json.dumps(json.loads(last) | {"sizes": sizes}).encode()
    (run / "events.jsonl").write_bytes(b"\n".join([*events, event, b'{"schema":1,']))
    os.link(run / "samples.jsonl", tmp_path / "other")
    before = _tree(run)
    with pytest.raises(InputError, match="hard link"):
        RunWriter.resume(run)
    assert _tree(run) == before


def test_control_characters_of_a_run_do_not_reach_the_terminal(run: Path) -> None:
    _plan(run, lambda plan: plan.update(id="\x1b]0;owned\x07", name="\x1b[2J"))
    for arguments in (["verify"], ["runs", "show"], ["report"]):
        done = call([*arguments, str(run)])
        assert "\x1b" not in done.stdout + done.stderr
        assert done.exit_code == 1  # the plan is not what was written


_STRANGE: tuple[Any, ...] = (None, True, 10**400, 1.7e308, 1e-320, "x", [1], {"a": 1}, "1" * 5000)


@pytest.mark.parametrize(
    "key", ["label", "profile", "params", "block", "cycles", "total", "components", "functions"]
)
def test_values_of_wrong_types_in_records_are_no_defect(tmp_path: Path, key: str) -> None:
    run = synthetic(
        tmp_path, {"a": 1.0, "b": 0.9}, blocks=3, workloads=("tcp-rr",), placements=("intra",)
    )
    file = run.path / "cpp.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    for value in _STRANGE:
        file.write_text("".join(json.dumps(one | {key: value}) + "\n" for one in records))
        for command in ("report", "cpp"):
            done = call([command, str(run.path)])
            assert done.exit_code in (0, 1, 2), (value, done.stderr)
            assert "a bug in cnibench" not in done.stderr, (value, done.stderr)


def test_parameters_that_are_numbers_of_any_length_are_no_defect(tmp_path: Path) -> None:
    for value in (10**400, "1" * 5000):
        run = synthetic(
            tmp_path / type(value).__name__,
            {"a": 1.0, "b": 0.9},
            blocks=3,
            workloads=("tcp-rr",),
            placements=("intra",),
            cpp=False,
        )
        for file in run.path.iterdir():
            if file.is_file():
                text = file.read_text().replace('{"size":1}', json.dumps({"size": value}))
                file.write_text(text)
        for arguments in (
            ["report", str(run.path)],
            ["compare", f"{run.path}:a", f"{run.path}:b"],
            ["site", str(run.path), "--out", str(run.path.parent / "site")],
        ):
            done = call(arguments)
            assert done.exit_code in (0, 4, 5), done.stderr
