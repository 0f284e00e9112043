"""The real bundle is accepted as it is, and there are more than a hundred ways to tamper with it:
each is refused, for the reason that it should be.
"""

from __future__ import annotations

from pathlib import Path

from tests.unit._bundles import GOLDEN, put, rechained, refigured, refusal
from tests.unit._tampering import FILES, Keys
from tests.unit.test_bundle_bytes import BYTES
from tests.unit.test_bundle_container import CONTAINER
from tests.unit.test_bundle_contents import CONTENTS
from tests.unit.test_bundle_figures import FIGURES
from tests.unit.test_bundle_rechained import CONSISTENT, RECHAINED
from tests.unit.test_bundle_seal import SEAL


def test_the_bundle_itself_is_accepted(keys: Keys, tmp_path: Path) -> None:
    assert refusal(tmp_path, keys.bundle, keys.signers) == ""
    assert refusal(tmp_path, put(rechained(FILES))) == ""  # what the tampering begins with
    assert refigured(FILES) == rechained(FILES) == FILES


def test_published_bundles_stay_valid(tmp_path: Path) -> None:
    """Where this fails after a change of the statistics, raise ``figures.VERSION``: the figures of
    bundles of the version before are then computed again and not compared.
    """
    assert refusal(tmp_path, GOLDEN.read_bytes()) == ""


def test_a_hundred_ways_are_tried() -> None:
    kinds = (BYTES, SEAL, CONTAINER, CONTENTS, FIGURES, RECHAINED, CONSISTENT)
    assert sum(map(len, kinds)) >= 100
