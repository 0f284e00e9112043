"""Datapaths that need a stock kernel's modules: all of them measured in one run, and what ILA
refuses, in one VM.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from _vm_guest import LONG, in_guest

import cnibench.cli.main  # noqa: F401  # so that the bundle for the guest has what the command line imports
from cnibench.vm import preload
from cnibench.vm.accel import accelerator
from cnibench.vm.kernel import newest

# One profile for each module. IP-in-IP is in test_vm.py.
ENCAPSULATIONS = {
    "flannel-wireguard": "wireguard",
    "cilium-geneve": "geneve",
    "weave": "vxlan",
    "weave-encrypted": "esp",
    "ila": "none",
}
TUNNEL = {"flannel-wireguard", "cilium-geneve", "weave", "weave-encrypted"}
OWN = {
    "weave": {"ovs-forwards"},
    "weave-encrypted": {"ovs-forwards"},
    "ila": {"locator-on-wire", "ila-route-output", "ila-route-input"},
}
TENANTS = Path(__file__).with_name("_vm_tenants.py")
ENTRY = "from cnibench.cli.main import main; sys.argv[0] = 'cnibench'; sys.exit(main())"

pytestmark = pytest.mark.timeout(LONG + 60)


def test_further_datapaths_are_attested_and_measured_on_one_stock_kernel(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = [
        "--cni",
        ",".join(ENCAPSULATIONS),
        "--kernel",
        "host",
        "--ip",
        "both",
        "--blocks",
        "1",
        "--placement",
        "inter",
    ]
    options += [
        "--workload",
        "tcp-rr",
        "--duration",
        "5s",  # an emulated guest needs seconds until its collectors have begun
        "--warmup",
        "0s",
        "--no-perf",
        "--out",
        str(tmp_path / "runs"),
    ]
    measured = shlex.join(preload.command(ENTRY, "run", *options))
    tenants = shlex.join(
        preload.command(f"import runpy; runpy.run_path({str(TENANTS)!r}, run_name='__main__')")
    )
    kernel = newest()
    status = in_guest(f"{measured} && {tenants} > {tmp_path}/tenants", tmp_path)
    said = capfd.readouterr().err
    assert status == 0, said

    (run,) = (tmp_path / "runs").iterdir()
    found = [json.loads(line) for line in (run / "attestations.jsonl").read_text().splitlines()]
    assert not [item for item in found if not item["passed"]]
    for name, encapsulation in ENCAPSULATIONS.items():
        checks = {item["check"]: item for item in found if item["profile"] == name}
        assert checks["encapsulation"]["observed"].endswith(f"packets {encapsulation}"), name
        assert ("tunnel-device" in checks) == (name in TUNNEL), name
        assert OWN.get(name, set()) <= set(checks), name
    samples = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    rates = {
        (item["profile"], item["ip"]): item["value"]
        for item in samples
        if item["metric"] == "transaction_rate"
    }
    assert {name for name, _ in rates} == set(ENCAPSULATIONS)
    assert {ip for name, ip in rates if name == "ila"} == {6}
    assert {ip for name, ip in rates if name == "cilium-geneve"} == {4, 6}
    assert all(rate > 0 for rate in rates.values())
    facts = json.loads((run / "env.json").read_text())
    assert (facts["kernel"], facts["accelerator"]) == (kernel.release, accelerator(kernel).name)

    tenant = json.loads((tmp_path / "tenants").read_text())
    # A comparison starts none, but the kernel starts workers meanwhile. When each namespace was
    # asked for hooks that this kernel does not list, modprobe ran 90 times.
    assert tenant["processes"] < 10
    assert tenant["refused"].startswith(f"{tenant['address']} is mapped to the node b already")
    assert "evpn-vxlan" in tenant["remedy"]
    assert tenant["first"] == ""  # the first tenant's is as it was
    assert tenant["more"] == ["", "", ""]
    assert {"reach-inter", "locator-on-wire", "ila-route-output", "ila-route-input"} <= set(
        tenant["missed"]
    )
