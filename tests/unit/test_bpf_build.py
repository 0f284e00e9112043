"""The eBPF programs: compiled when they must be, read back, and of one mind with the Python side
about every map.
"""

from __future__ import annotations

import struct
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.clusters.lab.ebpf import programs as ebpf_object
from cnibench.clusters.lab.ebpf.maps import ALLOW_ALL, Rule
from cnibench.errors import CnibenchError, MissingError

_ROOT = Path(__file__).parents[2]
_SOURCES = _ROOT / "clusters" / "lab" / "bpf"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder with one small program and a header."""
    (tmp_path / "small.h").write_text("#define ANSWER 42\n")
    (tmp_path / "small.c").write_text(
        '#include <linux/bpf.h>\n#include "small.h"\n'
        "int small(struct __sk_buff *skb) { return skb->len + ANSWER; }\n"
        'char _sources[] __attribute__((section("sources"), used)) = SOURCES;\n'
    )
    return tmp_path


def test_objects_are_made_once_and_again_when_a_source_changes(
    hook: ModuleType, sources: Path
) -> None:
    made = {path.name: path.stat().st_mtime_ns for path in hook.compile_programs(sources)}
    assert list(made) == ["small.o"]
    assert {path.name: path.stat().st_mtime_ns for path in hook.compile_programs(sources)} == made
    with (sources / "small.h").open("a") as header:
        header.write("\n/* changed */\n")
    again = {path.name: path.stat().st_mtime_ns for path in hook.compile_programs(sources)}
    assert all(again[name] != made[name] for name in made)
    assert not list(sources.glob("*.tmp"))


def test_without_clang_old_objects_are_refused_and_current_ones_used(
    hook: ModuleType, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hook.compile_programs(sources)
    monkeypatch.setattr(hook, "clang", lambda: None)
    assert hook.compile_programs(sources) == made
    made[0].unlink()
    with pytest.raises(SystemExit, match="apt-get install clang"):
        hook.compile_programs(sources)


def test_a_program_that_does_not_compile_is_named(hook: ModuleType, sources: Path) -> None:
    (sources / "wrong.c").write_text("int broken(")
    with pytest.raises(SystemExit, match=r"wrong\.c does not compile"):
        hook.compile_programs(sources)
    assert not (sources / "wrong.o").exists()


def test_the_object_has_the_maps_that_the_python_side_writes(hook: ModuleType) -> None:
    hook.compile_programs()
    found = ebpf_object.read_object("cilium")
    assert set(found.programs) == {
        "cil_from_container",
        "cil_lxc_policy",
        "cil_to_overlay",
        "cil_from_overlay",
        "cil_from_netdev",
        "cil_from_host",
    }
    sizes = {name: (item.key_size, item.value_size) for name, item in found.maps.items()}
    assert sizes["cilium_lxc"] == (struct.calcsize("=16sB3x"), struct.calcsize("=IHH6s6sI"))
    assert sizes["cilium_self"] == (4, struct.calcsize("=I4s16sI"))
    assert sizes["cilium_ipcache"] == (struct.calcsize("=IHBB16s"), struct.calcsize("=II"))
    assert sizes["cilium_metrics"] == (struct.calcsize("=BB6x"), struct.calcsize("=QQ"))
    assert sizes["cilium_ct4_global"][0] == 14
    assert sizes["cilium_ct6_global"][0] == 38
    inner = found.maps["cilium_policy"].inner
    assert inner
    assert (inner.key_size, inner.value_size) == (
        len(ALLOW_ALL[0].key()),
        struct.calcsize("=BB6xQQ"),
    )
    assert found.places["config"] == (0, struct.calcsize("=II"))
    assert found.licence == b"Dual BSD/GPL\0"


@given(
    identity=st.integers(0, 2**32 - 1),
    egress=st.booleans(),
    proto=st.integers(0, 255),
    port=st.integers(0, 65535),
)
def test_a_policy_key_wildcards_what_is_left_out(
    identity: int, egress: bool, proto: int, port: int
) -> None:
    rule = Rule(identity, egress, proto, port)
    prefix, packed, direction, protocol = struct.unpack_from("=IIBB", rule.key())
    assert (packed, bool(direction), protocol) == (identity, egress, proto)
    assert struct.unpack_from("!H", rule.key(), 10)[0] == port
    assert prefix == 64 if port else prefix == (48 if proto else 40)


def test_a_broken_object_is_an_error_of_ours(
    hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.compile_programs()
    whole = (_SOURCES / "cilium.o").read_bytes()
    monkeypatch.setattr(ebpf_object, "FOLDER", tmp_path)
    with pytest.raises(MissingError, match=r"cilium\.o is not there") as missing:
        ebpf_object.read_object("cilium")
    assert "apt-get install clang" in missing.value.remedy
    for length in (0, 4, 20, 63, 64, 1000, len(whole) // 2, len(whole) - 64):
        (tmp_path / "cilium.o").write_bytes(whole[:length])
        with pytest.raises(CnibenchError):
            ebpf_object.read_object("cilium")
    (tmp_path / "cilium.o").write_bytes(whole[:5] + b"\x02" + whole[6:])  # the other byte order
    with pytest.raises(MissingError, match="another kind of machine"):
        ebpf_object.read_object("cilium")
