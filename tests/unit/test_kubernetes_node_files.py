"""The program that removes files of a node: no link is followed, nothing that was there before
goes, nothing of another file system.
"""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.kubernetes.removal import nodes as removal


def ask(root: Path, **asked: Any) -> dict[str, Any]:
    """As a node's agent runs it; an ordinary user's chroot takes a user namespace."""
    argv = [sys.executable, "-I", "-S", "-c", removal._FILES.read_text()]
    argv = argv if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", *argv]
    done = subprocess.run(
        argv,
        input=json.dumps({"root": str(root), **asked}),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    return dict(json.loads(done.stdout))


def remove(
    root: Path,
    *patterns: str,
    kept: tuple[str, ...] = (),
    backups: str = "",
    empty: tuple[str, ...] = (),
) -> list[str]:
    return list(
        ask(root, do="remove", patterns=patterns, kept=kept, backups=backups, empty=empty)["failed"]
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node's files; outside of what a CNI owns is ``etc/passwd``."""
    where = tmp_path / "root"
    for name in (
        "etc/passwd",
        "etc/cni/net.d/10-x.conflist",
        "run/x/a",
        "run/x/deep/b",
        "opt/cni/bin/x",
        "opt/cni/bin/bridge",
    ):
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_text(name)
    return where


def there(root: Path) -> set[str]:
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if not path.is_dir() or path.is_symlink()
    }


def test_what_is_named_goes_and_nothing_else(root: Path) -> None:
    assert remove(root, "/run/x", "/opt/cni/bin/x*", "/etc/cni/net.d/10-x.*", "/run/none") == []
    assert there(root) == {"etc/passwd", "opt/cni/bin/bridge"}
    assert not (root / "run/x").exists()


def test_what_was_there_before_stays_with_its_folders(root: Path) -> None:
    before = ask(root, do="list", kept=[], patterns=["/run/x", "/opt/cni/bin/x"])["found"]
    assert set(before) == {"/run/x", "/run/x/a", "/run/x/deep", "/run/x/deep/b", "/opt/cni/bin/x"}
    (root / "run/x/deep/new").write_text("")
    (root / "run/x/more").mkdir()
    assert remove(root, "/run/x", "/opt/cni/bin/x", kept=tuple(before)) == []
    assert {"run/x/a", "run/x/deep/b", "opt/cni/bin/x"} <= there(root)
    assert not (root / "run/x/deep/new").exists()
    assert not (root / "run/x/more").exists()


def test_results_of_pods_that_are_gone_are_those_of_the_network(root: Path) -> None:
    def kept(name: str, network: str, *spaces: str) -> None:
        path = root / "var/lib/cni/results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        interfaces = [{"name": "cni0"}, *({"name": "eth0", "sandbox": one} for one in spaces)]
        about = {"kind": "cniCacheV1", "networkName": network, "result": {"interfaces": interfaces}}
        path.write_text(json.dumps(about))

    def found(*before: str) -> list[str]:
        asked = ask(root, do="results", networks=["x-net"], kept=before)
        return [Path(one).name for one in asked["found"]]

    (root / "run/netns").mkdir()
    (root / "run/netns/cni-lives").write_text("")
    (root / "etc/cni/net.d/10-x.conflist").write_text('{"name": "x-net", "plugins": []}')
    patterns = ["/etc/cni/net.d/10-x.conflist", "/run/x"]
    assert ask(root, do="networks", patterns=patterns, kept=[])["found"] == ["x-net"]
    kept("gone", "x-net", "/run/netns/cni-gone")
    kept("lives", "x-net", "/run/netns/cni-gone", "/run/netns/cni-lives")
    kept("unknown", "x-net")
    kept("others", "y-net", "/run/netns/cni-gone")
    (root / "var/lib/cni/results/text").write_text("[]")
    (root / "var/lib/cni/results/link").symlink_to("gone")
    assert found() == ["gone"]
    assert found("/var/lib/cni/results/gone") == []


def test_a_link_goes_and_what_it_points_to_stays(root: Path) -> None:
    (root / "run/x/link").symlink_to("../../etc")
    (root / "run/x/absolute").symlink_to("/etc")
    (root / "run/itself").symlink_to("/etc")
    assert remove(root, "/run/x", "/run/itself") == []
    assert "etc/passwd" in there(root)
    assert not (root / "run/itself").is_symlink()


def test_a_folder_on_the_way_that_is_a_link_is_not_followed_and_named(root: Path) -> None:
    (root / "var").mkdir()
    (root / "var/lib").symlink_to("/run")
    assert (
        remove(root, "/var/lib/x", "/var/*/x/a")
        == ["/var/lib is a link, which is not followed"] * 2
    )
    assert "run/x/a" in there(root)


@pytest.mark.parametrize("pattern", ["run/x", "/run/../etc/passwd", "/run/x/.."])
def test_what_is_no_path_from_the_root_is_refused(root: Path, pattern: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        remove(root, pattern)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_another_file_system_stays_and_is_named(root: Path) -> None:
    (root / "run/x/other").mkdir()
    script = 'mount -t tmpfs none "$0/run/x/other" && : > "$0/run/x/other/file" && exec "$@"'
    argv = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        script,
        str(root),
        sys.executable,
        "-I",
        "-S",
        "-c",
        removal._FILES.read_text(),
    ]
    asked = {
        "root": str(root),
        "do": "remove",
        "patterns": ["/run/x"],
        "kept": [],
        "backups": "",
        "empty": [],
    }
    done = subprocess.run(
        argv, input=json.dumps(asked), capture_output=True, text=True, timeout=30, check=True
    )
    assert json.loads(done.stdout)["failed"] == ["/run/x/other is of another file system"]
    assert (root / "run/x/other").is_dir()


def test_backups_get_their_names_back_where_nothing_has_them(root: Path) -> None:
    folder = root / "etc/cni/net.d"
    (folder / "05-mine.conf.cilium_bak").write_text("mine")
    (folder / "10-x.conflist.cilium_bak").write_text("older")
    (folder / "20-link.conf.cilium_bak").symlink_to("/etc/passwd")
    (folder / "30-before.conf.cilium_bak").write_text("before")
    failed = remove(root, backups=".cilium_bak", kept=("/etc/cni/net.d/30-before.conf.cilium_bak",))
    assert (folder / "05-mine.conf").read_text() == "mine"
    assert (folder / "10-x.conflist").read_text() == "etc/cni/net.d/10-x.conflist"
    assert len(failed) == 1
    assert "10-x.conflist.cilium_bak" in failed[0]
    assert not (folder / "20-link.conf").exists()
    assert (folder / "30-before.conf.cilium_bak").exists()


def test_empty_folders_go_unless_they_were_there_before(root: Path) -> None:
    for name in ("a", "b", "c"):
        (root / "var/lib" / name).mkdir(parents=True)
    (root / "var/lib/c/file").write_text("")
    assert (
        remove(root, empty=("/var/lib/a", "/var/lib/b", "/var/lib/c"), kept=("/var/lib/b",)) == []
    )
    assert sorted(path.name for path in (root / "var/lib").iterdir()) == ["b", "c"]


def test_what_is_kept_is_private_and_never_written_through_a_link(root: Path) -> None:
    where = "/var/lib/cnibench/before.json"
    assert ask(root, do="load", path=where)["text"] is None
    ask(root, do="save", path=where, text="{}")
    assert ask(root, do="load", path=where)["text"] == "{}"
    assert (root / where[1:]).stat().st_mode & 0o777 == 0o600
    (root / where[1:]).unlink()
    (root / where[1:]).symlink_to("/etc/passwd")
    ask(root, do="save", path=where, text="new")
    assert (root / "etc/passwd").read_text() == "etc/passwd"
    (root / where[1:]).unlink()
    (root / "var/lib/cnibench").rmdir()
    (root / "var/lib/cnibench").symlink_to("/etc")
    with pytest.raises(ValueError, match=r"NotADirectoryError|OSError"):
        ask(root, do="save", path=where, text="new")
    assert not (root / "etc/before.json").exists()


def archive(
    root: Path, *patterns: str, kept: tuple[str, ...] = (), largest: int = 100, most: int = 1 << 20
) -> tuple[dict[str, tarfile.TarInfo], dict[str, str], list[str]]:
    """(its entries by name, what is unsaved and why, what was found)"""
    asked = {"patterns": patterns, "kept": kept, "largest": largest, "most": most}
    answer = ask(root, do="archive", **asked)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(answer["tar"]))) as opened:
        return {one.name: one for one in opened}, answer["unsaved"], answer["found"]


