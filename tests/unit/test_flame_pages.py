"""Flame graphs of the site, of bundles and of the board: what they are drawn of, and what nobody
can change in a bundle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.cpp.stacks import USER, Stack
from cnibench.reports.board.build import build as board
from cnibench.reports.bundle import call_stacks, container
from cnibench.reports.bundle.making import bundle
from cnibench.reports.bundle.verifying import verified
from cnibench.reports.site.build import build as site
from cnibench.rundir.reader import RunReader
from tests.unit._bundles import parts, put, refusal, stored

BRIDGE = Stack("kernel", ("br_handle_frame", "net_rx_action"), 2e6, 20)
COMMON = (
    Stack("cell", ("nf_hook_slow", "ip_forward", "do_syscall_64", USER), 3e6, 30),
    Stack("kernel", ("<script>alert(1)</script>", "net_rx_action"), 1e6, 10),
    Stack("kernel", ("veth_xmit", "net_rx_action"), 1e3, 1),  # too rare to be drawn
    Stack("foreign", ("worker.example.org",), 9e6, 90),
)
CYCLES = {"flannel": (*COMMON, BRIDGE), "cilium": COMMON}
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    path = tmp_path_factory.mktemp("flames") / "run"
    return stored(path, {"flannel": 1.0, "cilium": 1.1}, workloads=("tcp-rr",), cycles=CYCLES)


@pytest.fixture(scope="module")
def made(run: RunReader) -> bytes:
    return bundle(run)


def frames(page: str) -> dict[str, float]:
    """Each frame's cycles, of those that the page draws."""
    found = drawn(page)
    numbers, tenths = found["frames"][1::3], found["frames"][2::3]
    pairs = zip(numbers, tenths, strict=True)
    return {found["names"][number]: cycles / 10 for number, cycles in pairs}


def drawn(page: str) -> dict[str, Any]:
    """What flame.js is given."""
    (data,) = re.findall(r'<script type="application/json" id="frames">(.*?)</script>', page)
    found: dict[str, Any] = json.loads(data)
    return found


def test_a_bundle_has_the_stacks_in_cycles_per_packet(tmp_path: Path, made: bytes) -> None:
    path = tmp_path / "one.cnibench"
    path.write_bytes(made)
    with verified(path) as (found, _, _):
        assert found.problems == []
        assert found.stacks is not None
        trees = {
            found.groups[one.number].label: (found.stacks.tree(one), one.rest)
            for one in found.stacks.groups
        }
    tree, rest = trees["flannel"]
    assert rest == pytest.approx(1.0)
    assert tree["net_rx_action", "br_handle_frame"] == pytest.approx(2000)
    assert sum(tree.values()) == pytest.approx(6000)
    assert not any("worker" in frame for path in tree for frame in path)
    assert len(trees["cilium"][0]) == len(tree) - 1


def test_a_run_without_its_raw_output_has_a_bundle_without_stacks(tmp_path: Path) -> None:
    reader = stored(tmp_path / "run", {"a": 1.0, "b": 1.1}, workloads=("tcp-rr",))
    assert container.STACKS not in parts(bundle(reader))


def replaced(change: Change) -> Callable[[bytes], bytes]:
    def with_change(made: bytes) -> bytes:
        files = parts(made)
        found = msgspec.json.decode(files[container.STACKS])
        change(found)
        return put(files | {container.STACKS: msgspec.json.encode(found)})

    return with_change


def first(found: dict[str, Any]) -> list[Any]:
    stacks: list[Any] = found["groups"][0]["stacks"]
    return stacks


def cheaper(found: dict[str, Any]) -> None:
    """The bridge's cycles are half of what they were, the rest is said to be rare."""
    name = found["frames"].index("br_handle_frame")
    stack = next(one for one in first(found) if name in one[0])
    stack[1] /= 2
    found["groups"][0]["rest"] += stack[1]


