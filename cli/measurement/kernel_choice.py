"""``--kernel auto|host|vm|PATH``: on which kernel a run is measured, decided once for all of its
profiles, and the way into the VM.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cnibench.cli.options.plan import PlanOptions
from cnibench.errors import InputError, MissingError, UsageError
from cnibench.model.units import duration
from cnibench.planning.plan import Plan, Work
from cnibench.rundir.files import open_log
from cnibench.rundir.schema import Manifest
from cnibench.rundir.writer import RunWriter
from cnibench.system import log
from cnibench.system.files import read_beneath
from cnibench.system.guest import inside
from cnibench.testbed.cluster import Problem
from cnibench.vm import preload
from cnibench.vm.accel import Accelerator, accelerator
from cnibench.vm.execute import carry as carry_into
from cnibench.vm.kernel import BOOT, INSTALL, Kernel, given, newest
from cnibench.vm.machine import Size
from cnibench.vm.requirements import problems as vm_problems

_log = logging.getLogger(__name__)
# A run under emulation for which nothing else was asked is short and coarse: its absolute figures
# mean nothing anyway. The blocks stay
# what the comparisons need; cycles, whose windows take ten seconds to begin there, are looked at
# for shares and functions only.
EMULATED: Mapping[str, float] = {"duration": 1.0, "warmup": 0.0}  # s
CYCLES_BLOCKS, CYCLES_DURATION = (
    1,
    5.0,
)  # blocks with cycles; s of their windows, of which a loaded machine lets the readers miss some
_IMAGE = Path("vm") / "kernel"  # in the run directory: the image that the run was begun with
_ENTRY = "from cnibench.cli.main import main; sys.argv[0] = 'cnibench'; sys.exit(main())"


@dataclass(frozen=True)
class Machine:
    """The VM that a run goes to; ``why`` in words for the user."""

    kernel: Kernel
    accelerator: Accelerator
    why: str

    @property
    def room(self) -> int:
        """Bytes that it has for a run. Raises UsageError, MissingError."""
        return Size.usual().room

    @property
    def emulated(self) -> bool:
        return self.accelerator.name == "tcg"

    def suited(self, plan: Plan, options: PlanOptions) -> tuple[Plan, list[str]]:
        """The plan as it is measured in the VM, and in words what that leaves out: in windows,
        unless slices were asked for by an option.
        """
        said = []
        if plan.method == "slices" and options.method is None:
            plan = plan.model_copy(update={"method": "windows"})
            said.append("measured in windows, not in slices: it runs in a VM")
        plan, shortened = self.shortened(plan, options)
        return plan, said + shortened

    def shortened(self, plan: Plan, options: PlanOptions) -> tuple[Plan, list[str]]:
        """The plan as it is measured under emulation, and in words what that leaves out.

        Windows are short where neither an option nor a plan file says how long they are, and cycles
        are measured in the first blocks only where neither says how many blocks there are.
        """
        if not self.emulated or options.plan or options.scale is not None:
            return plan, []
        update: dict[str, Any] = {
            key: value for key, value in EMULATED.items() if getattr(options, key) is None
        }
        said = [f"{key} {duration(value) if value else 'none'}" for key, value in update.items()]
        if options.blocks is None and "cpp" in plan.windows:
            update["workload"] = tuple(
                part for work in plan.workload for part in _apart(work, options.duration is None)
            )
            said.append("cycles in the first block only, so that nothing is decided about them")
        return plan.model_copy(update=update), (
            [f"under emulation, unless asked otherwise: {', '.join(said)}"] if said else []
        )


def _apart(work: Work, short: bool) -> Iterator[Work]:
    """The workload's windows of speed, and those of cycles with blocks and a duration of their
    own.
    """
    yield work.model_copy(update={"windows": ("speed",)})
    yield work.model_copy(
        update={
            "windows": ("cpp",),
            "blocks": CYCLES_BLOCKS,
            **({"duration": CYCLES_DURATION} if short else {}),
        }
    )


def decide(
    choice: str,
    cluster: str,
    problems: Callable[[], Sequence[Problem]],
    *,
    whatever_runs: bool = False,
) -> Machine | None:
    """The VM to measure in, None for the running kernel; always None inside the VM.

    ``problems`` gives those of all requested profiles on this kernel. ``auto`` goes to a VM when
    one of them is the kernel's and a VM can be had; but not when ``whatever_runs`` was asked for
    (``--cni all``) and the VM would only be emulated: the others' real figures are worth more than
    a few more rows.

    Raises MissingError when a VM was asked for and cannot be had, InputError for a PATH that is no
    kernel.
    """
    if inside() or choice == "host":
        return None
    if choice == "auto":
        lacking = (
            [problem for problem in problems() if problem.kind == "kernel"]
            if cluster == "lab"
            else []
        )
        if not lacking or vm_problems():
            return None
        machine = _machine(
            newest(),
            f"this one, {os.uname().release}, lacks"
            f" {', '.join(dict.fromkeys(one.lacks for one in lacking))}",
        )
        return None if whatever_runs and machine.emulated else machine
    if cluster != "lab":
        raise UsageError(
            f"--kernel {choice}: only the lab can be measured in a VM, not a cluster of kind"
            f" {cluster}",
            "leave --kernel out",
        )
    if choice != "vm" and "/" not in choice and not Path(choice).exists():
        raise UsageError(
            f"--kernel {choice}: expected auto, host, vm or the path of a vmlinuz",
            "for instance --kernel vm",
        )
    for problem in vm_problems(choice == "vm"):
        raise MissingError(problem.lacks, problem.remedy)
    return _machine(newest() if choice == "vm" else given(Path(choice)), f"--kernel {choice}")


def again(run_dir: Path) -> Machine | None:
    """The VM that an interrupted run was begun in, None when it was begun in none (or when we are
    in it).

    Raises MissingError when its kernel is gone: one run is never measured on two kernels.
    """
    try:
        image = Path(read_beneath(run_dir, _IMAGE, 4096).decode().strip())
    except OSError:
        return None
    except UnicodeDecodeError:
        raise InputError(
            f"{run_dir / _IMAGE}: not the path of a kernel",
            "take the file from a complete copy of the run",
        ) from None
    if inside():
        return None
    if not image.exists():
        package = (
            f"sudo apt-get install linux-image-{image.name.removeprefix('vmlinuz-')}"
            if image.parent == BOOT
            else INSTALL
        )
        raise MissingError(
            f"this run was started in a VM with the kernel {image}, which is gone", package
        )
    return _machine(given(image), "this run was started there")


def start(
    machine: Machine,
    manifest: Manifest,
    run_dir: Path,
    tools: Sequence[str] = (),
    *,
    quiet: bool = False,
) -> int:
    """Makes the run directory and measures in the VM; the exit status. Errors as in ``vm.execute``.

    ``tools``: the programs whose versions the environment names; they are asked here, where that is
    quick.
    """
    from cnibench.offload.facts import stored
    from cnibench.system.environment import versions

    with RunWriter.create(run_dir, manifest) as writer:
        writer.environment({"tools": versions(tools), "offload": stored()})
        (run_dir / _IMAGE.parent).mkdir()
        (run_dir / _IMAGE).write_text(f"{machine.kernel.image}\n", encoding="utf-8")
    return carry(machine, run_dir, quiet=quiet)


def carry(
    machine: Machine, run_dir: Path, *, retry_failed: bool = False, quiet: bool = False
) -> int:
    """Has the VM measure what the run is missing; the exit status. What cnibench prints there comes
    out here.
    """
    announce(machine, quiet)
    options = [
        *["--retry-failed"] * retry_failed,
        *["--quiet"] * quiet,
        *["--verbose"] * log.verbosity(),
    ]
    with log.into(open_log(run_dir)):
        return carry_into(
            preload.command(_ENTRY, "run", "--resume", str(run_dir), *options),
            run_dir,
            machine.kernel,
            machine.accelerator,
        )


def announce(machine: Machine, quiet: bool = False) -> None:
    """Says where it is measured, and that an emulated processor gives no absolute figures."""
    if not quiet:
        click.echo(
            f"measuring in a VM with the stock kernel {machine.kernel.release}: {machine.why}",
            err=True,
        )
    if machine.emulated:
        click.echo(
            f"warning: the VM's processor is emulated ({machine.accelerator.reason}): its absolute"
            " figures mean nothing, and comparisons count instructions rather than time",
            err=True,
        )


def _machine(kernel: Kernel, why: str) -> Machine:
    machine = Machine(kernel, accelerator(kernel), why)
    _log.info("measuring in a VM with %s (%s): %s", kernel.image, machine.accelerator.name, why)
    return machine
