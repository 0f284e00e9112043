"""Fixtures that several files' tests use."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cnibench.analysis import Analysis
    from tests.unit._tampering import Keys

_MEMORY = Path("/dev/shm")
_ROOM = 2 << 30  # bytes; all tests together write a fifth of it, and what passed is removed


def _suitable(folder: Path) -> bool:
    """With room, and with programs that may be executed."""
    if not folder.is_dir() or shutil.disk_usage(folder).free < _ROOM:
        return False
    return not os.statvfs(folder).f_flag & os.ST_NOEXEC


# Ten thousand folders take seconds to make on a disk, and no test needs them there.
if _suitable(_MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of the files, wherever a worker began to collect (tests/conftest.py)."""
    items.sort(key=lambda item: item.path)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of 0.2 s whose programs are slow to start on a busy machine does not fail, and a
    host that takes much of the CPU time does not disturb it.
    """
    monkeypatch.setattr("cnibench.run.windows.sample._SHORTEST", 30.0)
    monkeypatch.setattr("cnibench.run.checks.stalls.STEAL", math.inf)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a test stores a run; not created yet."""
    return tmp_path / "run"


@pytest.fixture(scope="session")
def empty_analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """An analysis without results: a test adds its own."""
    import msgspec

    from cnibench.analysis import analyse  # most tests do not need numpy
    from tests.unit._runs import synthetic

    run = synthetic(
        tmp_path_factory.mktemp("claims"),
        {"flannel": 1.0},
        blocks=1,
        cpp=False,
        placements=("intra",),
        workloads=("tcp-rr",),
    )
    return msgspec.structs.replace(analyse([run]), results=[], pairs=[], groups=[], cpp=[])


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """A bundle that its owner signed, and the keys of the owner and of a stranger."""
    from tests.unit._tampering import make_keys  # computes the figures of a bundle

    return make_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two sessions, with records and raw output."""
    from tests.fuzz.stored_run import build

    path = tmp_path_factory.mktemp("stored") / "run"
    build(path, 1, finished=True)
    return path


@pytest.fixture
def run(stored: Path, tmp_path: Path) -> Path:
    """A copy: each test damages it in another way."""
    return shutil.copytree(stored, tmp_path / "run")


@pytest.fixture(scope="session", autouse=True)
def _unsynced() -> Iterator[None]:
    """Without waiting for the disk: no test can cut the power, and there are thousands of files."""
    with pytest.MonkeyPatch.context() as patched:
        # A descriptor that is closed is an error as before.
        patched.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session", autouse=True)
def _drawn_once(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[None]:
    """Many sites have the same charts, and the same script, which takes a second of CPU time to
    bundle: the worker that needs one first draws it for all.
    """
    import vl_convert

    folder = tmp_path_factory.getbasetemp().parent  # of all workers
    with pytest.MonkeyPatch.context() as patched:
        if hasattr(request.config, "workerinput"):
            for name in ("javascript_bundle", "vegalite_to_svg", "svg_to_png"):
                patched.setattr(vl_convert, name, _shared(getattr(vl_convert, name), folder))
        yield


def _shared(draw: Callable[..., str | bytes], folder: Path) -> Callable[..., str | bytes]:
    """``draw``, which keeps in the folder what it returned for the same arguments."""

    def shared(*given: object, **named: object) -> str | bytes:
        key = hashlib.sha256(json.dumps([given, named]).encode()).hexdigest()
        file = folder / f"{draw.__name__}-{key}"
        if not file.exists():
            own = file.with_name(f"{file.name}.{os.getpid()}")
            own.write_bytes(pickle.dumps(draw(*given, **named)))
            own.rename(file)
        drawn: str | bytes = pickle.loads(file.read_bytes())
        return drawn

    return shared


@pytest.fixture(scope="session")
def hook() -> ModuleType:
    """setup.py, which compiles the programs."""
    file = Path(__file__).parents[2] / "setup.py"
    spec = importlib.util.spec_from_file_location("cnibench_setup", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
