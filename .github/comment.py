"""Puts a report on a pull request: as a new comment, or in place of the one of an earlier run.

The environment gives GITHUB_API_URL, GITHUB_REPOSITORY and GITHUB_TOKEN as GitHub sets them, NUMBER
of the pull request, REPORT, a Markdown file, and TITLE, by which an earlier comment is recognised.
Where nothing may be written (the token of a fork's pull request only reads), a warning says so:
the verdict does not depend on it. API: https://docs.github.com/rest/issues/comments
"""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

_PAGE, _PAGES = 100, 20  # comments on a page, and pages that are searched
_LIMIT = 65536  # characters of a comment


def call(method: str, path: str, body: dict[str, str] | None = None) -> Any:
    """The answer to a request. Raises OSError."""
    request = urllib.request.Request(
        f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}{path}",
        method=method,
        data=json.dumps(body).encode() if body else None,
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def earlier(number: int, marker: str) -> int | None:
    """The id of the comment that begins with ``marker``."""
    for page in range(1, _PAGES + 1):
        found = call("GET", f"/issues/{number}/comments?per_page={_PAGE}&page={page}")
        for comment in found:
            if str(comment.get("body") or "").startswith(marker):
                return int(comment["id"])
        if len(found) < _PAGE:
            break
    return None


def main() -> None:
    title = re.sub(r"[^\w./ -]|-(?=-)", "", os.environ["TITLE"])  # fit for an HTML comment
    marker = f"<!-- cnibench {title} -->"
    body = f"{marker}\n{Path(os.environ['REPORT']).read_text(encoding='utf-8', errors='replace')}"[
        :_LIMIT
    ]
    number = int(os.environ["NUMBER"])
    try:
        if there := earlier(number, marker):
            call("PATCH", f"/issues/comments/{there}", {"body": body})
        else:
            call("POST", f"/issues/{number}/comments", {"body": body})
    except (OSError, ValueError) as error:
        print(f"::warning title=cnibench::the pull request has no comment: {error}")


if __name__ == "__main__":
    main()
