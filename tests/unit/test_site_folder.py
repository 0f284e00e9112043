"""`site --out` into a folder that holds other things: what it replaces, what it keeps, what it
refuses.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cnibench.errors import InputError, UsageError
from cnibench.reports.site.publication import folder
from cnibench.reports.site.publication.folder import LIST
from cnibench.system import scratch
from tests.unit._call import Outcome, call
from tests.unit._runs import synthetic

ALL = {"flannel": 1.0, "cilium": 1.1}


def site(tmp_path: Path, *more: str, profiles: tuple[str, ...] = tuple(ALL)) -> Outcome:
    run = tmp_path / "-".join(profiles)
    if not run.exists():
        synthetic(
            tmp_path,
            {name: ALL[name] for name in profiles},
            blocks=2,
            name=run.name,
            workloads=("tcp-rr",),
            placements=("intra",),
            cpp=False,
        )
    return call(["site", str(run), "--out", str(tmp_path / "site"), *more])


def tree(path: Path) -> dict[str, bytes]:
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file()
    }


def draft(tmp_path: Path, name: str, **files: str) -> Path:
    path = tmp_path / name
    for file, text in files.items():
        (path / file.replace("__", "/")).parent.mkdir(parents=True, exist_ok=True)
        (path / file.replace("__", "/")).write_text(text)
    return path


def test_what_cnibench_did_not_write_stays(tmp_path: Path) -> None:
    assert site(tmp_path).exit_code == 0
    out = tmp_path / "site"
    (out / ".git").mkdir()
    (out / ".git/HEAD").write_text("ref: refs/heads/pages\n")
    (out / "CNAME").write_text("cni.example.org\n")
    (out / "charts/mine.svg").write_text("<svg/>")
    done = site(tmp_path, profiles=("cilium",))
    assert done.exit_code == 0, done.stderr
    assert (out / ".git/HEAD").read_text() == "ref: refs/heads/pages\n"
    assert (out / "CNAME").read_text() == "cni.example.org\n"
    assert (out / "charts/mine.svg").read_text() == "<svg/>"
    assert not (out / "profile-flannel.html").exists(), "a stale page of ours goes"
    assert not (out / "versus-flannel-cilium.html").exists()
    assert "flannel" not in (out / "index.html").read_text()
    assert sorted(json.loads((out / LIST).read_text())["files"]) == sorted(
        set(tree(out)) - {LIST, "CNAME", ".git/HEAD", "charts/mine.svg"}
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cilium",
        "flannel-cilium",
        "site",
    ], "no draft is left"


def test_a_first_site_beside_files_of_others(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/CNAME").write_text("cni.example.org\n")
    assert site(tmp_path).exit_code == 0
    assert (tmp_path / "site/CNAME").read_text() == "cni.example.org\n"


def test_an_edited_page_is_named_and_kept(tmp_path: Path) -> None:
    site(tmp_path)
    out = tmp_path / "site"
    for name in ("index.html", "profile-flannel.html"):
        (out / name).write_text("mine now")
    for _ in range(2):  # it is still known as edited afterwards
        done = site(tmp_path, profiles=("cilium",))
        assert done.exit_code == 0, done.stderr
        for name in ("index.html", "profile-flannel.html"):
            assert f"{out / name}: was edited" in done.stderr
            assert (out / name).read_text() == "mine now"
    told = json.loads(site(tmp_path, "--json", profiles=("cilium",)).stdout)
    assert told["kept"] == ["index.html", "profile-flannel.html"]
    done = site(tmp_path, "--force", profiles=("cilium",))
    assert done.exit_code == 0
    assert "was edited" not in done.stderr
    assert "mine now" not in (out / "index.html").read_text()
    assert not (out / "profile-flannel.html").exists()


def test_a_file_of_somebody_else_in_the_way_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "site"
    out.mkdir()
    (out / "index.html").write_text("my home page")
    done = site(tmp_path)
    assert done.exit_code == 2
    assert "index.html" in done.stderr
    assert tree(out) == {"index.html": b"my home page"}, "nothing else was written either"
    assert site(tmp_path, "--force").exit_code == 0
    assert "my home page" not in (out / "index.html").read_text()


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("place", ["index.html", "charts", "data/report.json", LIST])
def test_no_link_is_followed(tmp_path: Path, place: str, force: tuple[str, ...]) -> None:
    out, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    if place == "charts":
        elsewhere.mkdir()
    else:
        elsewhere.write_text("precious")
    (out / place).parent.mkdir(parents=True)
    (out / place).symlink_to(elsewhere)
    done = site(tmp_path, *force)
    assert done.exit_code == 2
    assert str(out / place) in done.stderr
    assert (
        list(elsewhere.iterdir()) == []
        if elsewhere.is_dir()
        else elsewhere.read_text() == "precious"
    )
    assert sorted(tree(out)) == ([] if place == "charts" else [place])


@pytest.mark.parametrize("place", ["index.html", "data"])
def test_a_folder_or_fifo_where_a_file_belongs_is_refused(tmp_path: Path, place: str) -> None:
    out = tmp_path / "site"
    out.mkdir()
    os.mkfifo(out / place)
    done = site(tmp_path, "--force")
    assert done.exit_code == 2
    assert place in done.stderr
    (out / place).unlink()
    (out / "index.html").mkdir()
    assert site(tmp_path, "--force").exit_code == 2
    assert [path.name for path in out.iterdir()] == ["index.html"]


def test_a_site_of_an_older_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "site"
    out.mkdir()
    for name in ("cnibench-site.json", "index.html", "CNAME"):
        (out / name).write_text("{}")
    done = site(tmp_path)
    assert done.exit_code == 2
    assert "older cnibench" in done.stderr
    assert "new folder" in done.stderr
    assert sorted(tree(out)) == ["CNAME", "cnibench-site.json", "index.html"]


@pytest.mark.parametrize(
    "files",
    [{"../victim": ["0" * 64]}, {"/etc/hostname": ["0"]}, {"a/../../victim": ["0"]}, {"": ["0"]}],
)
def test_a_list_that_names_files_elsewhere_is_refused(
    tmp_path: Path, files: dict[str, list[str]]
) -> None:
    out = draft(tmp_path, "site", **{LIST: json.dumps({"schema": 1, "runs": [], "files": files})})
    with pytest.raises(InputError, match="not a path inside"):
        folder.check(out)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"schema": 1, "runs": [], "files": []}',
        '{"schema": 9, "runs": [], "files": {}}',
    ],
)
def test_a_list_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError):
        folder.check(draft(tmp_path, "site", **{LIST: text}))


def test_a_crash_at_any_moment_leaves_a_list_for_the_next_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every operation that changes the folder fails once; what was ours before or after is then
    still replaced, the rest stays.
    """
    old = draft(tmp_path, "old", a="a1", b="b1", deep__stale="s", same="same")
    new = draft(tmp_path, "new", a="a2", b="b2", fresh__c="c", same="same")
    real = {name: getattr(os, name) for name in ("replace", "unlink", "rmdir", "mkdir", "fsync")}
    crashes = 0
    for number in range(100):
        out = tmp_path / f"out-{number}"
        folder.place(old, out, ["one"])
        (out / "mine").write_text("mine")
        left = [number]

        def crash(name: str, left: list[int] = left) -> object:
            def operation(*given: object, **more: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
                return real[name](*given, **more)

            return operation

        with monkeypatch.context() as broken:
            for name in real:
                broken.setattr(os, name, crash(name))
            try:
                folder.place(new, out, ["two"])
            except KeyboardInterrupt:
                crashes += 1
        placed = folder.place(new, out, ["two"])
        assert placed.kept == []
        assert {name: data for name, data in tree(out).items() if name != LIST} == {
            **tree(new),
            "mine": b"mine",
        }
        assert not (out / "deep").exists()
        if left[0] >= 0:
            break
    assert crashes > 10


def test_a_draft_whose_process_was_killed_goes_with_the_next_site(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from cnibench.reports.site import build\n"
        "build._pictures = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from cnibench.cli.main import main; main()"
    )
    (tmp_path / ".site.mine.new").mkdir()
    assert site(tmp_path).exit_code == 0  # makes the run
    before = set(os.listdir(tmp_path))
    words = ["site", str(tmp_path / "-".join(ALL)), "--out", str(tmp_path / "site")]
    killed = subprocess.run([sys.executable, "-c", script, *words], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    (stale,) = set(os.listdir(tmp_path)) - before
    assert stale.startswith(".site.")
    with scratch.folder(tmp_path / "site") as live:  # of another process, still at work
        assert site(tmp_path).exit_code == 0
        assert set(os.listdir(tmp_path)) == {*before, live.name}
    assert set(os.listdir(tmp_path)) == before


def test_a_page_that_the_user_removed_is_written_again(tmp_path: Path) -> None:
    pages = draft(tmp_path, "pages", a="a", deep__b="b")
    out = tmp_path / "out"
    folder.place(pages, out, [])
    (out / "deep/b").unlink()
    assert folder.place(pages, out, []) == folder.Placed([], [], 2)
    assert (out / "deep/b").read_text() == "b"
    with pytest.raises(UsageError, match="not a folder"):
        folder.check(out / "a")
