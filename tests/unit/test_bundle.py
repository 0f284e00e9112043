"""``cnibench bundle`` and ``cnibench verify BUNDLE``: what is published, and what is refused."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path

import msgspec
import pytest

from cnibench.analysis.build import analyse
from cnibench.analysis.samples.series import gather
from cnibench.errors import InputError, UsageError
from cnibench.model.cell import Cell
from cnibench.reports.bundle import container, signature, statements
from cnibench.reports.bundle.making import bundle
from cnibench.run.provenance import Provenance, failure
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import now
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from cnibench.system import process
from tests._manifest import manifest
from tests.unit._bundles import FACTS, parts, refusal, stored
from tests.unit._call import call
from tests.unit._runs import synthetic

TRUTH = {"flannel": 1.0, "cilium": 1.2}


def test_the_same_run_gives_the_same_bundle_and_it_verifies(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", TRUTH)
    content = bundle(run)
    assert content == bundle(RunReader(run.path))
    assert refusal(tmp_path, content) == ""


def test_an_unzipped_bundle_is_a_run_directory_with_the_same_figures(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", TRUTH)
    (tmp_path / "one.zip").write_bytes(bundle(run))
    with zipfile.ZipFile(tmp_path / "one.zip") as found:
        found.extractall(tmp_path / "copy")
    copy = RunReader(tmp_path / "copy")
    assert verify(copy, raw=True) == []
    assert analyse([copy]).results == analyse([run]).results
    assert json.loads(found.comment)["format"] == "cnibench-bundle"


def test_names_and_addresses_become_pseudonyms(tmp_path: Path) -> None:
    facts = {"hostname": "secretbox", "note": "/home/kim/runs on 10.11.12.13"}
    command = ["cnibench", "run", "--client-node", "secretbox.acme.example"]
    reason = "no route to 10.11.12.13 (kim@acme.example)"
    run = stored(tmp_path / "run", TRUTH, facts=facts, command=command, reason=reason)
    files = parts(bundle(run))
    text = b"\n".join(files.values())
    assert not [word for word in (b"secretbox", b"kim", b"10.11.12.13", b"acme") if word in text]
    assert b"no route to address-1" in files["samples.jsonl"]
    assert refusal(tmp_path, bundle(run)) == ""


def test_raw_output_is_left_out_and_its_hashes_are_kept_as_one(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", TRUTH)
    files = parts(bundle(run))
    assert {Path(name).suffix for name in files} == {".json", ".jsonl"}
    events = [json.loads(line) for line in files["events.jsonl"].splitlines()]
    kept = [one["raw_sha256"] for one in events if one["event"] == "cell-finished"]
    own = [one.raw for one in run.chain.events if one.event == "cell-finished"]
    assert kept == [container.digest(msgspec.json.encode(raw, order="sorted")) for raw in own]
    assert not any("raw" in one for one in events)


@pytest.mark.parametrize("label", ["node-10.11.12.13", "a\u202eb", "kim@acme.example"])
def test_a_label_that_names_a_machine_is_refused(label: str, tmp_path: Path) -> None:
    run = stored(tmp_path / "run", {label: 1.0, "cilium": 1.0})
    with pytest.raises(UsageError, match="cannot be published as it is"):
        bundle(run)


def test_a_run_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not finished"):
        bundle(stored(tmp_path / "run", TRUTH, finished=False))


def test_a_run_of_a_version_without_a_chain_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="an older version wrote it"):
        bundle(synthetic(tmp_path, TRUTH, blocks=1))


def test_a_damaged_run_is_refused_and_one_with_changed_raw_output(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", TRUTH)
    next((run.path / "raw").rglob("stdout")).write_bytes(b"other")
    with pytest.raises(UsageError, match="not what was recorded"):
        bundle(RunReader(run.path))


def test_a_resumed_run_with_two_environments_is_published(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", TRUTH, finished=False)
    with RunWriter.resume(run.path) as writer:
        writer.event("run-resumed")
        writer.environment({**run.environment, "load": [1.0]})
        writer.event("run-finished", failed=0)
    content = bundle(RunReader(run.path))
    assert "env-2.json" in parts(content)
    assert refusal(tmp_path, content) == ""


def test_commands_and_their_exit_status(tmp_path: Path) -> None:
    key = tmp_path / "key"
    process.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], timeout=30)
    run = stored(tmp_path / "20260101-000000-feed", TRUTH)
    made = call(["bundle", str(run.path), "--sign", str(key), "--out", str(tmp_path), "--json"])
    assert made.exit_code == 0, made.stderr
    path = Path(json.loads(made.stdout)["path"])
    assert path == tmp_path / "20260101-000000-feed.cnibench"
    found = json.loads(call(["verify", str(path), "--json"]).stdout)
    assert (found["problems"], found["samples"]) == ([], 16)
    assert found["signer"]["fingerprint"].startswith("SHA256:")
    assert found["origin"] == run.chain.last
    assert call(["bundle", str(run.path), "--sign", str(key), "--out", str(path)]).exit_code == 0
    other = call(["bundle", str(run.path), "--out", str(path)])
    assert (other.exit_code, "is a different file" in other.stderr) == (2, True)
    signers = tmp_path / "signers"
    signers.write_text("")
    refused = call(["verify", str(path), "--signers", str(signers)])
    assert (refused.exit_code, "is not one of" in refused.stdout) == (1, True)
    path.write_bytes(path.read_bytes()[:-1])
    cut = call(["verify", str(path)])
    assert (cut.exit_code, "cut off" in cut.stderr) == (2, True)
    assert "take the bundle again" in cut.stderr
    gone = call(["verify", str(tmp_path / "gone.cnibench")])
    assert (gone.exit_code, "gone.cnibench: No such file" in gone.stderr) == (2, True)


def test_a_directory_for_bundles_is_created(tmp_path: Path) -> None:
    run = stored(tmp_path / "20260101-000000-feed", TRUTH)
    folder = tmp_path / "results" / "my-testbed"
    made = call(["bundle", str(run.path), "--out", str(folder)])
    assert made.exit_code == 0, made.stderr
    assert [path.name for path in folder.iterdir()] == ["20260101-000000-feed.cnibench"]
    named = call(["bundle", str(run.path), "--out", str(folder / "x.cnibench")])
    assert (named.exit_code, (folder / "x.cnibench").is_file()) == (0, True)
    (tmp_path / "file").write_text("")
    assert call(["bundle", str(run.path), "--out", str(tmp_path / "file")]).exit_code == 2


def test_a_key_that_cannot_sign_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such key"):
        signature.sign("text\n", tmp_path / "none")
    locked = ["-q", "-t", "ed25519", "-N", "secret words", "-f", str(tmp_path / "locked")]
    process.run(["ssh-keygen", *locked], timeout=30)
    with pytest.raises(UsageError, match="cannot sign") as error:
        signature.sign("text\n", tmp_path / "locked")
    assert "ssh-add" in error.value.remedy


@pytest.mark.parametrize("name", ["a folder", "a FIFO"])
def test_what_is_no_file_is_refused_at_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if name == "a FIFO":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(InputError, match=r"not a regular file|directory"):
        container.read(path)


NODES = {"a": {"device": {"speed": "10000"}}, "b": {"device": {"speed": 25000}}}
IMPOSSIBLE = {
    "faster than the NIC": (
        {"testbed": "cluster", "wire": "nic", "nodes": NODES},
        {"placement": "inter", "fidelity": "cni", "value": 1.1e10},
        "more than its NIC's link speed",
    ),
    "more CPU time than CPUs": (
        {},
        {"metric": "cpu_softirq", "unit": "1", "better": "lower", "value": 4.5},
        "more CPU time than the machine has CPUs",
    ),
    "more memory than the machine has": (
        {},
        {"metric": "memory", "unit": "B", "better": "lower", "value": 1e10},
        "more than the machine's memory",
    ),
    "a CPU each of one": (
        {"cpus": 1, "cpus_online": 1},
        {"cpus": "split"},
        "a CPU each, and the machine has one",
    ),
    "faster than any card with its driver": (
        {"testbed": "cluster", "wire": "nic", "nodes": {"a": {"device": {"driver": "e1000e"}}}},
        {"placement": "inter", "fidelity": "cni", "value": 1.1e9},
        "more than its NIC's link speed",
    ),
    "more lost than sent": (
        {},
        {"metric": "loss", "unit": "1", "better": "lower", "value": 1.5},
        "more was lost than sent",
    ),
    "percentiles out of order": (
        {},
        {"metric": "latency_p50", "unit": "s", "better": "lower", "value": 2.0},
        "percentiles of .* are out of order",
    ),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_a_run_says_of_itself_must_be_possible(name: str, tmp_path: Path) -> None:
    facts, change, words = IMPOSSIBLE[name]
    cell = Cell(
        label="a",
        profile="a",
        placement=change.get("placement", "intra"),
        workload="x",
        cpus=change.get("cpus", "shared"),
    )
    plan = manifest([cell], id="run", blocks=1)
    where = {**FACTS, **facts}
    provenance = Provenance(where["testbed"], where["wire"], "", change.get("fidelity", "baseline"))
    line = failure(cell, 0, provenance, "ok", "", now())[0]
    base = {"metric": "throughput", "unit": "bit/s", "better": "higher", "value": 1e9}
    lines = [msgspec.structs.replace(line, **base | change)]
    p90 = {"metric": "latency_p90", "unit": "s", "better": "lower", "value": 1.0}
    lines += [msgspec.structs.replace(line, **base | p90)]
    with RunWriter.create(tmp_path / "run", plan) as writer:
        writer.event("run-started")
        writer.environment(where)
        writer.finish_all([(cell, lines, [])], 0)
        writer.event("run-finished", failed=0)
    run = RunReader(tmp_path / "run")
    said = statements.Statements(run)
    gather([run], said.look)
    assert [one for one in said.found if re.search(words, one)] == said.found != []
