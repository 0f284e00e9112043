"""The log: what is recorded, where it goes, and what never gets into it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.errors import InputError
from cnibench.rundir.files import open_log
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import LOG
from cnibench.rundir.verification import verify
from cnibench.system import log
from cnibench.system import process as programs
from tests.unit._runs import synthetic

TEST = logging.getLogger("cnibench.test")
ENTRY = "import sys; from cnibench.cli.main import main; sys.argv[0] = 'cnibench'; main()"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Handlers of one test do not write in another."""
    root = logging.getLogger("cnibench")
    before, root.handlers[:] = root.handlers[:], []
    yield
    root.handlers[:] = before


def written(folder: Path) -> list[str]:
    return (folder / LOG).read_text().splitlines()


def test_a_file_has_what_was_logged_before_it_existed_and_every_command(tmp_path: Path) -> None:
    log.keep()
    TEST.info("decided early")
    with log.into(open_log(tmp_path)):
        programs.run(["sh", "-c", "exit 3"], timeout=30, check=False)
        with programs.spawn(["sleep", "60"]) as process:
            number = process.pid
    TEST.info("too late")
    lines = written(tmp_path)
    assert lines[0].endswith("INFO test: decided early")
    assert any("DEBUG system.process: started" in line and "'exit 3'" in line for line in lines)
    assert any(" ended with 3 after 0." in line for line in lines)
    assert any(f"process {number} ended with -9 after" in line for line in lines)
    assert not any("too late" in line for line in lines)
    assert (tmp_path / LOG).stat().st_mode & 0o777 == 0o600
    with log.into(open_log(tmp_path)):
        TEST.info("a later session")
    assert len(written(tmp_path)) == len(lines) + 1


def test_a_record_is_one_line_that_no_terminal_obeys(tmp_path: Path) -> None:
    with log.into(open_log(tmp_path)):
        TEST.info("a name\n2026-01-01T00:00:00.000Z INFO run.runner: ok \x1b[2J")
    (line,) = written(tmp_path)
    assert "\\u000a2026" in line
    assert "\x1b" not in line


def test_no_secret_is_logged(tmp_path: Path) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "sesame-of-the-user"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    Access(tmp_path / "config")
    with log.into(open_log(tmp_path)):
        TEST.info("the server said: token sesame-of-the-user is not valid")
        for argv in (
            ["ip", "xfrm", "state", "add", "aead", "rfc4106(gcm(aes))", "0xc0ffee", "128"],
            ["helm", "install", "--password", "0xc0ffee", "--set", "auth.password=0xc0ffee"],
            ["kubectl", "--token=0xc0ffee", "create", "--from-literal=key=0xc0ffee"],
            ["curl", "-d", '{"password": "0xc0ffee"}'],
        ):
            programs.run(["echo", *argv], timeout=30)
    text = (tmp_path / LOG).read_text()
    assert "sesame" not in text
    assert "0xc0ffee" not in text
    assert "rfc4106(gcm(aes))" in text
    assert "helm install" in text


def test_the_log_is_no_evidence_and_no_link_is_followed(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=2)
    with log.into(open_log(run.path)):
        TEST.info("anything")
    before = verify(RunReader(run.path), raw=True)
    (run.path / LOG).write_text("changed")
    assert verify(RunReader(run.path), raw=True) == before
    (run.path / LOG).unlink()
    assert verify(RunReader(run.path), raw=True) == before
    (run.path / LOG).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="symbolic link"):
        open_log(run.path)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "FIFO"])
def test_a_log_that_is_no_file_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / LOG)
    with pytest.raises(InputError) as refused:
        open_log(tmp_path)
    assert str(tmp_path / LOG) in refused.value.message
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["doctor", "--json"], ()),
        (["doctor", "--json", "-v"], ("INFO",)),
        (["doctor", "--json", "-vv"], ("INFO", "DEBUG")),
        (["-v", "doctor", "--json", "--verbose"], ("INFO",)),
    ],
)
def test_verbose_shows_the_log_on_stderr_only(
    arguments: list[str], shown: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import logging, sys\n"
        "from cnibench.cli.commands.environment import doctor\n"
        "from cnibench.cli.main import main\n"
        "def work(**_):\n"
        "    logging.getLogger('cnibench.x').info('a decision')\n"
        "    logging.getLogger('cnibench.x').debug('a command')\n"
        "    print('{}')\n"
        "doctor.command.callback = work\n"
        f"sys.argv = {['cnibench', *arguments]!r}\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "{}\n"
    assert [line.split()[1] for line in done.stderr.splitlines()] == list(shown)


def test_every_command_and_subcommand_takes_verbose() -> None:
    for arguments in (["run"], ["compare"], ["runs", "show"], ["profiles"], ["images", "list"]):
        done = subprocess.run(
            [sys.executable, "-c", ENTRY, *arguments, "--help"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "COLUMNS": "200"},
        )
        assert "-v, --verbose" in done.stdout, arguments
