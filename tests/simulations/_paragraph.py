"""The first paragraph of a report taken apart: what it claims of each place. A sentence or part of
one that is not known here is an error, so that no claim goes unchecked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_ASSUMING = re.compile(r", assuming normal noise(?: for \d+ of \d+ pairs)? \([\d to]+ blocks?\)")
_WITHOUT_PLACE = (
    "Certainty: ",
    "This assumes that neighbouring blocks",
    "Neighbouring blocks seem to depend",
    "Not tested: ",
    "Disturbed: ",
    "Environments: ",
    "Dependence: ",
)


@dataclass
class Claims:
    """What is said of one place; names that are only counted are in ``more``. ``ranks`` maps names
    to the interval of their ratio to the best, None without one; ``failed`` to (blocks, of)."""

    kind: str = ""
    best: str = ""
    figure: str = ""
    apart_from_all: bool = False
    close: list[str] = field(default_factory=list)
    uncompared: list[str] = field(default_factory=list)
    ranks: dict[str, tuple[float, float] | None] = field(default_factory=dict)
    suggestive: list[str] = field(default_factory=list)
    failed: dict[str, tuple[int, int]] = field(default_factory=dict)
    unranked: list[str] = field(default_factory=list)
    rests: dict[str, tuple[int, int]] = field(default_factory=dict)
    among: int = 0
    assumed: bool = False
    tested: bool = False
    more: int = 0


@dataclass
class Paragraph:
    places: dict[str, Claims] = field(default_factory=dict)
    counts: tuple[int, int, int, int] | None = None  # pairs, different, not, inconclusive
    failed: list[str] = field(default_factory=list)  # labels with failed samples
    certainty: str = ""


def parse(summary: Sequence[str]) -> Paragraph:
    found = Paragraph()
    for sentence in summary:
        if sentence.startswith("Nothing was measured"):
            found.places[""] = Claims("nothing")
            found.failed = [one.split()[0] for one in _names(sentence[:-2].split("(")[1], Claims())]
        elif sentence.startswith(_WITHOUT_PLACE):
            _whole(sentence, found)
        else:
            where, rest = sentence.removesuffix(".").split(": ", 1)
            for place in where.split(", "):
                assert place not in found.places, f"two sentences about {place}"
                found.places[place] = _claims(rest)
    return found


def _whole(sentence: str, found: Paragraph) -> None:
    if sentence.startswith("Certainty: "):
        found.certainty = sentence
        said = re.match(
            r"Certainty: of (\d+) pairs?, (\d+) (?:was|were) significantly different, (\d+) not,"
            r" (\d+) inconclusive",
            sentence,
        )
        if said:
            found.counts = tuple(int(one) for one in said.groups())  # type: ignore[assignment]
        else:
            assert sentence.startswith("Certainty: nothing was compared"), sentence
    if said := re.search(r"some or all samples failed: ([^;]*);", sentence):
        found.failed = _names(said[1], Claims())


def _claims(text: str) -> Claims:
    found = Claims(assumed=bool(_ASSUMING.search(text)))
    first, *rest = _ASSUMING.sub("", text).split("; ")
    if said := re.fullmatch(
        r"best (\S+) \(([^)]*)\)(, significantly different from all others(?: that are ranked)?)?",
        first,
    ):
        found.kind, found.best, found.figure = "decided", said[1], said[2]
        found.apart_from_all = bool(said[3])
    elif said := re.fullmatch(r"(\S+) reached (.*)", first):
        found.kind, found.best, found.figure = "alone", said[1], said[2]
    elif said := re.fullmatch(
        r"no (significant difference|difference is proven) among the (\d+) profiles"
        r"(?: \((\S+): .*\))?",
        first,
    ):
        found.kind, found.among, found.best = "none", int(said[2]), said[3] or ""
        found.tested = said[1] == "significant difference"
    elif first == "inconclusive":
        found.kind = "inconclusive"
    elif first == "every profile failed often, so there is no ranking":
        found.kind = "failing"
    else:
        raise AssertionError(f"unknown: {first}")
    for part in rest:
        _part(part, found)
    return found


def _part(part: str, found: Claims) -> None:
    for start, names in (
        ("not significantly different from it: ", found.close),
        ("not compared with it: ", found.uncompared),
        ("not ranked, as it failed often: ", found.unranked),
    ):
        if part.startswith(start):
            names += _names(part.removeprefix(start), found)
            return
    if part.startswith("worse (ratio to "):
        assert part.startswith(f"worse (ratio to {found.best}): "), part
        for one in _names(part.split(": ", 1)[1], found):
            name, interval = _interval(one)
            found.ranks[name] = interval
    elif part.startswith("suggestive, not proven: "):
        found.suggestive += _names(part.split(": ", 1)[1], Claims())
    elif " failed in " in part:
        for one in _names(part, Claims()):
            said = re.fullmatch(r"(\S+) failed in (\d+) of (\d+) blocks", one)
            assert said, one
            found.failed[said[1]] = int(said[2]), int(said[3])
    elif " rests on " in part:
        for one in _names(part, Claims()):
            said = re.fullmatch(r"(\S+) rests on (\d+) of (\d+) blocks", one)
            assert said, one
            found.rests[said[1]] = int(said[2]), int(said[3])
    elif said := re.fullmatch(
        r"([\d to]+) blocks? (?:is|are) too few to compare (\d+) profiles, at least \d+ are needed",
        part,
    ):
        found.among = int(said[2])
    else:
        known = (
            "there was no other profile to compare it with",
            "no other profile gave enough figures to compare it with",
        )
        assert part in known or re.fullmatch(r"\d+ of \d+ pairs could not be tested", part), part


def _interval(text: str) -> tuple[str, tuple[float, float] | None]:
    if " " not in text:
        return text, None
    name, numbers = text.split(" ", 1)
    low, high = (numbers.split(" to ") * 2)[:2]
    return name, (float(low), float(high))


def _names(text: str, found: Claims) -> list[str]:
    if said := re.fullmatch(r"(.*) and (\d+) more", text):
        found.more += int(said[2])
        text = said[1]
    return text.split(", ")
