"""Which models are certified against the real agent, in words (docs/fidelity.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cnibench.analysis.model import Analysis, Result
from cnibench.analysis.text.wording import names
from cnibench.certificates.standing import words


def certified(analysis: Analysis, results: Sequence[Result] = ()) -> list[str]:
    """A line for each thing that can be said of the models of these results, of all by default.
    Runs that were measured before there were certificates, or elsewhere, say nothing.
    """
    models = {one.label for one in results or analysis.results if one.fidelity == "datapath-model"}
    said: dict[str, list[str]] = {}
    for label in (one for one in analysis.labels if one in models):
        for sentence in _of(analysis, label):
            said.setdefault(sentence, []).append(label)
    return [f"model of {names(labels)}: {sentence}" for sentence, labels in said.items()]


def _of(analysis: Analysis, label: str) -> Collection[str]:
    """What the environments say of a label; more than one thing where kernels differ."""
    found: dict[str, None] = {}
    for environment in analysis.environments:
        stored = environment.get("certificates")
        if isinstance(stored, Mapping) and isinstance(one := stored.get(label), Mapping):
            found[words(one)] = None
    return found