def test_files_are_archived_with_links_as_links_and_without_what_stays(root: Path) -> None:
    (root / "run/x/link").symlink_to("/etc/passwd")
    (root / "run/x/long").write_text("x" * 101)
    (root / "run/x/\N{LATIN SMALL LETTER E WITH ACUTE}").write_text("name")
    os.mkfifo(root / "run/x/pipe")
    (root / "run/x/deep/b").chmod(0o604)
    saved, unsaved, found = archive(root, "/run/x", "/etc/cni/net.d/10-x.*", kept=("/run/x/a",))
    assert set(saved) == {
        "run/x",
        "run/x/deep",
        "run/x/deep/b",
        "run/x/link",
        "run/x/\N{LATIN SMALL LETTER E WITH ACUTE}",
        "etc/cni/net.d/10-x.conflist",
    }
    assert saved["run/x/link"].issym()
    assert saved["run/x/link"].linkname == "/etc/passwd"
    assert saved["run/x/deep/b"].mode == 0o604
    assert unsaved == {"/run/x/long": "101 bytes", "/run/x/pipe": "a socket, pipe or device"}
    assert set(found) == {f"/{name}" for name in saved} | set(unsaved)


def test_an_archive_is_limited_and_begins_with_what_was_asked_for_first(root: Path) -> None:
    saved, unsaved, _ = archive(root, "/etc/cni/net.d/10-x.*", "/opt/cni/bin/x", most=2000)
    assert set(saved) == {"etc/cni/net.d/10-x.conflist"}
    assert unsaved == {"/opt/cni/bin/x": "more than 2000 bytes together"}
