"""Why kubectl failed, by the reason that the API server gave, and not by the words around it."""

from __future__ import annotations

import re

UNREACHABLE = "Unreachable"  # no Status of the API: kubectl could not connect
# kubectl prints the reason of the API's Status in parentheses, and two fixed beginnings where there
# was no
# connection (k8s.io/kubectl/pkg/cmd/util/helpers.go, StandardErrorMessage).
_REASON = re.compile(
    r"^(?:Error from server \((\w+)\): |error: You must be logged in to the server \((\w+)\))",
    re.MULTILINE,
)
_NO_CONNECTION = re.compile(
    r"^(?:Unable to connect to the server: |The connection to the server \S+ was refused)",
    re.MULTILINE,
)
# k8s.io/apimachinery/pkg/apis/meta/v1/types.go: what goes over by itself.
PASSING = frozenset(
    {UNREACHABLE, "ServiceUnavailable", "ServerTimeout", "Timeout", "TooManyRequests"}
)
DENIED = frozenset({"Unauthorized", "Forbidden"})
# These, or no reason at all, may also come of an API server that is going down.
UNCLEAR = frozenset({"", "InternalError", "Unknown"})


def reason(stderr: str) -> str:
    """The Status reason (``NotFound``, ``Conflict``, ...), UNREACHABLE, or '' when kubectl gave
    none.
    """
    if match := _REASON.search(stderr):
        return match[1] or match[2]
    return UNREACHABLE if _NO_CONNECTION.search(stderr) else ""
