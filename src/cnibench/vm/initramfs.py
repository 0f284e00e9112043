"""The guest's first stage: a small initramfs that mounts the host's root read-only, lays a
throw-away overlay on it and enters it.

A distribution's own initramfs looks for disks, and virtme-ng's init starts udev and
systemd-tmpfiles: 50 s against 7 s until the first program runs under emulation. Five programs of
the host and a dozen lines of shell do what is needed here. The archive is built in memory.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cnibench.errors import MissingError
from cnibench.system import process as programs
from cnibench.vm import cpio
from cnibench.vm.kernel import FIRST_MODULES, Kernel, modules
from cnibench.vm.preload import FD

SHARE = "trans=virtio,version=9p2000.L,access=client,msize=512000"  # options of both 9p mounts
_BUNDLE = "cnibench.modules"
ROOT_TAG, RUN_TAG = (
    "cnibench.root",
    "cnibench.run",
)  # 9p mount tags: the host's root, the run directory

# Program in the guest -> (program of the host, Debian package)
_PROGRAMS = {
    "sh": ("sh", "dash"),
    "mount": ("mount", "mount"),
    "modprobe": ("kmod", "kmod"),
    "chroot": ("chroot", "coreutils"),
    "mkdir": ("mkdir", "coreutils"),
}

_INIT = """#!/bin/sh
export PATH=/bin
stuck() {{ echo "cnibench: the guest cannot start: $1" >/dev/console; exit 1; }}
mount -t devtmpfs -o mode=755 dev /dev
mount -t proc proc /proc
modprobe -a {modules} || stuck "a module does not load"
mount -t 9p -o ro,cache=loose,{share} {root} /lower || stuck "the host's root does not mount"
mount -t tmpfs -o mode=755,size=60% spare /spare || stuck "no tmpfs"
mkdir /spare/upper /spare/work
mount -t overlay -o lowerdir=/lower,upperdir=/spare/upper,workdir=/spare/work root /new || stuck "the overlay does not mount"
mount -n --bind /{library} /new/{library} || stuck "the modules do not mount"
mount -n --move /dev /new/dev || stuck "/dev does not move"
exec {fd}</{bundle}
cd /new
mount -n --move . / || stuck "the root does not move"
exec chroot . {agent} </dev/console >/dev/console 2>&1
"""  # noqa: E501


def build(kernel: Kernel, agent: Sequence[str], bundle: bytes) -> bytes:
    """The archive. ``agent`` is the command line that PID 1 becomes in the overlay, ``bundle`` what
    it and its children have open.

    Raises MissingError naming the package of a program that the host lacks.
    """
    for program, package in missing_programs():
        raise MissingError(
            f"the VM's first stage needs the program '{program}'", f"sudo apt-get install {package}"
        )
    files = program_files({name: program for name, (program, _) in _PROGRAMS.items()})
    library = f"lib/modules/{kernel.release}"
    indexes = [
        file.relative_to(kernel.modules) for file in sorted(kernel.modules.glob("modules.*"))
    ]
    for file in (*indexes, *modules(kernel)):
        files[f"{library}/{file}"] = (0o644, (kernel.modules / file).read_bytes())
    files[_BUNDLE] = (0o644, bundle)
    script = _INIT.format(
        modules=" ".join(FIRST_MODULES),
        root=ROOT_TAG,
        share=SHARE,
        library=library,
        fd=FD,
        bundle=_BUNDLE,
        agent=shlex.join(agent),
    )
    files["init"] = (0o755, script.encode())
    return cpio.pack(files, {"proc", "lower", "spare", "new"})


def program_files(programs: Mapping[str, str]) -> dict[str, tuple[int, bytes]]:
    """(mode, content) of each file that is needed for these programs of the host, under their names
    in /bin of the archive: themselves, and the libraries that they are linked with.
    """
    files: dict[str, tuple[int, bytes]] = {}
    for name, program in programs.items():
        found = _find(program)
        assert found is not None
        files[f"bin/{name}"] = (0o755, Path(found).read_bytes())
        for library in _libraries(found):
            files[library.lstrip("/")] = (0o755, Path(library).read_bytes())
    return files


def missing_programs() -> list[tuple[str, str]]:
    """(program, Debian package) of what the host lacks for the first stage."""
    return [(program, package) for program, package in _PROGRAMS.values() if _find(program) is None]


def _find(program: str) -> str | None:
    return shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")


def _libraries(program: str) -> Iterator[str]:
    """The shared objects that a program is linked with, its loader included (ldd); none for a
    static program.
    """
    for line in programs.run(["ldd", program], timeout=20, check=False).stdout.splitlines():
        for word in line.split():
            if word.startswith("/"):
                yield word
