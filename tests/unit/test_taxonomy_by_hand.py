"""The taxonomy of functions, on small files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cnibench.cpp import taxonomy
from cnibench.errors import InputError


def _taxonomy(tmp_path: Path, text: str) -> taxonomy.Taxonomy:
    path = tmp_path / "names.yaml"
    path.write_text(text)
    taxonomy.load.cache_clear()
    return taxonomy.load(path)


def test_whole_names_come_before_beginnings_and_longer_ones_before_shorter(tmp_path: Path) -> None:
    names = _taxonomy(
        tmp_path,
        "version: 7\ncomponents:\n"
        "  a: {title: A, functions: [tcp_*, tcp_ack, poll], network: true}\n"
        "  b: {title: B, functions: [tcp_v4_*], leaf: [memcpy, mem*]}\n"
        "  c: {title: C, functions: [tcp_v4_rcv], leaf: [memset]}\n",
    )
    wanted = {
        "tcp_x": "a",
        "tcp_ack": "a",
        "tcp_ackx": "a",
        "tcp_v4_x": "b",
        "tcp_v4_rcv": "c",
        "tcp": None,
        "memcpy": None,
        "polls": None,
    }
    assert {name: names.component(name) for name in wanted} == wanted
    assert (names.version, list(names.components)) == (7, ["a", "b", "c"])
    assert names.components["a"] == taxonomy.Component(
        "A", ("tcp_*", "tcp_ack", "poll"), network=True
    )
    assert [names.is_network(name) for name in ("tcp_x", "tcp_v4_rcv", "x")] == [True, False, False]
    assert names.is_network("net_rx_action")
    assert names.is_network("net_tx_action")
    # Names of leaves count only where no frame is named, and only of the leaf.
    assert names.nearest(("memset", "x", "tcp_x")) == "a"
    assert names.nearest(("memset", "x")) == "c"
    assert names.nearest(("memmove", "x")) == "b"
    assert names.nearest(("x", "memset")) is None


def test_a_taxonomy_may_have_whole_names_only(tmp_path: Path) -> None:
    names = _taxonomy(tmp_path, "version: 1\ncomponents: {a: {title: A, functions: [f]}}\n")
    assert (names.component("f"), names.component("g")) == ("a", None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "names.yaml: the file: expected keys and values; see cpp/taxonomy.yaml"),
        ("version: x\ncomponents: {}", "the file.version: expected a whole number"),
        ("version: true\ncomponents: {}", "the file.version: expected a whole number"),
        ("version: 1\ncomponents: []", "the file.components: expected keys and values"),
        ("version: 1\ncomponents: {}\nmore: 1\nodd: 2", "the file: there is no key more, odd"),
        ("components: {}", "the file: the key version is missing"),
        ("version: 1\ncomponents: {a: 1}", "components.a: expected keys and values"),
        (
            "version: 1\ncomponents: {a: {title: 1, functions: []}}",
            "components.a.title: expected text",
        ),
        ("version: 1\ncomponents: {a: {title: A, functions: f}}", "functions: expected a list"),
        ("version: 1\ncomponents: {a: {title: A, functions: [1]}}", "functions: expected names"),
        (
            "version: 1\ncomponents: {a: {title: A, functions: [f], leaf: [1]}}",
            "components.a.leaf: expected names",
        ),
        (
            "version: 1\ncomponents: {a: {title: A, functions: [], network: 1}}",
            "components.a.network: expected true or false",
        ),
        ("version: 1\ncomponents: {a: {}}", "the key functions, title is missing"),
        (
            "version: 1\ncomponents: {a: {title: A, functions: ['f*g']}}",
            r"names.yaml: 'f\*g' of a: expected a name",
        ),
        (
            "version: 1\ncomponents: {a: {title: A, functions: ['*']}}",
            r"names.yaml: '\*' of a: expected a name",
        ),
        (
            "version: 1\ncomponents: {a: {title: A, functions: [], leaf: ['f*', 'f*']}}",
            r"names.yaml: 'f\*' occurs in a and in a",
        ),
        ("{", "names.yaml: "),
    ],
)
def test_what_is_wrong_in_a_taxonomy_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        _taxonomy(tmp_path, text)
    assert re.search(said.partition(";")[0], str(error.value))


def test_a_taxonomy_has_a_largest_size(tmp_path: Path) -> None:
    good = "version: 1\ncomponents: {}\n"
    assert _taxonomy(tmp_path, good.ljust(1 << 20, "\n")).components == {}
    with pytest.raises(InputError):
        _taxonomy(tmp_path, good.ljust((1 << 20) + 1, "\n"))
