"""Requests to an API server by the official client (the package kubernetes): one pool of kept
connections, and credentials that are read once. Answers have a status and a reason; none is raised.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from cnibench import __version__
from cnibench.system import scratch

_log = logging.getLogger(__name__)
JSON = "application/json"
TEXT = "*/*"  # of a log
_NAME = f"cnibench/{__version__}"
UNREACHABLE = "Unreachable"  # our reason where no API server gave one
_CONNECTIONS = 16  # kept at the same time; the questions about rights need eight
_PATIENT = 3600.0  # s that a watch may be silent


@dataclass(frozen=True)
class Answer:
    """``status`` is that of HTTP, 0 when there was no answer; ``reason`` the API's, or why there
    was none. ``text`` is a body that is no JSON.
    """

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    message: str = ""
    text: str = ""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def silent(self) -> bool:
        """Did the API server not answer, or say that it cannot now?"""
        return self.status == 0 or self.status >= 500 or self.status == 429


@dataclass(frozen=True)
class User:
    """Where the credentials are. Without ``files`` they are those of the Pod that this process runs
    in. ``impersonated`` are the headers for the user whom it acts as.
    """

    files: tuple[Path, ...]
    context: str
    impersonated: Sequence[tuple[str, str]] = ()


class Api:
    """One API server, as one user. The package is imported at the first request."""

    def __init__(self, user: User) -> None:
        self._user = user
        self._lock = threading.Lock()
        self._stack = ExitStack()  # of the files that the credentials are in
        self._client: Any = None

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout: float = 10.0,
        *,
        content: str = JSON,
        accept: str = JSON,
    ) -> Answer:
        """One request. All that goes wrong is in the answer."""
        began = time.monotonic()
        answer = self._call(method, path, body, timeout, content, accept)
        if answer.status == 401 and self._client is not None and self._renewed():
            answer = self._call(method, path, body, timeout, content, accept)
        _log.debug(
            "%s %s: %s after %.3f s",
            method,
            path,
            f"{answer.status} {answer.reason}".rstrip(),
            time.monotonic() - began,
        )
        return answer

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        timeout: float,
        content: str,
        accept: str,
    ) -> Answer:
        import urllib3

        text = None if body is None else json.dumps(body).encode()
        try:
            client = self._started()
            headers = self.headers(**{"Content-Type": content, "Accept": accept})
            response = client.rest_client.pool_manager.request(
                method,
                client.configuration.host + path,
                body=text,
                headers=headers,
                timeout=urllib3.Timeout(total=timeout),
                retries=False,
                redirect=False,
            )
        except UnusableError as error:
            return Answer(0, reason=UNREACHABLE, message=str(error))
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            return Answer(0, reason=UNREACHABLE, message=_words(error))
        if accept == TEXT and response.status == 200:
            return Answer(200, text=response.data.decode(errors="replace"))
        return answered(response.status, response.data)

    def watch(self, path: str) -> Watching:
        """The lines of a request that does not end. Raises nothing: a refusal is in ``refused``."""
        import urllib3

        try:
            client = self._started()
            response = client.rest_client.pool_manager.request(
                "GET",
                client.configuration.host + path,
                headers=self.headers(Accept=JSON),
                timeout=urllib3.Timeout(connect=10.0, read=_PATIENT),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except UnusableError as error:
            return Watching(None, Answer(0, reason=UNREACHABLE, message=str(error)))
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            return Watching(None, Answer(0, reason=UNREACHABLE, message=_words(error)))
        if response.status == 200:
            return Watching(response, None)
        with contextlib.closing(response):
            return Watching(None, answered(response.status, response.read()))

    def headers(self, **more: str) -> Any:
        """Those that say who asks, and ``more``. Raises UnusableError."""
        import urllib3

        found: dict[str, str] = {}
        self._started().update_params_for_auth(found, [], ["BearerToken"], "", "", None)
        headers = urllib3.HTTPHeaderDict({**found, "User-Agent": _NAME, **more})
        for key, value in self._user.impersonated:
            headers.add(key, value)
        return headers

    @property
    def configuration(self) -> Any:
        """The client's. Raises as ``headers`` does."""
        return self._started().configuration

    def close(self) -> None:
        """Ends the connections; the next request makes them again. May be called twice."""
        with self._lock:
            if self._client is not None:
                self._client.rest_client.close()
            self._client = None
            self._stack.close()

    def _renewed(self) -> bool:
        """Are there other credentials than those that were not accepted?"""
        before = self.headers()
        self.close()
        try:
            return bool(self.headers() != before)
        except UnusableError:
            return False

    def _started(self) -> Any:
        with self._lock:
            if self._client is None:
                with ExitStack() as stack:
                    self._client = _client(self._user, stack.enter_context(scratch.folder()))
                    self._stack = stack.pop_all()
            return self._client


