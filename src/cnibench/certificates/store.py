"""Where certificates are: those that cnibench ships beside its profiles, and the user's own."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from cnibench.certificates.format import Certificate, read, text
from cnibench.errors import InputError, MissingError
from cnibench.model.profile import FOLDER
from cnibench.system.files import write_private

SHIPPED = FOLDER / "certificates"
_log = logging.getLogger(__name__)


def own() -> Path:
    """The folder of the user's own certificates, which need not be there."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "cnibench" / "certificates"


def name(certificate: Certificate) -> str:
    """The file's name: a later certificate of the same profile, agent, kernel and settings replaces
    it; one of the state alone is a file of its own.
    """
    words = [certificate.profile, certificate.agent.name, certificate.agent.version]
    words.append(certificate.kernel)
    if certificate.settings:
        text = json.dumps(certificate.settings, sort_keys=True)
        words.append(hashlib.sha256(text.encode()).hexdigest()[:8])
    if not certificate.packets:
        words.append("state")
    kept = "_".join(words)
    return "".join(c if c.isalnum() or c in "._+-" else "-" for c in kept) + ".json"


def store(certificate: Certificate, folder: Path | None = None) -> Path:
    """Writes it whole or not at all; the path. Raises MissingError."""
    folder = folder or own()
    path = folder / name(certificate)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_private(draft, text(certificate).encode())
        draft.replace(path)
    except OSError as error:
        raise MissingError(
            f"{folder}: the certificate cannot be written: {error.strerror}",
            "set XDG_DATA_HOME to a folder that can be written",
        ) from None
    return path


def certificates(profile: str) -> Iterator[Certificate]:
    """All of a profile, the user's first. One that cannot be read is left out, with a warning."""
    for folder in (own(), SHIPPED):
        for path in sorted(folder.glob(f"{profile}_*.json")) if folder.is_dir() else ():
            try:
                found = read(path)
            except InputError as error:
                _log.warning("%s", error.message)
                continue
            if found.profile == profile:
                yield found
