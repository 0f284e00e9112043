"""An API server's objects in memory, as far as the operations of cnibench go; by HTTP as well, for
which the official client runs as it does on a cluster.

Refusals are those that a real API server gave (tests/golden/kubernetes_api: kind, Kubernetes
1.34.4).
"""

from __future__ import annotations

import contextlib
import http.server
import itertools
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cnibench.clusters.kubernetes.api import kinds
from cnibench.clusters.kubernetes.api.access import DeniedError
from cnibench.clusters.kubernetes.api.client import Answer
from cnibench.clusters.kubernetes.api.operations import Operations
from cnibench.errors import ClusterError

GOLDEN = Path(__file__).parents[1] / "golden" / "kubernetes_api"


def answer(name: str) -> Answer:
    """One that was recorded."""
    kept = json.loads((GOLDEN / f"{name}.json").read_text())
    body = kept["body"]
    return Answer(kept["status"], body, body.get("reason", ""), body.get("message", ""))


class Objects(Operations):
    """``refused`` has beginnings of METHOD PATH and the recorded answer to each; ``asked`` is what
    was asked for.
    """

    context = "lab"

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.refused: dict[str, str] = {}
        self.asked: list[str] = []
        self.dropped: list[str] = []
        self._numbers = itertools.count(1)
        for one in objects:
            self.add(one)

    def add(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Puts an object there; its path is that of its kind."""
        return self._put(f"{self._path(item)}/{item['metadata']['name']}", item)

    def at(self, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        known = kinds.named(kinds.BUILT_IN, kind)
        assert known is not None
        return self.objects.get(known.path(namespace, name))

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout: float = 0.0,
        **_: str,
    ) -> Answer:
        self.asked.append(f"{method} {path}")
        for begin, name in self.refused.items():
            if f"{method} {path}".startswith(begin):
                return answer(name)
        where, query = urlsplit(path).path, parse_qs(urlsplit(path).query)
        if where in ("/apis", "/version"):
            return answer("groups" if where == "/apis" else "version")
        if method == "POST":
            assert body is not None
            where = f"{where}/{body['metadata']['name']}"
            return (
                answer("already-exists")
                if where in self.objects
                else Answer(201, self._put(where, body))
            )
        if method == "PATCH" and "fieldManager" in query:
            assert body is not None
            there = self.objects.get(where, {})
            meta = {**there.get("metadata", {}), **body["metadata"]}
            return Answer(200, self._put(where, {**there, **body, "metadata": meta}))
        if where in self.objects:
            return self._one(method, where, body)
        if method == "GET" and re.search(r"/[a-z]+$", where) and self._of(where) is not None:
            return Answer(200, {"items": list(self._listed(where, query)), "metadata": {}})
        return answer("not-found")

    def refusal(self, answer: Answer, what: str) -> ClusterError:
        words = f"{what}: {answer.message or answer.status}"
        return DeniedError(words) if answer.status in (401, 403) else ClusterError(words)

    def hidden(self, text: str) -> str:
        return text

    def close(self) -> None:
        """As Access."""

    def _one(self, method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        there = self.objects[path]
        if method == "DELETE":
            uid = ((body or {}).get("preconditions") or {}).get("uid")
            if uid and uid != there["metadata"]["uid"]:
                return answer("other-uid")
            return Answer(200, self.objects.pop(path))
        if method == "PATCH":
            assert body is not None
            return Answer(200, self._put(path, _merged(there, body)))
        if method == "PUT":
            assert body is not None
            return Answer(200, self._put(path, body))
        return Answer(200, there)

    def _put(self, path: str, item: Mapping[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        meta = {"uid": f"uid-{number}", **item["metadata"], "resourceVersion": str(number)}
        self.objects[path] = {**item, "metadata": meta}
        return self.objects[path]

    def _of(self, path: str) -> kinds.Kind | None:
        return kinds.named([*kinds.BUILT_IN, *GROUPS], path.rpartition("/")[2])

    def _listed(self, path: str, query: Mapping[str, list[str]]) -> Iterator[dict[str, Any]]:
        kind = self._of(path)
        assert kind is not None
        root, _, plural = path.rpartition("/")
        for at, item in list(self.objects.items()):
            place, _, _name = at.rpartition("/")
            within = place == path or (
                "/namespaces/" not in root
                and place.startswith(f"{root}/namespaces/")
                and place.endswith(f"/{plural}")
            )
            if within and _fits(item, query.get("labelSelector", [""])[0]):
                yield item


def _fits(item: Mapping[str, Any], selector: str) -> bool:
    labels = item["metadata"].get("labels") or {}
    if match := re.fullmatch(r"(\S+) in \((.*)\)", selector):
        return labels.get(match[1]) in match[2].split(",")
    for part in selector.split(",") if selector else ():
        key, equal, value = part.partition("=")
        if key not in labels or (equal and labels[key] != value):
            return False
    return True


def _merged(there: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(there)
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            found[key] = _merged(there.get(key) or {}, value)
        else:
            found[key] = value
    return found


GROUPS = kinds.discovered(answer("groups").body)


@contextlib.contextmanager
def serving(answering: Any) -> Iterator[str]:
    """The address of an API server whose answers are those of ``answering.call``."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            if "watch=1" in self.path and hasattr(answering, "stream"):
                self._watch()
                return
            given = answering.call(self.command, self.path, body, headers=self.headers)
            text = (given.text or json.dumps(given.body)).encode()
            self.send_response(given.status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _watch(self) -> None:
            refused = answering.refused.get("WATCH")
            self.send_response(answer(refused).status if refused else 200)
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            if refused:
                self.wfile.write(json.dumps(answer(refused).body).encode())
                return
            with contextlib.suppress(OSError):
                for line in answering.stream(self.path):
                    self.wfile.write(line)
                    self.wfile.flush()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def kubeconfig(folder: Path, server: str, user: Mapping[str, Any] | None = None) -> Path:
    """One with the context ``lab``."""
    config: dict[str, Iterable[Any] | str] = {
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
        "clusters": [{"name": "lab", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": user or {"token": "very-secret-token"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path
