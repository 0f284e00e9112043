"""``cnibench verify``: each kind of damage has its name, its file and its place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cnibench.errors import InputError
from cnibench.model.cell import Cell
from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from tests.fuzz.stored_run import build
from tests.unit._call import call
from tests.unit._runs import synthetic
from tests.unit._store import MANIFEST, cell, manifest, measure


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stored") / "run"
    build(path, 1, finished=True)
    return path


@pytest.fixture
def run(stored: Path, tmp_path: Path) -> Path:
    """A copy: each test damages it in another way."""
    return shutil.copytree(stored, tmp_path / "run")


def _lines(
    change: Callable[[list[bytes]], list[bytes]], name: str = "samples.jsonl"
) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        lines = (run / name).read_bytes().splitlines(keepends=True)
        (run / name).write_bytes(b"".join(change(lines)))

    return damage


def _bytes(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        (run / name).write_bytes(change((run / name).read_bytes()))

    return damage


def _remove(pattern: str) -> Callable[[Path], None]:
    return lambda run: sorted(run.glob(pattern))[0].unlink()


DAMAGES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "lost line": (_lines(lambda lines: lines[:4] + lines[5:]), "lost", "samples.jsonl"),
    "changed line": (
        _lines(lambda lines: [*lines[:4], lines[4].replace(b"1500", b"9000"), *lines[5:]]),
        "changed",
        "samples.jsonl",
    ),
    "doubled line": (
        _lines(lambda lines: [*lines[:5], lines[4], *lines[5:]]),
        "doubled",
        "samples.jsonl",
    ),
    "swapped lines": (
        _lines(lambda lines: [*lines[6:8], *lines[:6], *lines[8:]]),
        "out of order",
        "samples.jsonl",
    ),
    "added line": (
        _lines(lambda lines: [*lines, lines[0].replace(b'"block":0', b'"block":7')]),
        "not chained",
        "samples.jsonl",
    ),
    "lost last newline": (_bytes("samples.jsonl", lambda data: data[:-1]), "lost", "samples.jsonl"),
    "lost end": (_lines(lambda lines: lines[:-3]), "lost", "samples.jsonl"),
    "lost records": (_remove("cpp.jsonl"), "lost", "cpp.jsonl"),
    "lost attestation": (
        _lines(lambda lines: lines[1:], "attestations.jsonl"),
        "lost",
        "attestations.jsonl",
    ),
    "lost event": (
        _lines(lambda lines: lines[:9] + lines[10:], "events.jsonl"),
        "lost",
        "events.jsonl",
    ),
    "changed event": (
        _lines(
            lambda lines: [*lines[:-1], lines[-1].replace(b'"failed":0', b'"failed":1')],
            "events.jsonl",
        ),
        "changed",
        "events.jsonl",
    ),
    "doubled event": (
        _lines(lambda lines: [*lines[:9], lines[8], *lines[9:]], "events.jsonl"),
        "doubled",
        "events.jsonl",
    ),
    "swapped events": (
        _lines(lambda lines: [*lines[:9], lines[10], lines[9], *lines[11:]], "events.jsonl"),
        "out of order",
        "events.jsonl",
    ),
    "lost end of events": (
        _lines(lambda lines: lines[:-1], "events.jsonl"),
        "lost",
        "events.jsonl",
    ),
    "lost events": (_remove("events.jsonl"), "lost", "events.jsonl"),
    "changed plan": (
        _bytes("plan.json", lambda data: data.replace(b'"seed": 1', b'"seed": 2')),
        "changed",
        "plan.json",
    ),
    "changed environment": (
        _bytes("env.json", lambda data: data.replace(b"6.1", b"6.2")),
        "changed",
        "env.json",
    ),
    "lost environment": (_remove("env-2.json"), "lost", "env-2.json"),
    "changed seal": (_bytes("seal.json", lambda data: b"{}"), "changed", "seal.json"),
    "lost raw file": (_remove("raw/*/0/stdout"), "lost", "raw/"),
    "changed raw file": (
        lambda run: sorted(run.glob("raw/*/1/stdout"))[0].write_bytes(b"x"),
        "changed",
        "raw/",
    ),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_named(run: Path, name: str) -> None:
    damage, kind, file = DAMAGES[name]
    assert call(["verify", str(run)]).exit_code == 0
    damage(run)
    told = call(["verify", str(run), "--json"])
    assert told.exit_code == 1
    found = json.loads(told.stdout)["problems"]
    assert any(problem["kind"] == kind and problem["file"].startswith(file) for problem in found), (
        found
    )
    shown = call(["verify", str(run)])
    assert shown.exit_code == 1
    assert shown.stdout.startswith("problem: ")


@pytest.mark.parametrize(
    "arguments", [["report"], ["report", "--format", "md"], ["claims"], ["runs", "show"]]
)
def test_readers_name_it_in_their_first_lines(run: Path, arguments: list[str]) -> None:
    DAMAGES["lost line"][0](run)
    done = call([*arguments, str(run)])
    assert done.exit_code == 1
    assert "lost" in "".join(done.stdout.splitlines()[:6])


@pytest.mark.parametrize("form", ["text", "md", "junit"])
def test_the_gate_names_it_in_what_it_prints_and_writes(
    run: Path, tmp_path: Path, form: str
) -> None:
    """Whatever the gate decides, the exit status is not 0, and the file says why."""
    DAMAGES["lost line"][0](run)
    arguments = ["compare", f"{run}:a", f"{run}:b", "--inconclusive", "pass", "--format", form]
    done = call(arguments)
    assert done.exit_code == 1
    assert "problem: run: samples.jsonl, line 5" in "".join(done.stdout.splitlines()[:5])
    if form != "text":
        assert "problem: run: samples.jsonl, line 5" in done.stderr
    call([*arguments, "--out", str(tmp_path / "gate")])
    assert (tmp_path / "gate").read_text() == done.stdout


@pytest.mark.parametrize("form", ["csv", "openmetrics", "benchstat"])
def test_formats_without_a_place_for_it_say_it_on_stderr(run: Path, form: str) -> None:
    DAMAGES["lost line"][0](run)
    done = call(["report", str(run), "--format", form])
    assert done.exit_code == 1
    assert done.stderr.startswith("problem: run: samples.jsonl, line 5 (a.inter")
    assert "lost" in done.stderr


def test_the_site_names_it(run: Path, tmp_path: Path) -> None:
    DAMAGES["doubled line"][0](run)
    done = call(["site", str(run), "--out", str(tmp_path / "site")])
    assert done.exit_code == 1
    assert "doubled" in done.stdout
    assert "doubled" in (tmp_path / "site" / "index.html").read_text()


def test_a_changed_stack_is_named_where_the_site_draws_it(tmp_path: Path) -> None:
    from cnibench.cpp import stacks
    from cnibench.rundir.schema import coordinates
    from cnibench.rundir.writer import RunWriter

    old = synthetic(tmp_path, {"a": 1.0}, blocks=1, placements=("intra",))
    samples, records = list(old.samples()), list(old.records("cpp"))
    folded = stacks.fold([stacks.Stack("kernel", ("veth_xmit", "net_rx_action"), 1e8, 10)])
    with RunWriter.create(tmp_path / "run", msgspec.structs.replace(old.plan, schema=2)) as writer:
        for cell in old.plan.cells:
            where = coordinates(cell, 0)
            mine = [
                {key: value for key, value in one.items() if key not in where}
                for one in records
                if one["cell"] == cell.id
            ]
            (writer.raw(cell, 0) / "stacks.folded").write_text(folded)
            writer.finish(
                cell,
                0,
                [one for one in samples if one.cell == cell.id],
                [("cpp", one) for one in mine],
            )
        writer.event("run-finished")
    sites = [tmp_path / "site-1", tmp_path / "site-2"]
    told = call(["site", str(tmp_path / "run"), "--out", str(sites[0])])
    assert told.exit_code == 0, told
    changed = sorted((tmp_path / "run").glob("raw/*cpp*/0/stacks.folded"))[0]
    changed.write_text(folded.replace("veth_xmit", "vxlan_xmit"))
    told = call(["site", str(tmp_path / "run"), "--out", str(sites[1])])
    assert told.exit_code == 1
    assert "stacks.folded" in told.stdout
    assert "its stacks are lost or changed" in "".join(
        page.read_text() for page in sites[1].glob("*.html")
    )


@pytest.mark.parametrize("what", ["raw", "raw/CELL", "raw/CELL/0"])
def test_readers_name_raw_output_that_is_gone(run: Path, what: str) -> None:
    cell = RunReader(run).plan.cells[-1].id
    shutil.rmtree(run / what.replace("CELL", cell))
    for verified in (False, True):
        problems = verify(RunReader(run), raw=verified)
        assert {problem.kind for problem in problems} == {"lost"}
        assert all(problem.file.startswith(what.replace("CELL", cell)) for problem in problems)
        assert len(problems) == (3 if what == "raw/CELL" else 1)  # blocks of the cell
    told = call(["report", str(run)])
    assert told.exit_code == 1
    assert "problem: run: raw" in told.stdout[:100]
    with pytest.raises(InputError, match="damaged and cannot be resumed: raw"):
        RunWriter.resume(run)


def test_a_raw_folder_that_is_a_link_is_gone(run: Path, tmp_path: Path) -> None:
    (run / "raw").rename(tmp_path / "elsewhere")
    (run / "raw").symlink_to(tmp_path / "elsewhere")
    (problem,) = verify(RunReader(run))
    assert (problem.kind, problem.file) == ("lost", "raw")


def test_a_later_attempt_without_its_event_counts_as_one_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "run"
    (first, second) = (cell("a"), cell("b"))
    with RunWriter.create(path, manifest([first, second])) as writer:
        for one in (first, second):
            (writer.raw(one, 0) / "stdout").write_bytes(b"of a tool")
            writer.finish(one, 0, [])
        for one in (first, second):
            assert not verify(RunReader(path), raw=True)
            (writer.raw(one, 0) / "stdout").write_bytes(b"again")
    (problem,) = verify(RunReader(path))
    assert (problem.kind, problem.file) == ("lost", "events.jsonl")


def test_an_environment_that_no_event_names_is_named(run: Path) -> None:
    """An event is written before its document: this one is of another run, or its event is lost."""
    events = run / "events.jsonl"
    events.write_bytes(events.read_bytes().splitlines(keepends=True)[0])
    kinds = {(problem.kind, problem.file) for problem in verify(RunReader(run))}
    assert ("not chained", "env.json") in kinds
    (run / "env.json").unlink()
    kinds = {(problem.kind, problem.file) for problem in verify(RunReader(run))}
    assert ("not chained", "env.json") not in kinds


def test_a_missing_seal_is_said_and_written_again_on_resume(run: Path) -> None:
    """A writer that was killed after its last event had no time for the seal."""
    seal = (run / "seal.json").read_bytes()
    (run / "seal.json").unlink()
    assert warned(run)
    said = call(["report", str(run)])
    assert said.exit_code == 0
    assert "seal.json is missing, although the run finished" in said.stdout + said.stderr
    done = call(["run", "--resume", str(run)])
    assert done.exit_code == 0, done.stderr
    assert (run / "seal.json").read_bytes() == seal
    assert not warned(run)


def warned(run: Path) -> bool:
    """Of the seal; nothing is wrong with the run."""
    reader = RunReader(run)
    assert not verify(reader, raw=True)
    return any("seal.json is missing" in warning for warning in reader.warnings)


def test_a_seal_that_is_being_written_is_not_lost(run: Path) -> None:
    with RunWriter.resume(run):
        (run / "seal.json").unlink()
        assert not warned(run)
    assert warned(run)


def test_a_file_in_a_raw_folder_that_no_event_commits_is_named(run: Path) -> None:
    folder = sorted(run.glob("raw/*/1"))[0]
    (folder / "copy").write_bytes(b"x")
    (folder / "below").mkdir()
    (folder / "below" / "other").write_bytes(b"x")
    assert not verify(RunReader(run))
    problems = verify(RunReader(run), raw=True)
    assert [problem.kind for problem in problems] == ["not chained"] * 2
    assert [Path(problem.file).name for problem in problems] == ["other", "copy"]
    with pytest.raises(InputError, match="damaged and cannot be resumed"):
        RunWriter.resume(run)


def interrupted(folder: Path) -> tuple[Path, list[Cell]]:
    """A run of two cells that ended while the first was measured."""
    path = folder / "run"
    cells = [cell("a"), cell("b")]
    with RunWriter.create(path, manifest(cells)) as writer:
        writer.event("run-started")
        (writer.raw(cells[0], 0) / "stdout").write_bytes(b"half")
    return path, cells


def test_each_session_has_one_sample_in_flight(tmp_path: Path) -> None:
    """Two interrupted sessions leave raw output of two samples, which is no damage."""
    path, cells = interrupted(tmp_path)
    with RunWriter.resume(path) as writer:
        writer.event("run-resumed")
        (writer.raw(cells[1], 0) / "stdout").write_bytes(b"half")
    assert not verify(RunReader(path), raw=True)
    assert (path / "raw" / cells[0].id / "0.interrupted-1" / "stdout").read_bytes() == b"half"
    RunWriter.resume(path).close()


def test_an_older_run_says_once_that_it_is_not_chained(tmp_path: Path) -> None:
    reader = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=2)
    told = call(["verify", str(reader.path)])
    assert told.exit_code == 0
    assert "without hash chain" in told.stdout
    report = call(["report", str(reader.path)])
    assert report.exit_code == 0
    assert " ".join(report.stdout.split()).count("before cnibench chained its files") == 1


@pytest.mark.parametrize("file", ["samples.jsonl", "cpp.jsonl"])
@pytest.mark.parametrize(
    "command",
    [
        ["verify"],
        ["report"],
        ["claims"],
        ["cpp"],
        ["query", "select count(*) from samples"],
        ["runs", "show"],
    ],
    ids=" ".join,
)
def test_a_broken_line_of_an_older_run_is_named(
    tmp_path: Path, command: list[str], file: str
) -> None:
    reader = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=2)
    lines = (reader.path / file).read_bytes().splitlines(keepends=True)
    lines[2] = b"\xff" + lines[2][1:]
    (reader.path / file).write_bytes(b"".join(lines))
    told = call([*command, str(reader.path)])
    assert told.exit_code == 1
    assert f"{file}, line 3: changed" in " ".join((told.stdout + told.stderr).split())


def test_a_reader_beside_a_live_writer_sees_no_damage(tmp_path: Path) -> None:
    """What is measured during the reading is not lost: a warning says that the run continues."""
    path = tmp_path / "run"
    with RunWriter.create(path, MANIFEST) as writer:
        writer.event("run-started")
        writer.environment({"kernel": "6.1"})
        measure(writer, 0)
        readers = [RunReader(path) for _ in range(4)]
        for reader in readers:
            assert reader.chain.count
        writer.environment({"kernel": "6.1", "more": True})
        for block in (1, 2):
            measure(writer, block)
        assert verify(readers[0], raw=True) == []
        assert len(list(readers[1].samples())) == 2
        assert any("the run is still in progress" in text for text in readers[0].warnings)
        writer.event("run-finished")
    assert verify(readers[2], raw=True) == []
    fresh = RunReader(path)
    assert verify(fresh, raw=True) == []
    assert fresh.warnings == []


@pytest.mark.parametrize("added", ["7", "0.attempt-9"])
@pytest.mark.parametrize("method", ["windows", "slices"])
def test_an_added_folder_of_a_finished_run_is_named(
    tmp_path: Path, added: str, method: str
) -> None:
    """Nothing is in flight there."""
    one, path = cell(method=method), tmp_path / "run"
    with RunWriter.create(path, manifest([one])) as writer:
        writer.event("run-started")
        (writer.raw(one, 0) / "stdout").write_bytes(b"of a tool")
        writer.finish(one, 0, [])
        killed = shutil.copytree(path, tmp_path / "killed")
        writer.event("run-finished")
    for folder in (path, killed):
        shutil.copytree(folder / "raw" / one.id / "0", folder / "raw" / one.id / added)
    for raw in (False, True):
        assert not verify(RunReader(killed), raw=raw)
        (problem,) = verify(RunReader(path), raw=raw)
        assert (problem.kind, problem.file) == ("not chained", f"raw/{one.id}/{added}")
    assert call(["verify", str(path)]).exit_code == 1
    with pytest.raises(InputError, match="damaged and cannot be resumed: raw"):
        RunWriter.resume(path)


def test_what_interrupted_sessions_left_in_a_finished_run_is_no_damage(tmp_path: Path) -> None:
    path, cells = interrupted(tmp_path)
    with RunWriter.resume(path) as writer:
        writer.event("run-resumed")
        for one in cells:
            (writer.raw(one, 0) / "stdout").write_bytes(b"of a tool")
            (writer.raw(one, 0) / "stdout").write_bytes(b"again")  # an outage spoilt the first
            writer.finish(one, 0, [])
        writer.event("run-finished")
    assert len(list(path.glob("raw/*/0.interrupted-*"))) == 3
    assert not verify(RunReader(path), raw=True)
    with RunWriter.resume(path) as writer:  # --retry-failed
        writer.event("run-resumed")
        (writer.raw(cells[0], 0) / "stdout").write_bytes(b"half")
        assert not verify(RunReader(path), raw=True)
    assert not verify(RunReader(path), raw=True)
    with RunWriter.resume(path) as writer:
        writer.event("run-resumed")
        writer.event("run-finished")  # --target-ci is met
    assert not verify(RunReader(path), raw=True)


def test_generators_that_wait_for_their_first_slice_are_no_loss(tmp_path: Path) -> None:
    """All cells of a block start together, and only what has slices was measured."""
    cells = [cell(label, method="slices") for label in ("a", "b", "c")]
    with RunWriter.create(tmp_path / "run", manifest(cells, blocks=2)) as writer:
        writer.event("run-started")
        for one in cells:
            (writer.raw(one, 0) / "client.stdout").write_bytes(b"of a tool")
    assert verify(RunReader(tmp_path / "run"), raw=True) == []
    for one in cells[:2]:
        (tmp_path / "run/raw" / one.id / "0/slices.jsonl").write_bytes(b"{}\n")
    (problem,) = verify(RunReader(tmp_path / "run"), raw=True)
    assert (problem.kind, problem.file) == ("lost", "events.jsonl")


def test_an_older_run_is_resumed_and_chained_from_then_on(tmp_path: Path) -> None:
    from cnibench.rundir.writer import RunWriter

    old = synthetic(
        tmp_path,
        {"a": 1.0},
        blocks=2,
        cpp=False,
        finished=False,
        fail=[("a", 1)],
        workloads=("tcp-rr",),
        placements=("intra",),
    )
    before = list(old.samples())
    sizes = {
        name: (old.path / name).stat().st_size for name in ("samples.jsonl", "attestations.jsonl")
    }
    events = (
        (old.path / "events.jsonl")
        .read_text()
        .replace('"sizes":{}', f'"sizes":{json.dumps(sizes)}')
    )
    (old.path / "events.jsonl").write_text(events)
    cell = old.plan.cells[0]
    (old.path / "raw" / cell.id / "7").mkdir(parents=True)  # in flight; --target-ci is met then
    with RunWriter.resume(old.path) as writer:
        writer.event("run-resumed")
        writer.finish(cell, 1, [before[0]])
        writer.event("run-finished")
    reader = RunReader(old.path)
    assert not verify(reader, raw=True)
    assert reader.chain.chained
    assert [(item.block, item.status) for item in reader.samples()] == [
        *((0, "ok") for item in before[:-1]),
        (0, "ok"),
    ]
    assert reader.done() == {(cell.id, 0), (cell.id, 1)}
    file = old.path / "samples.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"mtu":1500', b'"mtu":9000', 1))
    assert verify(RunReader(old.path))
