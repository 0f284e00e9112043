"""Access to a cluster: kubectl and helm with one kubeconfig and context, and nothing of what is
secret in it in any message.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from cnibench.clusters.kubernetes.api import kubeconfigs, status
from cnibench.clusters.kubernetes.api.availability import Availability
from cnibench.clusters.kubernetes.api.proxy import JSON, Answer, Api
from cnibench.errors import ClusterError, LimitError, UsageError
from cnibench.system import log
from cnibench.system import process as programs
from cnibench.system.process import Done

QUICK = 30.0  # s: a question to the API server
_HIDDEN = "(secret)"
_PROBE = 3.0  # s
_AGAIN = 0.3  # s before a request is tried again
_PASSING = (0, 429, 503, 504)  # as status.PASSING


class UnreachableError(ClusterError):
    """The API server does not answer."""


class DeniedError(ClusterError):
    """The API server answers, and does not let us."""


class InvalidError(ClusterError):
    """The API server takes the object in another form only; ``fields`` are those that it refuses,
    spec.ports[0].nodePort say.
    """

    fields: tuple[str, ...] = ()


class Access:
    """One cluster. ``kubeconfig`` None: where kubectl finds it (KUBECONFIG, ~/.kube/config);
    ``context`` '': its current one.
    """

    def __init__(self, kubeconfig: Path | None, context: str = "") -> None:
        """Raises UsageError, InputError when there is no such file or context."""
        self.kubeconfig = kubeconfig
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

    def kubectl(
        self, *argv: str, timeout: float = QUICK, input: str | None = None, check: bool = True
    ) -> Done:
        """Raises UnreachableError, ClusterError when ``check`` and it fails, DeniedError whenever a
        right is missing, LimitError after ``timeout`` seconds.
        """
        return self._run(self.command(*argv), timeout, input, check)

    def helm(
        self, *argv: str, timeout: float = QUICK, input: str | None = None, check: bool = True
    ) -> Done:
        """The same for helm."""
        options = ["--kube-context", self.context]
        if self.kubeconfig is not None:
            options += ["--kubeconfig", str(self.kubeconfig)]
        return self._run(["helm", *options, *argv], timeout, input, check)

    def command(self, *argv: str) -> list[str]:
        """The command line of a kubectl for this cluster."""
        options = ["--context", self.context]
        if self.kubeconfig is not None:
            options += ["--kubeconfig", str(self.kubeconfig)]
        return ["kubectl", *options, *argv]

    def get(self, *what: str, timeout: float = QUICK) -> dict[str, Any]:
        """``kubectl get WHAT -o json``. Raises as ``kubectl`` does."""
        return dict(json.loads(self.kubectl("get", *what, "-o", "json", timeout=timeout).stdout))

    def apply(self, *objects: Mapping[str, Any], timeout: float = QUICK) -> None:
        """Makes or changes objects by server-side apply. Raises as ``kubectl`` does."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", timeout=timeout, input=text
        )

    @cached_property
    def server_version(self) -> str:
        """The API server's version, v1.34.4 say. Raises as ``kubectl`` does."""
        return str(json.loads(self.kubectl("get", "--raw", "/version").stdout)["gitVersion"])

    def hidden(self, text: str) -> str:
        """``text`` without anything secret of the kubeconfig."""
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return text

    @cached_property
    def api(self) -> Api:
        """The API server by HTTP."""
        return Api(self.command("proxy"))

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
        """One request by HTTP; an outage is waited for as ``kubectl`` does. Raises EndedError."""
        began = time.monotonic()
        while True:
            answer = self.api.call(method, path, body, timeout, content=content, accept=accept)
            if not self._lost(answer) or not self._waits(answer.message or answer.reason, began):
                return answer

    def close(self) -> None:
        """Ends the connection to the API server; the next request makes it again."""
        if "api" in self.__dict__:
            self.api.close()

    def _run(self, argv: list[str], timeout: float, input: str | None, check: bool) -> Done:
        """An API server that does not answer is waited for, as long as ``availability`` allows."""
        if self.availability.over and (
            said := self.unanswered()
        ):  # what is tried to the end takes its whole time each
            raise self._typed(status.UNREACHABLE, said, said)
        began = time.monotonic()
        while True:
            try:
                done = programs.run(argv, timeout=timeout, input=input, check=False)
            except LimitError:
                if self._passes("") and self._waits("no answer in time", began):
                    continue
                raise LimitError(
                    f"{' '.join(_short(argv))} did not end within {timeout:.0f} s",
                    f"does the API server of '{self.context}' answer?",
                ) from None
            done = Done(
                done.argv, done.returncode, done.stdout, self.hidden(done.stderr), done.seconds
            )
            if done.returncode == 0:
                return done
            why = status.reason(done.stderr)
            last = (done.stderr.strip().splitlines() or ["kubectl said nothing"])[-1]
            if self._passes(why) and self._waits(last[:200], began):
                continue
            if check or why in status.DENIED:
                raise self.error(done)
            return done

    def _passes(self, why: str) -> bool:
        """Does a failure for this reason go over by itself? Asked only where somebody waits."""
        if not self.availability.patience:
            return False
        return why in status.PASSING or (why in status.UNCLEAR and bool(self.unanswered()))

    def _lost(self, answer: Answer) -> bool:
        """The same of an answer by HTTP. A server that works may fail one request for ever, as
        with 500 when a webhook is gone.
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

    def error(self, done: Done) -> ClusterError:
        """What a failed kubectl or helm says, typed."""
        said = (
            self.hidden(" | ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-4:]))
            or "(no output)"
        )
        return self._typed(
            status.reason(done.stderr),
            f"{' '.join(_short(done.argv))} ended with {done.returncode}: {said}",
            said,
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
        return self._typed(
            status.UNREACHABLE if answer.silent else answer.reason, f"{what}: {said}", said
        )

    def _typed(self, why: str, words: str, said: str) -> ClusterError:
        if why in status.DENIED:
            return self.denied(why, words)
        if why in status.PASSING:
            return UnreachableError(
                f"the API server of the context '{self.context}' does not answer: {said}",
                "is the cluster up? kubectl get nodes",
            )
        return ClusterError(words)


def _short(argv: tuple[str, ...] | list[str]) -> list[str]:
    """Without the options that every call has."""
    words, skip = [], False
    for word in argv:
        if skip:
            skip = False
        elif word in ("--context", "--kube-context", "--kubeconfig"):
            skip = True
        else:
            words.append(word if len(word) < 80 else word[:77] + "...")
    return words
