"""knb's results as runs: its JSON, YAML and data are one and the same."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import pytest

from cnibench.errors import InputError, UsageError
from cnibench.importers.batch import Batch, Given
from tests._import_samples import KNB_FILES, knb_data
from tests.unit._imports import GOLDEN, UNSAID, figures, read

KNB_JSON = (GOLDEN / "import" / "knb.json").read_text()
KNB_YAML = (GOLDEN / "import" / "knb.yaml").read_text()
FORMS = {
    "antrea.json": KNB_JSON.encode(),
    "antrea.yaml": KNB_YAML.encode(),
    "antrea.knbdata": knb_data(),
}


def long_names() -> bytes:
    """An archive of headers that each belong to the next one, which tarfile reads recursively."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 2
    return (header.tobuf(tarfile.GNU_FORMAT) + b"a\0".ljust(512, b"\0")) * 5000


def knb(folder: Path, name: str, content: bytes, said: Given = UNSAID) -> Batch:
    file = folder / name
    file.write_bytes(content)
    return read("knb", file, said)


def test_a_figure_of_0_is_a_failure_that_names_it(tmp_path: Path) -> None:
    about = {"generator": "knb", "server-node": "a", "client-node": "b"}
    part = {"client": {"ram": 0}, "server": {"ram": 0}}
    data = {"idle": part, "pod2pod": {"tcp": {"bandwidth": 0, **part}}}
    content = json.dumps({"metadata": about, "data": data}).encode()
    idle, tcp = knb(tmp_path, "antrea.json", content).results
    assert (idle.reason, tcp.reason) == ("its memory is 0", "its throughput is 0")


@pytest.mark.parametrize("name", FORMS)
def test_knb_in_each_of_its_forms(tmp_path: Path, name: str) -> None:
    batch = knb(tmp_path, name, FORMS[name])
    idle, tcp, udp = batch.results
    assert {(one.label, one.placement, one.path, one.mtu) for one in batch.results} == {
        ("antrea", "inter", "pod", 1450)
    }
    assert {one.start for one in batch.results} == {1619554896.0}
    assert (idle.workload, figures(idle)) == (
        "idle",
        {"memory/client": 512 * 2**20, "memory/server": 600 * 2**20},
    )
    assert (tcp.workload, tcp.params) == ("iperf3-tcp", {"streams": 1})
    assert figures(tcp) == {
        "throughput": 9812e6,
        "memory/client": 514 * 2**20,
        "memory/server": 602 * 2**20,
    }
    assert (udp.workload, udp.params) == ("iperf3-udp", {"streams": 1, "window": "256K"})
    assert not udp.figures
    assert "bandwidth is " in udp.reason
    assert batch.not_run == [("antrea", "pod2svc tcp"), ("antrea", "pod2svc udp")]
    assert batch.facts == {
        "source": "knb",
        "kernel": "5.4.0-66-generic",
        "cpu_model": "A processor",
        "kubernetes": "v1.19.8",
    }


def test_knb_json_that_ends_with_a_comma(tmp_path: Path) -> None:
    text = (GOLDEN / "import" / "knb_idle.json").read_text()
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    batch = knb(tmp_path, "antrea.json", text.encode())
    assert [one.workload for one in batch.results] == ["idle"]
    assert len(batch.not_run) == 4


def test_knb_on_one_node_and_on_unknown_ones(tmp_path: Path) -> None:
    one = KNB_YAML.replace("node-b", "node-a").encode()
    assert {found.placement for found in knb(tmp_path, "a.yaml", one).results} == {"intra"}
    none = KNB_YAML.replace('"node-b"', '""').encode()
    with pytest.raises(UsageError, match="where its ends ran"):
        knb(tmp_path, "a.yaml", none)
    assert knb(tmp_path, "a.yaml", none, Given(placement="inter")).results[0].placement == "inter"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b"{}"),
        ("a.json", KNB_JSON.replace('"generator": "knb"', '"generator": "x"').encode()),
        ("a.yaml", b"data: [1\n"),
        ("a.yaml", b"a: &a [1]\nb: *a\n"),
        ("a.knbdata", knb_data()[:-40]),
        ("a.knbdata", gzip.compress(b"no archive", mtime=0)),
        ("a.knbdata", gzip.compress(bytes(17 << 20), mtime=0)),
        ("a.knbdata", knb_data({**KNB_FILES, "huge": "x" * (2 << 20)})),
        ("a.knbdata", knb_data(dict.fromkeys(map(str, range(1100)), ""))),
        ("a.knbdata", knb_data({})),
        ("a.knbdata", gzip.compress(long_names(), mtime=0)),
        ("a.json", b"{" + b" " * (2 << 20) + b"}"),
    ],
    ids=range(12),
)
def test_what_is_no_result_of_knb(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises(InputError, match=name):
        knb(tmp_path, name, content)
