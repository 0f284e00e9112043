"""Access to a cluster as the user of one kubeconfig and context: requests that wait for an
outage to end, helm, and nothing of what is secret in any message.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from cnibench.clusters.kubernetes.api import exec, kubeconfigs
from cnibench.clusters.kubernetes.api.availability import Availability
from cnibench.clusters.kubernetes.api.client import (
    JSON,
    UNREACHABLE,
    Answer,
    Api,
    User,
    Watching,
    impersonation,
    in_cluster,
)
from cnibench.clusters.kubernetes.api.operations import QUICK, Operations
from cnibench.errors import ClusterError, LimitError, UsageError
from cnibench.system import log
from cnibench.system import process as programs
from cnibench.system.process import Done, ending
from cnibench.testbed.cluster_options import ClusterOptions

_HIDDEN = "(secret)"
_PROBE = 3.0  # s
_AGAIN = 0.3  # s before a request is tried again
_IN_CLUSTER = "in-cluster"  # the name of the context of a Pod's own account
# k8s.io/apimachinery/pkg/apis/meta/v1/types.go: what goes over by itself, and what a user may not.
_PASSING = (0, 429, 503, 504)
_REASONS = frozenset(
    {UNREACHABLE, "ServiceUnavailable", "ServerTimeout", "Timeout", "TooManyRequests"}
)
DENIED = frozenset({"Unauthorized", "Forbidden"})


class UnreachableError(ClusterError):
    """The API server does not answer."""


class DeniedError(ClusterError):
    """The API server answers, and does not let us."""


class InvalidError(ClusterError):
    """The API server takes the object in another form only; ``fields`` are those that it refuses,
    spec.ports[0].nodePort say.
    """

    fields: tuple[str, ...] = ()


class Access(Operations):
    """One cluster. ``kubeconfig`` None: where kubectl finds it (KUBECONFIG, ~/.kube/config), or the
    account of the Pod that this process runs in; ``context`` '': its current one. ``acting``: the
    user whom, and groups which, the user of the context acts as.
    """

    def __init__(
        self,
        kubeconfig: Path | None,
        context: str = "",
        acting: tuple[str, Sequence[str]] = ("", ()),
    ) -> None:
        """Raises UsageError, InputError when there is no such file or context."""
        self.kubeconfig = kubeconfig
        self._acting = acting
        files = tuple(kubeconfigs.files(kubeconfig))
        if kubeconfig is None and in_cluster() and not any(one.exists() for one in files):
            self.context, files = context or _IN_CLUSTER, ()
            config: dict[str, Any] = {"contexts": [{"name": _IN_CLUSTER}]}
        else:
            config = kubeconfigs.read(kubeconfig)
            self.context = context or str(config.get("current-context") or "")
        self.availability = Availability(
            self.unanswered, f"the API server of the context '{self.context}'"
        )
        self.dropped: list[str] = []  # connections into Pods that were lost
        self._secrets = sorted(kubeconfigs.secrets(config), key=len, reverse=True)
        log.hide(self._secrets)
        names = [str(item.get("name")) for item in config.get("contexts") or ()]
        if not self.context:
            raise UsageError(
                "the kubeconfig has no current context",
                f"name one with --context; it has: {', '.join(names) or 'none'}",
            )
        if self.context not in names:
            raise UsageError(
                f"the kubeconfig has no context '{self.context}'",
                f"it has: {', '.join(names) or 'none'}",
            )
        named = kubeconfigs.user(config, self.context)
        self._user = User(files, self.context, impersonation(named, *acting))

    def helm(
        self, *argv: str, timeout: float = QUICK, input: str | None = None, check: bool = True
    ) -> Done:
        """Runs helm. Raises ClusterError when ``check`` and it fails, LimitError
        after ``timeout`` seconds.
        """
        options = [] if not self._user.files else ["--kube-context", self.context]
        if self.kubeconfig is not None:
            options += ["--kubeconfig", str(self.kubeconfig)]
        who, groups = self._acting
        options += ["--kube-as-user", who] if who else []
        options += [word for one in groups for word in ("--kube-as-group", one)]
        began = time.monotonic()
        while True:
            done, late = self._helm(["helm", *options, *argv], timeout, input)
            if done is not None and (done.returncode == 0 or not check):
                return done
            # What helm does may need no API server at all: only who waits for one asks for it.
            said = self.unanswered() if self.availability.patience else ""
            if said and self._waits(said, began):
                continue
            if done is None:
                raise LimitError(late, f"does the API server of '{self.context}' answer?")
            words = " | ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-4:])
            raise ClusterError(
                f"helm {argv[0]} {ending(done.returncode)}: {self.hidden(words) or '(no output)'}"
            )

    def _helm(self, argv: list[str], timeout: float, input: str | None) -> tuple[Done | None, str]:
        try:
            return programs.run(argv, timeout=timeout, input=input, check=False), ""
        except LimitError as error:
            return None, error.message

    @cached_property
    def server_version(self) -> str:
        """The API server's version, v1.34.4 say. Raises ClusterError."""
        answer = self.checked(self.call("GET", "/version"), "the version cannot be asked")
        return str(answer["gitVersion"])

    def hidden(self, text: str) -> str:
        """``text`` without anything secret of the kubeconfig."""
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return text

    @cached_property
    def api(self) -> Api:
        """The API server without any patience: one request is one answer."""
        return Api(self._user)

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout: float = QUICK,
        *,
        content: str = JSON,
        accept: str = JSON,
    ) -> Answer:
        """One request; an outage is waited for, as long as ``availability`` allows. Raises
        EndedError.
        """
        if self.availability.over and (said := self.unanswered()):
            # What is tried to the end takes its whole time each.
            return Answer(0, reason=UNREACHABLE, message=said)
        began = time.monotonic()
        while True:
            answer = self.api.call(method, path, body, timeout, content=content, accept=accept)
            if not self._lost(answer) or not self._waits(answer.message or answer.reason, began):
                return answer

    def watch(self, path: str) -> Watching:
        """A request that does not end. Raises ClusterError."""
        found = self.api.watch(path)
        if found.refused is not None:
            raise self.refusal(found.refused, "cnibench's Pods cannot be watched")
        return found

    def start(
        self,
        namespace: str,
        pod: str,
        argv: Sequence[str],
        *,
        container: str = "",
        given: bool = False,
        what: str = "",
    ) -> exec.Stream:
        """A command in a Pod's container; ``given``: with a standard input. Raises ClusterError."""
        try:
            return exec.run(self.api, namespace, pod, argv, container=container, given=given)
        except exec.RefusedError as error:
            words = f"no command can be run in {what or f'the Pod {pod}'}"
            raise self.refusal(error.answer, words) from None

    def close(self) -> None:
        """Ends the connections to the API server; the next request makes them again."""
        if "api" in self.__dict__:
            self.api.close()

    def _lost(self, answer: Answer) -> bool:
        """Does a failure go over by itself? A server that works may fail one request for ever, as
        with 500 when a webhook is gone. Asked only where somebody waits.
        """
        if not self.availability.patience or not answer.silent:
            return False
        return answer.status in _PASSING or bool(self.unanswered())

    def _waits(self, said: str, began: float) -> bool:
        """Is the request of ``began`` to be tried again, an outage being over now? Raises
        EndedError when that lasts too long.
        """
        if time.monotonic() - began > self.availability.patience:
            return False
        self.availability.failed(said)
        self.availability.wait()
        time.sleep(
            _AGAIN
        )  # it may answer, and refuse this request for another reason: too many, say
        return True

    def unanswered(self) -> str:
        """Why the API server does not answer, '' when it does: also one that is not ready yet does
        not.
        """
        answer = self.api.call("GET", "/readyz", timeout=_PROBE)
        return (
            self.hidden(answer.message or answer.reason or f"HTTP {answer.status}")[:200]
            if answer.silent
            else ""
        )

    def denied(self, why: str, words: str) -> DeniedError:
        """``why`` is the reason of the API's Status."""
        if why == "Unauthorized":
            return DeniedError(
                words, f"the API server does not accept the user of the context '{self.context}'"
            )
        return DeniedError(
            words,
            f"give the user of the context '{self.context}' that right: 'cnibench rbac' prints all"
            " that cnibench uses",
        )

    def refusal(self, answer: Answer, what: str) -> ClusterError:
        """The same for an answer that is no success; ``what`` could not be done."""
        said = self.hidden(answer.message or answer.reason or f"HTTP {answer.status}")
        if answer.reason == "Invalid":
            error = InvalidError(f"{what}: {said}")
            causes = (answer.body.get("details") or {}).get("causes") or ()
            error.fields = tuple(str(one.get("field", "")) for one in causes)
            return error
        if answer.reason in DENIED or answer.status in (401, 403):
            return self.denied(answer.reason, f"{what}: {said}")
        if answer.silent or answer.reason in _REASONS:
            return self._unreachable(said)
        return ClusterError(f"{what}: {said}")

    def _unreachable(self, said: str) -> UnreachableError:
        return UnreachableError(
            f"the API server of the context '{self.context}' does not answer: {said}",
            "is the cluster up? kubectl get nodes",
        )


def access_of(given: ClusterOptions) -> Access:
    """The cluster that a user's options lead to. Raises InputError, UsageError."""
    if given.as_group and not given.as_user:
        raise UsageError("--as-group needs --as", "name the user who is of the group: --as USER")
    kubeconfig = Path(given.kubeconfig) if given.kubeconfig else None
    return Access(kubeconfig, given.context or "", (given.as_user or "", given.as_group))
