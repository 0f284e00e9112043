"""Every MTU that the command line takes gives a profile that proves itself: from IPv4's least to
the most that a device can have.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cnibench.clusters.lab.deployment import LabDeployment


@pytest.mark.parametrize(
    ("profile", "mtu", "model", "ip"),
    [
        ("veth-baseline", 576, "all", (4,)),
        ("flannel", 1350, "vxlan", (4, 6)),
        ("flannel", 9000, "vxlan", (4,)),
        ("flannel", 29990, "vxlan", (4,)),
        ("flannel", 65535, "none", (4, 6)),
        ("veth-baseline", 65535, "all", (4,)),
    ],
)
def test_a_profile_stands_with_this_mtu(
    make_deployment: Callable[..., LabDeployment],
    profile: str,
    mtu: int,
    model: str,
    ip: tuple[int, ...],
) -> None:
    found = make_deployment(profile, mtu=mtu, wire_offload=model, ip=ip).attest()
    assert [check for check in found if not check.passed] == []
    assert {check.check for check in found} >= {"wire-offload", "offload-inter", "mtu"}
