"""The choice of the VM's kernel, its modules, the archive of the first stage and the frames on the
port.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pydantic
import pytest
from hypothesis import given, strategies

import cnibench
from cnibench.cpp import taxonomy
from cnibench.errors import InputError, MissingError, UsageError
from cnibench.system.guest import patience
from cnibench.vm import accel, bundle, frames, initramfs, kernel, machine, preload, requirements


def image(path: Path, release: str) -> Path:
    """The header of a bzImage that names this release, as far as Documentation/arch/x86/boot.rst
    defines it.
    """
    head = bytearray(0x1000)
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x400)
    text = f"{release} (builder@host) #1 SMP\0".encode()
    head[0x600 : 0x600 + len(text)] = text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head)
    return path


def modules(folder: Path, release: str, listed: str = "") -> Path:
    (folder / release).mkdir(parents=True)
    (folder / release / "modules.dep").write_text(listed)
    return folder


def test_the_newest_kernel_with_its_modules_is_taken(tmp_path: Path) -> None:
    for release in ("6.1.0-9-amd64", "6.1.0-56-amd64", "6.10.1-amd64", "6.12.0-amd64"):
        image(tmp_path / "boot" / f"vmlinuz-{release}", release)
    for release in (
        "6.1.0-9-amd64",
        "6.1.0-56-amd64",
        "6.10.1-amd64",
    ):  # none for 6.12: removed, say
        modules(tmp_path / "modules", release)
    found = kernel.newest(tmp_path / "boot", tmp_path / "modules")
    assert found == kernel.Kernel(
        tmp_path / "boot/vmlinuz-6.10.1-amd64", "6.10.1-amd64", tmp_path / "modules/6.10.1-amd64"
    )


def test_what_is_no_kernel_is_reported(tmp_path: Path) -> None:
    with pytest.raises(MissingError) as none:
        kernel.newest(tmp_path, tmp_path)
    assert "linux-image-amd64" in none.value.remedy
    (tmp_path / "vmlinuz-text").write_text("not a kernel")
    with pytest.raises(InputError, match="bzImage"):
        kernel.given(tmp_path / "vmlinuz-text")
    with pytest.raises(MissingError, match="No such file"):
        kernel.given(tmp_path / "absent")
    with pytest.raises(MissingError, match="no modules"):
        kernel.given(image(tmp_path / "vmlinuz-1", "1.0"), tmp_path)


def test_what_is_no_regular_file_is_no_kernel(tmp_path: Path) -> None:
    """A run of somebody else names its kernel: a FIFO there must not be waited for."""
    os.mkfifo(tmp_path / "vmlinuz")
    with pytest.raises(InputError, match="not a regular file"):
        kernel.release_of(tmp_path / "vmlinuz")


def test_modules_bring_what_they_depend_on_and_no_foreign_hardware(tmp_path: Path) -> None:
    listed = """kernel/net/9p/9pnet.ko.xz:
kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz
kernel/fs/netfs/netfs.ko.xz:
kernel/net/9p/9pnet_virtio.ko.xz: kernel/net/9p/9pnet.ko.xz
kernel/drivers/char/virtio_console.ko.xz:
kernel/fs/overlayfs/overlay.ko.xz:
kernel/net/ipv4/ipip.ko.xz: kernel/net/ipv4/tunnel4.ko.xz
kernel/net/ipv4/tunnel4.ko.xz:
kernel/drivers/net/ethernet/intel/e1000.ko.xz:
kernel/drivers/gpu/drm/drm.ko.xz:
"""
    folder = modules(tmp_path, "6.12", listed) / "6.12"
    some = kernel.Kernel(tmp_path / "vmlinuz", "6.12", folder)
    with pytest.raises(MissingError, match="virtio_pci"):
        kernel.modules(some)
    (folder / "modules.builtin").write_text("kernel/drivers/virtio/virtio-pci.ko\n")
    assert {file.name.partition(".")[0] for file in kernel.modules(some)} == {
        "9p",
        "9pnet",
        "9pnet_virtio",
        "netfs",
        "virtio_console",
        "overlay",
        "ipip",
        "tunnel4",
    }


def test_cpio_reads_the_archive(tmp_path: Path) -> None:
    names = [
        "kernel/" + name
        for name in ("virtio_pci.ko", "virtio_console.ko", "9pnet_virtio.ko", "9p.ko", "overlay.ko")
    ]
    folder = modules(tmp_path, "6.12", "".join(f"{name}:\n" for name in names)) / "6.12"
    (folder / "kernel").mkdir()
    for name in names:
        (folder / name).write_bytes(name.encode())
    archive = initramfs.build(
        kernel.Kernel(tmp_path / "vmlinuz", "6.12", folder), ["/bin/echo", "two words"], b"modules"
    )
    into = tmp_path / "unpacked"
    into.mkdir()
    done = subprocess.run(
        ["cpio", "-id", "--no-absolute-filenames", "--nonmatching", "dev/console"],
        input=archive,
        cwd=into,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert (into / "lib/modules/6.12/kernel/9p.ko").read_bytes() == b"kernel/9p.ko"
    assert (into / "lib/modules/6.12/modules.dep").exists()
    assert "exec chroot . /bin/echo 'two words'" in (into / "init").read_text()
    assert subprocess.run(["sh", "-n", into / "init"]).returncode == 0
    for program in ("sh", "mount", "mkdir", "modprobe", "chroot"):
        assert (into / "bin" / program).stat().st_mode & 0o111


def test_the_guest_imports_from_the_bundle_what_the_host_has_imported(tmp_path: Path) -> None:
    assert pydantic.VERSION  # imported here, and so in the bundle
    (tmp_path / "bundle").write_bytes(bundle.pack(cnibench))
    program = """