def moved(found: dict[str, Any]) -> None:
    """To another component."""
    found["frames"][found["frames"].index("br_handle_frame")] = "vxlan_xmit"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (moved, "cycles of bridge"),
        (lambda found: first(found).pop(), "cycles per packet, the records"),
        (lambda found: first(found)[0].__setitem__(1, 1e9), "cycles per packet, the records"),
        (lambda found: first(found)[0].__setitem__(1, -1.0), "no figure"),
        (lambda found: first(found)[0][0].append(99), "without a name"),
        (lambda found: first(found)[0][0].clear(), "deeper"),
        (lambda found: first(found)[0].__setitem__(0, [0] * 201), "deeper"),
        (lambda found: first(found).extend([[[0], 0.0]] * 5001), "more stacks"),
        (lambda found: found["groups"][0].update(number=7), "not those of the run's cells"),
        (lambda found: found["groups"][1].update(number=0), "not those of the run's cells"),
        (lambda found: found.update(note="trust me"), "cannot be read"),
    ],
)
def test_stacks_that_contradict_the_records_are_refused(
    tmp_path: Path, made: bytes, change: Change, why: str
) -> None:
    said = refusal(tmp_path, replaced(change)(made))
    assert said.startswith("stacks.json: ")
    assert why in said


def test_cycles_can_be_hidden_among_rare_stacks_and_are_then_named_on_the_page(
    tmp_path: Path, made: bytes
) -> None:
    """What no figure of the run contradicts: the page says how much it does not show."""
    changed = replaced(cheaper)(made)
    assert refusal(tmp_path, changed) == ""
    (tmp_path / "results" / "lab").mkdir(parents=True)
    (tmp_path / "results" / "lab" / "one.cnibench").write_bytes(changed)
    board(tmp_path / "results", tmp_path / "board")
    text = "".join(one.read_text() for one in (tmp_path / "board" / "bundles").glob("*-?.html"))
    assert "1001.0 cycles of rare stacks are not shown" in text


def test_bytes_that_are_no_stacks_are_refused(tmp_path: Path, made: bytes) -> None:
    for data in (b"{", b"[]", b"\xff", b"null"):
        said = refusal(tmp_path, put(parts(made) | {container.STACKS: data}))
        assert said.startswith("stacks.json: it cannot be read"), data


def test_stacks_that_become_alike_by_pseudonyms_are_added_up() -> None:
    alike = call_stacks.CallStacks(
        ["all", "host-1", "host-1"], [call_stacks.Group(0, [([0, 1], 2.0), ([0, 2], 3.0)], 0.0)]
    )
    assert alike.tree(alike.groups[0]) == {("all", "host-1"): 5.0}


def test_the_board_has_a_page_for_each_flame_graph(tmp_path: Path, made: bytes) -> None:
    (tmp_path / "results" / "lab").mkdir(parents=True)
    (tmp_path / "results" / "lab" / "one.cnibench").write_bytes(made)
    found = board(tmp_path / "results", tmp_path / "board")
    assert found["refused"] == []
    pages = sorted((tmp_path / "board" / "bundles").glob("*-?.html"))
    assert len(pages) == 2
    (page,) = (tmp_path / "board" / "bundles").glob("*run.html")
    for one in pages:
        assert f'href="{one.name}"' in page.read_text()
        text = one.read_text()
        assert "<script>alert" not in text
        assert "A model of the datapath, not the CNI itself." in text
        assert frames(text)["nf_hook_slow"] == 3000
    assert (tmp_path / "board" / "flame.js").exists()


def test_the_site_shows_what_changed_and_what_only_the_baseline_has(
    tmp_path: Path, run: RunReader
) -> None:
    site([run], tmp_path / "site")
    pages = {one.stem: one.read_text() for one in (tmp_path / "site" / "flames").iterdir()}
    assert set(pages) == {"flannel-intra-tcp-rr", "cilium-intra-tcp-rr"}
    own = frames(pages["flannel-intra-tcp-rr"])
    assert own["all"] == pytest.approx(6001)
    assert own["br_handle_frame"] == 2000
    difference = pages["cilium-intra-tcp-rr"]
    compared = drawn(difference)
    assert (compared["against"], compared["largest"]) == ("flannel", 20000)
    before = {
        compared["names"][number]: cycles / 10
        for number, cycles in zip(compared["frames"][1::3], compared["other"], strict=True)
    }
    assert before == {name: own[name] for name in frames(difference)}
    assert "other" not in drawn(pages["flannel-intra-tcp-rr"])
    assert "lightest grey has no component" in difference
    assert 'id="difference"' not in difference, "a browser would scroll to it, past the graph"
    only = difference[difference.index("Only in flannel") : difference.index("<h2>Functions")]
    assert re.search(r"br_handle_frame</th><td>2000\.0", only)
    assert "nf_hook_slow" not in only
    assert not any("<script>alert" in page for page in pages.values())
