"""Kernel images: which stock kernels are installed, what release an image is, and which modules its
first stage needs.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from cnibench.errors import InputError, MissingError
from cnibench.system.files import open_named

BOOT = Path("/boot")
MODULES = Path("/lib/modules")
INSTALL = "sudo apt-get install linux-image-amd64"

# What the guest needs before it sees the host's root: PCI and serial port of virtio, the 9p file
# system, the overlay.
FIRST_MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay")
_FOLDERS = (
    "kernel/net/",
    "kernel/drivers/net/",
    "kernel/crypto/",
    "kernel/arch/x86/crypto/",
    "updates/",
    "extra/",
)
# and what serves neither Pods nor CNIs
_HARDWARE = "can ethernet hamradio ieee802154 mdio phy usb wan wireless wwan"
_FOREIGN = (
    "9p atm batman-adv bluetooth can ceph dccp ieee802154 mac80211 nfc rds rxrpc smc sunrpc tipc"
    " wireless"
)
_NOT = tuple(
    [f"kernel/drivers/net/{kind}/" for kind in _HARDWARE.split()]
    + [f"kernel/net/{kind}/" for kind in _FOREIGN.split()]
)


@dataclass(frozen=True)
class Kernel:
    """A bootable image and the folder of its modules."""

    image: Path
    release: str
    modules: Path


def release_of(image: Path) -> str:
    """The release (``uname -r``) that a bzImage names in its header
    (Documentation/arch/x86/boot.rst, kernel_version).

    Raises MissingError when it cannot be read, InputError when it is no bzImage.
    """
    try:
        with open(open_named(image), "rb") as file:
            head = file.read(0x10000)
    except PermissionError:
        raise MissingError(
            f"{image} cannot be read by this user", f"run as root, or: sudo chmod a+r {image}"
        ) from None
    except OSError as error:
        raise MissingError(
            f"{image}: {error.strerror}", f"name an installed image, or: {INSTALL}"
        ) from None
    wrong = InputError(
        f"{image}: not a Linux kernel image (bzImage)", "name a vmlinuz as it lies in /boot"
    )
    if head[0x202:0x206] != b"HdrS":
        raise wrong
    start = int.from_bytes(head[0x20E:0x210], "little") + 0x200
    words = head[start : start + 256].split(b"\0", 1)[0].split()
    if start == 0x200 or not words:
        raise wrong
    return words[0].decode("ascii", "replace")


def given(image: Path, modules: Path = MODULES) -> Kernel:
    """The kernel in that image, its modules beside it by release. Raises MissingError or
    InputError.
    """
    release = release_of(image)
    folder = modules / release
    if not (folder / "modules.dep").is_file():
        raise MissingError(
            f"{folder} has no modules for {image}",
            f"install the package that {image.name} came with, modules included",
        )
    return Kernel(image.absolute(), release, folder)


def newest(boot: Path = BOOT, modules: Path = MODULES) -> Kernel:
    """The newest installed stock kernel that has its modules. Raises MissingError with the package
    to install.
    """
    if platform.machine() != "x86_64":
        raise MissingError(
            f"the VM is made for x86_64, this machine is {platform.machine()}", "use --kernel host"
        )
    images = sorted(boot.glob("vmlinuz-*"), key=lambda path: _order(path.name), reverse=True)
    if not images:
        raise MissingError(f"no kernel image in {boot}", INSTALL)
    reasons: list[MissingError | InputError] = []
    for image in images:
        try:
            return given(image, modules)
        except (MissingError, InputError) as error:
            reasons.append(error)
    raise MissingError(f"no usable kernel image in {boot}: {reasons[0].message}", reasons[0].remedy)


def modules(kernel: Kernel) -> list[Path]:
    """The module files that the guest gets, relative to ``kernel.modules``: those of networks and
    what they depend on.

    Not all 4000: they come into the guest's memory, and perf looks at each one whenever it starts.
    Raises MissingError naming a module for the start that this kernel has in no form.
    """
    depends: dict[str, list[str]] = {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        file, _, needs = line.partition(":")
        depends[file] = needs.split()
    by_name = {_name(file): file for file in depends}
    builtin = kernel.modules / "modules.builtin"
    built_in = (
        {_name(line) for line in builtin.read_text().splitlines()} if builtin.exists() else set()
    )
    wanted = {file for file in depends if file.startswith(_FOLDERS) and not file.startswith(_NOT)}
    for name in FIRST_MODULES:
        if name in by_name:
            wanted.add(by_name[name])
        elif name not in built_in:
            raise MissingError(
                f"the kernel {kernel.release} has no module {name}",
                f"use a distribution's stock kernel: {INSTALL}",
            )
    for file in list(wanted):
        wanted.update(depends[file])  # modules.dep lists what is needed indirectly as well
    return sorted(Path(file) for file in wanted)


def _name(file: str) -> str:
    return re.sub(r"\.ko(\.\w+)?$", "", file.strip().rsplit("/", 1)[-1]).replace("-", "_")


def _order(name: str) -> list[tuple[int, str]]:
    """6.10 after 6.9: numbers compare as numbers, and a pre-release text after none."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
