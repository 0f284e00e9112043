"""Where the programs and images of a node come from: a folder, an archive of one, or packages.

    FOLDER/bin/      kubeadm, kubelet; containerd, containerd-shim-runc-v2, ctr, runc
    FOLDER/cni/      CNI plugins (loopback, host-local, portmap, bridge, ...)
    FOLDER/images/   archives (*.tar) of the control plane's images

What a folder lacks of containerd or the plugins is installed from the machine's packages.
"""

from __future__ import annotations

import re
import struct
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from cnibench.errors import CnibenchError, InputError
from cnibench.system import process as programs
from cnibench.system import scratch

DEFAULT = "v1.34"
_KUBERNETES = ("kubeadm", "kubelet")
_RUNTIME = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")
_VERSION = re.compile(r"v1\.\d{1,3}(\.\d{1,3})?")
_MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine of ELF
_ASK = 30.0  # s
_UNPACK = 600.0  # s for an archive of programs and images


@dataclass(frozen=True)
class Source:
    """``version`` is Kubernetes', v1.34 or v1.34.4; ``folder`` is None for packages alone."""

    version: str
    folder: Path | None = None
    architecture: str = ""

    def __str__(self) -> str:
        return str(self.folder) if self.folder else f"packages of Kubernetes {self.version}"

    @property
    def minor(self) -> int:
        return int(self.version.split(".")[1])

    def programs(self) -> list[Path]:
        return self._files("bin", "*")

    def plugins(self) -> list[Path]:
        return self._files("cni", "*")

    def images(self) -> list[Path]:
        return self._files("images", "*.tar")

    @property
    def has_kubernetes(self) -> bool:
        return self._has(_KUBERNETES)

    @property
    def has_runtime(self) -> bool:
        return self._has(_RUNTIME)

    @property
    def has_plugins(self) -> bool:
        return any(one.name == "loopback" for one in self.plugins())

    def _has(self, names: tuple[str, ...]) -> bool:
        return set(names) <= {one.name for one in self.programs()}

    def _files(self, folder: str, pattern: str) -> list[Path]:
        found = sorted((self.folder / folder).glob(pattern)) if self.folder else []
        return [one for one in found if one.is_file()]


def source(given: str | None, stack: ExitStack) -> Source:
    """What ``--kubernetes`` names: a version, a folder, or an archive, which is unpacked until
    ``stack`` closes. Raises InputError.
    """
    if not given or _VERSION.fullmatch(given):
        return Source(given or DEFAULT)
    path = Path(given)
    if path.is_file():
        path = _unpacked(path, stack.enter_context(scratch.folder()))
    if not path.is_dir():
        raise InputError(
            f"--kubernetes {given}: expected a version (v1.34, v1.34.4), a folder or an archive",
            "docs/bare-metal.md says which files are expected in it",
        )
    found = Source("v1.0", path)
    if not found.has_kubernetes:
        raise InputError(
            f"{given} has no {' and '.join(f'bin/{name}' for name in _KUBERNETES)}",
            "docs/bare-metal.md says which files are expected",
        )
    kubelet = path / "bin" / "kubelet"
    return Source(_version_of(path / "bin" / "kubeadm"), path, architecture(kubelet))


def _unpacked(archive: Path, folder: Path) -> Path:
    """By GNU tar, which writes nothing outside of the folder. Python's tarfile refuses such members
    only since 3.11.4, and Debian 12 has 3.11.2.
    """
    argv = ["tar", "--extract", f"--file={archive}", f"--directory={folder}", "--no-same-owner"]
    try:
        programs.run([*argv, "--force-local"], timeout=_UNPACK)
    except CnibenchError as error:
        raise InputError(
            f"{archive} cannot be unpacked: {error.message}",
            "expected a tar archive, compressed or not",
        ) from None
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and not (folder / "bin").exists() else folder


def _version_of(kubeadm: Path) -> str:
    """Out of the program itself, which may be another architecture's."""
    try:
        said = programs.run([str(kubeadm), "version", "-o", "short"], timeout=_ASK).stdout.strip()
    except (OSError, CnibenchError):
        said = ""
    if not re.fullmatch(r"v1\.\d+\.\d+\S*", said):
        raise InputError(
            f"{kubeadm} does not report its version", "is it an executable of this machine's kind?"
        )
    return said


def architecture(program: Path) -> str:
    """What ``uname -m`` says where it runs, '' when that is not known."""
    with program.open("rb") as file:
        head = file.read(20)
    if head[:4] != b"\x7fELF" or len(head) < 20:
        return ""
    return _MACHINES.get(struct.unpack_from("<H", head, 18)[0], "")