class Watching:
    """One watch. ``refused`` is the answer where there is none."""

    def __init__(self, response: Any, refused: Answer | None) -> None:
        self._response = response
        self.refused = refused

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lines(self) -> Iterator[bytes]:
        """Each as soon as it comes; ends when the connection does, whatever ended it."""
        import urllib3

        if self._response is None:
            return
        rest = b""
        try:
            while data := self._response.read1(1 << 16):
                *whole, rest = (rest + data).split(b"\n")
                yield from whole
        except (OSError, ValueError, AttributeError, urllib3.exceptions.HTTPError):
            return

    def close(self) -> None:
        """May be called twice, and while another thread reads: that one's ``lines`` end then."""
        if self._response is not None:
            # To close a file that another thread reads would wait for that thread.
            stream = getattr(getattr(self._response, "_fp", None), "fp", None)
            there = getattr(getattr(stream, "raw", None), "_sock", None)
            if there is not None:
                with contextlib.suppress(OSError):
                    there.shutdown(socket.SHUT_RDWR)
            self._response.close()


class UnusableError(Exception):
    """There are no credentials to ask with."""


def answered(status: int, data: bytes) -> Answer:
    """What a body says."""
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return Answer(status, message=data[:300].decode(errors="replace").strip())
    said = body if body.get("kind") == "Status" else {}
    return Answer(status, body, str(said.get("reason") or ""), str(said.get("message") or ""))


def in_cluster() -> bool:
    """Does this process run in a Pod that has an account of its own?"""
    account = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and account.exists()


def _client(user: User, folder: Path) -> Any:
    """Raises UnusableError. The keys of the kubeconfig are in files of ``folder``: Python's TLS
    takes them from files alone.
    """
    from kubernetes import client, config
    from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

    made = client.Configuration()
    made.connection_pool_maxsize = _CONNECTIONS
    try:
        if user.files:
            loader = KubeConfigLoader(
                KubeConfigMerger(os.pathsep.join(map(str, user.files))).config,
                active_context=user.context,
                config_base_path=None,
                temp_file_path=str(folder),
            )
            with _heard() as said:  # a plugin that fails is logged, and no error
                loader.load_and_set(made)
            if said:
                raise UnusableError("; ".join(said))
        else:
            config.load_incluster_config(made)
    except (config.ConfigException, OSError, ValueError, KeyError, TypeError) as error:
        raise UnusableError(f"the kubeconfig cannot be used: {error}") from None
    made.proxy_headers = _to_proxy(made.proxy)
    return client.ApiClient(made)


def _to_proxy(url: str | None) -> dict[str, str] | None:
    """The header that says who asks a proxy, by the user and password of its URL."""
    import urllib3

    proxy = urlsplit(url or "")
    if not proxy.username:
        return None
    who = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return dict(urllib3.make_headers(proxy_basic_auth=who))


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@contextlib.contextmanager
def _heard() -> Iterator[list[str]]:
    """What is logged as an error meanwhile."""
    handler = _Heard()
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield handler.said
    finally:
        root.removeHandler(handler)


def _words(error: BaseException) -> str:
    """Of what went wrong below HTTP, as the system says it."""
    import urllib3

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        below = getattr(cause, "reason", None)
        cause = below if isinstance(below, BaseException) else cause.__cause__
    if isinstance(error, urllib3.exceptions.TimeoutError | TimeoutError):
        return "no answer in time"
    return f"{type(error).__name__}: {error}"


def impersonation(
    named: Mapping[str, Any], user: str = "", groups: Sequence[str] = ()
) -> tuple[tuple[str, str], ...]:
    """Headers for acting as another user: ``user`` and ``groups``, or what the kubeconfig has for
    the user of the context (as, as-groups, as-uid).
    """
    who = user or str(named.get("as") or "")
    if not who:
        return ()
    uid = () if user else (str(named.get("as-uid") or ""),)
    several = groups if user else [str(one) for one in named.get("as-groups") or ()]
    return (
        ("Impersonate-User", who),
        *(("Impersonate-Uid", one) for one in uid if one),
        *(("Impersonate-Group", one) for one in several),
    )
