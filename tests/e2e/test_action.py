"""The GitHub action: its steps as a runner executes them, on a run in the lab."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests._steps import Runner, named

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
# Seven undisturbed blocks are significant even beside a second test, of the windows of perf that
# fail; on a busy machine some blocks are disturbed, and some windows fail.
SHORT = "--placement=inter\n--workload=tcp-rr\n--duration=200ms\n--blocks=10\n"


class GitHub(BaseHTTPRequestHandler):
    """The part of GitHub's API that the action uses: comments of pull request 7, in pages.

    Of the API's description (https://docs.github.com/rest/issues/comments): paths, methods, keys.
    """

    comments: list[dict[str, Any]]
    forbidden = False
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, document: object) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        assert url.path == "/repos/me/cni/issues/7/comments"
        assert self.headers["Authorization"] == "Bearer a-token"
        wanted = {key: int(values[0]) for key, values in parse_qs(url.query).items()}
        first = (wanted["page"] - 1) * wanted["per_page"]
        self.answer(200, self.comments[first : first + wanted["per_page"]])

    def do_POST(self) -> None:
        body = self.body()
        if self.forbidden:
            self.answer(403, {"message": "Resource not accessible by integration"})
            return
        assert self.path == "/repos/me/cni/issues/7/comments"
        self.comments.append({"id": 1000 + len(self.comments), **body})
        self.answer(201, self.comments[-1])

    def do_PATCH(self) -> None:
        number = int(self.path.removeprefix("/repos/me/cni/issues/comments/"))
        (comment,) = (one for one in self.comments if one["id"] == number)
        comment |= self.body()
        self.answer(200, comment)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def github() -> Iterator[tuple[str, type[GitHub]]]:
    """Its address, and what it has: 150 comments of others."""
    others = [{"id": n, "body": f"Comment {n}"} for n in range(150)]
    kind = type("OnePullRequest", (GitHub,), {"comments": others})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", kind
        server.shutdown()


def action(folder: Path, api: str = "", **inputs: str) -> Runner:
    """A job that uses the action with these inputs; those that are not given have defaults."""
    values = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
    values |= {name.replace("_", "-"): value for name, value in inputs.items()} | {
        "token": "a-token"
    }
    program = folder / "bin"
    program.mkdir(parents=True)
    (program / "cnibench").write_text(
        f"#!{sys.executable}\nfrom cnibench.cli.main import main\nmain()\n"
    )
    (program / "cnibench").chmod(0o755)
    event = {"pull_request": {"number": 7}}
    env = {
        "PATH": f"{program}:/usr/sbin:/usr/bin:/sbin:/bin",
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_API_URL": api,
        "GITHUB_REPOSITORY": "me/cni",
    }
    return Runner(folder, {"inputs": values, "github": {"event": event}}, env)


def test_a_regression_is_commented_and_fails_the_job(
    tmp_path: Path, github: tuple[str, type[GitHub]]
) -> None:
    api, server = github
    job = action(tmp_path, api, base="flannel", candidate="flannel-udp", arguments=SHORT)
    install, measure, judge, comment, verdict = STEPS
    assert job.run(install) == (0, "")  # it is there already
    status, said = job.run(measure)
    assert status == 0, said
    status, said = job.run(judge)
    assert status == 0, said
    assert job.context["steps"]["judge"]["outputs"]["status"] == "4"

    for _ in range(2):  # the second run changes the comment of the first
        assert job.run(comment) == (0, "")
        assert len(server.comments) == 151
        text = server.comments[-1]["body"]
        assert text.startswith("<!-- cnibench lab flannel flannel-udp -->\n**cnibench: worse**")
        assert "tcp-rr" in text
    assert job.run(verdict) == (4, "::error title=cnibench::the candidate is worse than the base\n")
    assert "**cnibench: worse**" in job.summary.read_text()
    functions = text.partition("Kernel functions whose cycles per packet differ most")[2]
    assert "tun_" in functions  # flannel-udp sends each packet through a program

    job.context["inputs"]["threshold"] = "99.9%"  # the same run, and a tolerant gate
    assert job.run(judge)[0] == 0
    assert job.run(comment) == (0, "")
    assert "**cnibench: within the threshold**" in server.comments[-1]["body"]
    assert job.run(verdict) == (0, "")

    server.forbidden = True  # the token of a fork's pull request
    server.comments.clear()
    status, said = job.run(comment)
    assert status == 0
    assert said.startswith(
        "::warning title=cnibench::the pull request has no comment: HTTP Error 403"
    )


def test_a_job_that_measures_nothing_fails(tmp_path: Path) -> None:
    job = action(tmp_path, base="flannel", candidate="no-such-profile")
    status, said = job.run(named(STEPS, "Measure"))
    assert status == 2
    assert "no-such-profile" in said


def test_inputs_become_arguments_word_by_word(tmp_path: Path) -> None:
    several = "mtu=1400\n\ntext=$(id) two words\n"
    job = action(
        tmp_path, base="a", candidate="b c", candidate_settings=several, arguments="--name=x y"
    )
    program = tmp_path / "bin" / "cnibench"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 3\n')
    status, said = job.run(named(STEPS, "Measure"))
    assert status == 3
    words = said.splitlines()
    assert words[:7] == ["run", "--cni", "base=a", "--cni", "candidate=b c", "--cluster", "lab"]
    settings = ["--set=candidate:mtu=1400", "--set=candidate:text=$(id) two words"]
    assert words[9:] == [*settings, "--blocks", "12", "--name=x y"]
