"""What certificates say of a profile's model as it is here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cnibench.certificates.standing import standing
from cnibench.certificates.store import certificates
from cnibench.clusters.lab.fidelity.digest import model_digest
from cnibench.model.profile import Profile


def of(
    profile: Profile, kernel: str, settings: Mapping[str, str], ip: Collection[int]
) -> dict[str, Any]:
    """The certificate that fits best, as env.json has it; {} without any."""
    found = list(certificates(profile.name))
    return standing(found, kernel, model_digest(profile), settings, ip) if found else {}
