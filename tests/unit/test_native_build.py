"""The programs of user space: compiled when they must be, refused in words when they cannot be
used.
"""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from cnibench.clusters.lab.daemons import processes as daemons
from cnibench.errors import ClusterError, MissingError


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "small.c").write_text(
        "const char sources[] = SOURCES;\nint main(void) { return sources[0] == 0; }\n"
    )
    return folder


def test_programs_are_made_once_and_again_when_a_source_changes(
    hook: ModuleType, sources: Path
) -> None:
    made = {path.name: path.stat().st_mtime_ns for path in hook.compile_native(sources)}
    assert list(made) == ["small.elf"]
    assert {path.name: path.stat().st_mtime_ns for path in hook.compile_native(sources)} == made
    with (sources / "small.c").open("a") as source:
        source.write("/* changed */\n")
    assert all(path.stat().st_mtime_ns != made[path.name] for path in hook.compile_native(sources))
    assert not list(sources.glob("*.tmp"))


def test_without_a_compiler_the_remedy_is_named(
    hook: ModuleType, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hook.compile_native(sources)
    monkeypatch.setattr(hook.shutil, "which", lambda name: None)
    assert hook.compile_native(sources) == made  # up to date: none is needed
    made[0].unlink()
    with pytest.raises(SystemExit, match="apt-get install gcc"):
        hook.compile_native(sources)


def test_one_for_another_architecture_is_made_again(hook: ModuleType, sources: Path) -> None:
    made = hook.compile_native(sources)[0]
    whole = made.read_bytes()
    assert hook.architecture(made) == platform.machine()
    other = 62 if platform.machine() == "aarch64" else 183
    made.write_bytes(whole[:18] + other.to_bytes(2, "little") + whole[20:])  # of a shared checkout
    assert hook.architecture(made) != platform.machine()
    assert hook.compile_native(sources) == [made]
    assert hook.architecture(made) == platform.machine()


@pytest.mark.parametrize(
    ("machine", "tag"), [(62, "manylinux_2_17_x86_64"), (183, "manylinux_2_17_aarch64")]
)
def test_a_wheel_is_for_the_architecture_of_its_programs(
    hook: ModuleType, machine: int, tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "small.elf"
    program.write_bytes(bytes(18) + machine.to_bytes(2, "little"))
    monkeypatch.setattr(hook, "compile_native", lambda: [program])
    wheel = hook.BdistWheel(hook.WithPrograms({"name": "cnibench"}))
    wheel.finalize_options()
    assert wheel.get_tag() == ("py3", "none", tag)
    assert not wheel.root_is_pure
    program.write_bytes(bytes(20))  # another machine's: what setuptools says, never "any"
    assert wheel.get_tag()[2] not in ("any", tag)


def test_a_program_that_does_not_compile_is_named(hook: ModuleType, sources: Path) -> None:
    (sources / "wrong.c").write_text("int broken(")
    with pytest.raises(SystemExit, match=r"wrong\.c does not compile"):
        hook.compile_native(sources)


@pytest.mark.parametrize("name", ["flannel_udp", "weave_sleeve"])
def test_ours_compile_and_explain_themselves(
    hook: ModuleType, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.compile_native()
    monkeypatch.setattr(daemons, "_HOME", tmp_path / "home")
    path = daemons.program(name)
    done = subprocess.run([path], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
    assert daemons.program(name) == path  # it may be asked for again while it runs


def test_one_that_is_missing_or_for_another_machine_is_refused(
    hook: ModuleType, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "_FOLDER", sources)
    monkeypatch.setattr(daemons, "_HOME", sources / "home")
    with pytest.raises(MissingError, match=r"small\.elf is not there"):
        daemons.program("small")
    whole = hook.compile_native(sources)[0].read_bytes()
    for damaged in (b"", whole[:19], whole[:18] + b"\xff\xff" + whole[20:]):
        (sources / "small.elf").write_bytes(damaged)
        with pytest.raises(MissingError, match="another kind of machine"):
            daemons.program("small")


def test_waiting_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "_HOME", tmp_path)
    with pytest.raises(ClusterError, match=r"something: not within 0\.05 s") as told:
        daemons.Daemons(1).wait("something", lambda: False, 0.05, "do this")
    assert told.value.remedy == "do this"