import json, sys
from importlib import resources
import cnibench.cpp.taxonomy, msgspec, pydantic
loaders = {module.__name__: type(module.__spec__.loader).__name__ for module in (cnibench, cnibench.cpp.taxonomy, pydantic, msgspec._core)}
data = resources.files("cnibench.cpp").joinpath("taxonomy.yaml").read_text()
print(json.dumps([loaders, cnibench.cpp.taxonomy.__file__, bool(data), sys.path]))
"""  # noqa: E501
    argv = [
        "/bin/sh",
        "-c",
        'exec "$@" 3<"$0"',
        str(tmp_path / "bundle"),
        *preload.command(program),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/", env={"PATH": "/nowhere"})
    assert done.returncode == 0, done.stderr
    loaders, file, data, path = json.loads(done.stdout)
    assert loaders == {
        "cnibench": "_Loader",
        "cnibench.cpp.taxonomy": "_Loader",
        "pydantic": "_Loader",
        "msgspec._core": "ExtensionFileLoader",
    }
    assert file == taxonomy.__file__
    assert data
    assert path == sys.path


kinds = strategies.sampled_from([frames.OUT, frames.ERR, frames.BEAT, frames.EXIT, frames.JOB])


@given(
    strategies.lists(strategies.tuples(kinds, strategies.binary(max_size=300))),
    strategies.integers(1, 40),
)
def test_frames_survive_any_cutting(sent: list[tuple[bytes, bytes]], size: int) -> None:
    stream = b"".join(frames.pack(kind, payload) for kind, payload in sent)
    reader = frames.Reader()
    got = [
        frame
        for start in range(0, len(stream), size)
        for frame in reader.feed(stream[start : start + size])
    ]
    assert got == sent


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="not a frame"):
        list(frames.Reader().feed(b"Kernel panic"))
    with pytest.raises(ValueError, match="not a frame"):
        list(frames.Reader().feed(frames.OUT + b"\xff\xff\xff\xff"))
    with pytest.raises(ValueError, match="at most"):
        frames.pack(frames.OUT, bytes(frames.LARGEST + 1))


def test_what_a_machine_lacks_for_a_vm_is_reported_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "newest", lambda: kernel.newest(tmp_path, tmp_path))
    monkeypatch.setattr(
        initramfs, "_find", lambda program: None if program == "kmod" else f"/bin/{program}"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    told = {problem.lacks: problem.remedy for problem in requirements.problems()}
    assert told["VM: the program qemu-system-x86_64"] == "sudo apt-get install qemu-system-x86"
    assert told["VM: the program kmod"] == "sudo apt-get install kmod"
    assert told[f"VM: no kernel image in {tmp_path}"] == "sudo apt-get install linux-image-amd64"
    assert requirements.summary().startswith("no VM is possible: the program qemu-system-x86_64")
    known = kernel.Kernel(tmp_path / "vmlinuz", "1.0", tmp_path)
    monkeypatch.setattr(initramfs, "build", lambda *_: b"")
    with (
        pytest.raises(MissingError) as missing,
        machine.started(known, accel.Accelerator("tcg"), tmp_path, machine.Size()),
    ):
        pytest.fail("there is no qemu")
    assert missing.value.remedy == "sudo apt-get install qemu-system-x86"


def test_without_kvm_the_guest_is_emulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel, "_DEVICE", tmp_path / "kvm")
    found = accel.accelerator(kernel.Kernel(tmp_path / "vmlinuz", "1.0", tmp_path))
    assert (found.name, found.reason) == ("tcg", f"there is no {tmp_path / 'kvm'}")
    assert "-cpu" in found.options


@pytest.mark.parametrize(
    ("flags", "name", "expected"),
    [
        ("fpu constant_tsc nonstop_tsc", "tcg", "tsc=reliable"),
        ("fpu constant_tsc nonstop_tsc hypervisor", "tcg", "tsc=reliable tsc_early_khz=2596124"),
        ("fpu constant_tsc", "tcg", ""),
        ("fpu constant_tsc nonstop_tsc", "kvm", ""),
    ],
)
def test_the_guest_trusts_a_tsc_that_is_steady(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, name: accel.Name, expected: str
) -> None:
    monkeypatch.setattr(accel, "_CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(
        f"processor\t: 0\ncpu MHz\t\t: 2596.124\nflags\t\t: {flags}\nbugs\t\t:\n"
    )
    assert accel.Accelerator(name).kernel_options == expected


def test_the_memory_of_the_guest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CNIBENCH_VM_MEMORY", "4096")
    assert machine.Size.usual() == machine.Size(cpus=2, memory=4096)
    monkeypatch.setenv("CNIBENCH_VM_MEMORY", "4G")
    with pytest.raises(UsageError, match="expected a number of MiB"):
        machine.Size.usual()


def test_limits_stretch_under_emulation_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CNIBENCH_VM", raising=False)
    assert patience() == 1
    monkeypatch.setenv("CNIBENCH_VM", "kvm")
    assert patience() == 1
    monkeypatch.setenv("CNIBENCH_VM", "tcg")
    assert patience() > 1
