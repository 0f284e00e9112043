"""--kernel: when a run goes to a VM, and when not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.cli.measurement import kernel_choice
from cnibench.cli.options.plan import PlanOptions
from cnibench.errors import InputError, MissingError, UsageError
from cnibench.model.profile import builtin
from cnibench.planning.cells import cells
from cnibench.planning.plan import Plan
from cnibench.registry import providers
from cnibench.testbed.cluster import Problem
from cnibench.vm.accel import Accelerator
from cnibench.vm.kernel import Kernel

KERNEL = Kernel(Path("/boot/vmlinuz-6.1"), "6.1", Path("/lib/modules/6.1"))
IPIP = Problem("calico-wp-ipip", "CONFIG_NET_IPIP (IP-in-IP)", "use --kernel vm", kind="kernel")
OTHER = Problem("flannel", "IPv6 in this mode", "leave it out")


@pytest.fixture(autouse=True)
def _a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a stock kernel and no KVM, whatever this one is."""
    monkeypatch.delenv("CNIBENCH_VM", raising=False)
    monkeypatch.setattr(kernel_choice, "vm_problems", lambda installed=True: [])
    monkeypatch.setattr(kernel_choice, "newest", lambda: KERNEL)
    monkeypatch.setattr(
        kernel_choice, "accelerator", lambda kernel: Accelerator("tcg", "there is no /dev/kvm")
    )


def test_auto_goes_to_the_vm_for_what_the_kernel_lacks_only() -> None:
    assert kernel_choice.decide("auto", "lab", lambda: []) is None
    assert kernel_choice.decide("auto", "lab", lambda: [OTHER]) is None
    found = kernel_choice.decide("auto", "lab", lambda: [OTHER, IPIP])
    assert found is not None
    assert found.kernel == KERNEL
    assert found.emulated
    assert "CONFIG_NET_IPIP" in found.why
    assert "IPv6" not in found.why
    assert kernel_choice.decide("auto", "kind", lambda: [IPIP]) is None


def test_auto_takes_all_to_a_vm_only_where_its_figures_mean_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert kernel_choice.decide("auto", "lab", lambda: [IPIP], whatever_runs=True) is None
    monkeypatch.setattr(kernel_choice, "accelerator", lambda kernel: Accelerator("kvm", ""))
    assert kernel_choice.decide("auto", "lab", lambda: [IPIP], whatever_runs=True) is not None


def test_auto_stays_where_no_vm_can_be_had_and_vm_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacks = Problem(
        "", "VM: the program qemu-system-x86_64", "sudo apt-get install qemu-system-x86"
    )
    monkeypatch.setattr(kernel_choice, "vm_problems", lambda installed=True: [lacks])
    assert kernel_choice.decide("auto", "lab", lambda: [IPIP]) is None
    with pytest.raises(MissingError) as told:
        kernel_choice.decide("vm", "lab", lambda: [])
    assert told.value.remedy == "sudo apt-get install qemu-system-x86"


def test_the_users_word_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_choice.decide("host", "lab", lambda: [IPIP]) is None
    assert kernel_choice.decide("vm", "lab", lambda: []) is not None
    with pytest.raises(UsageError, match="only the lab"):
        kernel_choice.decide("vm", "kind", lambda: [])
    with pytest.raises(UsageError, match="expected auto, host, vm or the path"):
        kernel_choice.decide("virtual", "lab", lambda: [])
    with pytest.raises(MissingError):
        kernel_choice.decide(str(tmp_path / "vmlinuz"), "lab", lambda: [])
    (tmp_path / "vmlinuz").write_text("text")
    with pytest.raises(InputError, match="bzImage"):
        kernel_choice.decide(str(tmp_path / "vmlinuz"), "lab", lambda: [])
    monkeypatch.setenv("CNIBENCH_VM", "tcg")
    assert kernel_choice.decide("vm", "lab", lambda: [IPIP]) is None  # we are in it


def test_emulation_shortens_what_nobody_asked_for() -> None:
    vm = kernel_choice.Machine(KERNEL, Accelerator("tcg", "why"), "")
    plan = Plan(cni=("flannel",), duration=7.0)
    short, (told,) = vm.shortened(plan, PlanOptions())
    assert (short.duration, short.warmup) == (1, 0)
    assert "cycles in the first block only" in told
    assert {(work.windows, work.blocks) for work in short.workload} == {
        (("speed",), None),
        (("cpp",), 1),
    }
    assert short.number_of_blocks(3) == plan.number_of_blocks(3)
    known = {"flannel": builtin()["flannel"]}
    assert {cell.id for cell in cells(short, providers("workloads"), known)[0]} == {
        cell.id for cell in cells(plan, providers("workloads"), known)[0]
    }
    asked, _ = vm.shortened(plan, PlanOptions(duration="7s"))
    assert (asked.duration, asked.warmup, {work.duration for work in asked.workload}) == (
        7,
        0,
        {None},
    )
    assert vm.shortened(plan, PlanOptions(blocks="4"))[0].workload == plan.workload
    assert (
        vm.shortened(plan.model_copy(update={"windows": ("speed",)}), PlanOptions())[0].workload
        == plan.workload
    )
    assert vm.shortened(plan, PlanOptions(plan="qi2021")) == (plan, [])
    sliced = plan.model_copy(update={"method": "slices"})
    windows, said = vm.suited(sliced, PlanOptions(plan="encryption"))
    assert (windows.method, said) == (
        "windows",
        ["measured in windows, not in slices: it runs in a VM"],
    )
    assert vm.suited(sliced, PlanOptions(plan="x", method="slices"))[0].method == "slices"
    assert kernel_choice.Machine(KERNEL, Accelerator("kvm"), "").shortened(plan, PlanOptions()) == (
        plan,
        [],
    )


def test_a_run_goes_on_with_the_kernel_that_it_was_begun_with(tmp_path: Path) -> None:
    assert kernel_choice.again(tmp_path) is None
    (tmp_path / "vm").mkdir()
    (tmp_path / "vm" / "kernel").write_text("/boot/vmlinuz-0.0.1-gone\n")
    with pytest.raises(MissingError) as told:
        kernel_choice.again(tmp_path)
    assert told.value.remedy == "sudo apt-get install linux-image-0.0.1-gone"
