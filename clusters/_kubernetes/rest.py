"""Requests to the API server that kubectl has no words for: a deletion by UID, a listing of metadata alone.

They go through one ``kubectl proxy``, which has the context's credentials, on a socket that nobody else can reach.
"""

from __future__ import annotations

import http.client
import json
import socket
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cnibench import exec as programs
from cnibench.clusters._kubernetes.access import DENIED, UNREACHABLE, Access, DeniedError, UnreachableError
from cnibench.errors import ClusterError
from cnibench.exec import Process

APPLIER = "cnibench"  # our name as a field manager (metadata.managedFields)
_START = 15.0  # s
_ANSWER = 60.0  # s
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_UNSERVED = (404, 405, 503)
_PAGE = 500  # objects in one answer

Object = dict[str, Any]


class Rest:
    """One connection, to be used as a context manager and by one thread."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._process: Process | None = None
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Rest:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def get(self, path: str) -> Object | None:
        """One object with its managed fields, None when there is none. Raises ClusterError and its kinds."""
        status, answer = self._request("GET", path)
        return None if status == 404 else self._checked(status, answer, path)

    def kinds(self, api: str) -> list[Object]:
        """The kinds of a group's version; none while the server that has that group is down. Raises ClusterError and its kinds."""
        path = f"/apis/{api}" if "/" in api else f"/api/{api}"
        status, answer = self._request("GET", path)
        return [] if status in _UNSERVED else list(self._checked(status, answer, path).get("resources") or ())

    def metadata(self, path: str) -> list[Object] | None:
        """The metadata of all objects of a kind; None when they cannot be listed now. Raises ClusterError and its kinds."""
        found: list[Object] = []
        more = ""
        while True:
            status, answer = self._request("GET", f"{path}?limit={_PAGE}{more}", accept=_METADATA)
            if status in _UNSERVED or (status == 500 and "conversion webhook" in str(answer)):
                return None
            page = self._checked(status, answer, path)
            found += page.get("items") or ()
            token = page.get("metadata", {}).get("continue")
            if not token:
                return found
            more = f"&continue={token}"

    def create(self, path: str, item: Mapping[str, Any]) -> Object:
        """Raises ClusterError when it exists already."""
        status, answer = self._request("POST", f"{path}?fieldManager={APPLIER}", item)
        return self._checked(status, answer, path)

    def apply(self, path: str, item: Mapping[str, Any]) -> Object:
        """Server-side apply; the object as it is then, with its UID. Raises ClusterError and its kinds."""
        query = f"?fieldManager={APPLIER}&force=true&fieldValidation=Strict"
        status, answer = self._request("PATCH", path + query, item, content="application/apply-patch+yaml")
        return self._checked(status, answer, path)

    def patch(self, path: str, change: Mapping[str, Any]) -> bool:
        """A merge patch; False when the object is gone, or is not the one whose metadata.uid ``change`` has."""
        status, answer = self._request("PATCH", path, change, content="application/merge-patch+json")
        if status in (404, 409) or (status == 422 and "metadata.uid" in str(answer)):
            return False
        self._checked(status, answer, path)
        return True

    def delete(self, path: str, uid: str, propagation: str = "Background") -> bool:
        """Asks for its end if it has this UID; False when that object is gone. Raises ClusterError and its kinds."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}, "propagationPolicy": propagation}
        status, answer = self._request("DELETE", path, options)
        if status == 404 or (status == 409 and "UID in the precondition" in str(answer)):
            return False
        self._checked(status, answer, path)
        return True

    def _checked(self, status: int, answer: Object, path: str) -> Object:
        if status < 400:
            return answer
        said = self.access.hidden(str(answer.get("message") or answer))
        words = f"{path}: {said}"
        if status in (401, 403) or any(sign in said for sign in DENIED):
            return _raise(DeniedError(words, f"give the user of the context '{self.access.context}' that right"))
        if status >= 500 and any(sign in said for sign in UNREACHABLE):
            return _raise(UnreachableError(f"the API server of the context '{self.access.context}' does not answer: {said}"))
        return _raise(ClusterError(words))

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, content: str = "application/json", accept: str = ""
    ) -> tuple[int, Object]:
        """Once more on a new connection when the first one broke: all requests but POST may be made twice."""
        headers = {"Content-Type": content, "Accept": accept or "application/json"}
        text = None if body is None else json.dumps(body)
        for last in (False, True):
            try:
                connection = self._open()
                connection.request(method, path, text, headers)
                response = connection.getresponse()
                return response.status, _decoded(response.read())
            except (OSError, http.client.HTTPException) as error:
                self._close()
                if last or method == "POST":
                    raise UnreachableError(
                        f"the connection to the API server of the context '{self.access.context}' broke: {error}",
                        "is the cluster up? kubectl get nodes",
                    ) from None
        raise AssertionError

    def _open(self) -> http.client.HTTPConnection:
        """The proxy's socket has no name any more once we are connected: nothing stays, whatever ends us."""
        if self._connection is not None:
            return self._connection
        with tempfile.TemporaryDirectory(prefix="cnibench-api-") as folder:
            path, log = Path(folder) / "socket", Path(folder) / "stderr"
            self._process = programs.spawn(self.access.command("proxy", f"--unix-socket={path}", "--reject-methods=^$"), stderr=log)
            self._connection = _connected(path, self._process, log)
        return self._connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        process, self._process = self._process, None
        if connection is not None:
            connection.close()
        if process is not None:
            process.kill()


class _Unix(http.client.HTTPConnection):
    def __init__(self, channel: socket.socket) -> None:
        super().__init__("localhost", timeout=_ANSWER)
        self.sock = channel
        self.auto_open = 0  # the name of the socket is gone


def _connected(path: Path, process: Process, log: Path) -> _Unix:
    deadline = time.monotonic() + _START
    while process.poll() is None and time.monotonic() < deadline:
        channel = socket.socket(socket.AF_UNIX)
        channel.settimeout(_ANSWER)
        try:
            channel.connect(str(path))
        except OSError:
            channel.close()
            time.sleep(0.02)
            continue
        return _Unix(channel)
    process.kill()
    raise ClusterError(
        f"kubectl proxy does not start: {log.read_text(errors='replace').strip()[-500:] or 'it says nothing'}", "does 'kubectl proxy' work?"
    )


def _decoded(data: bytes) -> Object:
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"message": data.decode(errors="replace").strip()[:500]}


def _raise(error: ClusterError) -> Object:
    raise error
