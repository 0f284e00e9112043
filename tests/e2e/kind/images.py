"""Image archives of what runs in the cluster: built from the programs of binaries.py and the roots
of roots.py.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import archive, binaries, cache, monolith, roots
from .command import run

FILES = Path(__file__).parent / "files"
ETCD, COREDNS = "registry.k8s.io/etcd:3.6.5-0", "registry.k8s.io/coredns/coredns:v1.12.1"
PAUSE = "registry.k8s.io/pause:3.10.1"
BASE = "localhost/cnibench-e2e/base:bookworm"
FLANNEL = f"ghcr.io/flannel-io/flannel:{binaries.FLANNEL}"
FLANNEL_CNI = "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1"
CILIUM = f"quay.io/cilium/cilium:{binaries.CILIUM}"
CILIUM_OPERATOR = f"quay.io/cilium/operator-generic:{binaries.CILIUM}"
# A cluster lives minutes: its programs collect their garbage less often, for some more memory.
COLLECT = "GOGC=300"
_OURS = (Path(__file__), Path(archive.__file__))


def control_plane() -> Path:
    """Folder of archives, the images named as kubeadm asks for them (`kubeadm config images list`),
    whatever version is inside.
    """
    programs, base = binaries.kubernetes(), roots.images() / "base.tar"

    def build(where: Path) -> None:
        with tempfile.TemporaryDirectory(dir=where) as scratch:
            for name in (
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kube-proxy",
            ):
                own = archive.layer(
                    Path(scratch) / name, {f"usr/local/bin/{name}": programs / name}
                )
                below = [base] if name == "kube-proxy" else []
                image = f"registry.k8s.io/{name}:{binaries.KUBERNETES}"
                made = archive.Image(image, [*below, own], environment=[COLLECT])
                archive.write(where / f"{name}.tar", made)
            own = archive.layer(Path(scratch) / "etcd", {"usr/local/bin/etcd": programs / "etcd"})
            archive.write(where / "etcd.tar", archive.Image(ETCD, [own], environment=[COLLECT]))
            own = archive.layer(Path(scratch) / "coredns", {"coredns": programs / "coredns"})
            archive.write(
                where / "coredns.tar", archive.Image(COREDNS, [own], ["/coredns"], [COLLECT])
            )
            run("gcc", "-static", "-Os", "-s", "-o", Path(scratch) / "pause", FILES / "pause.c")
            own = archive.layer(Path(scratch) / "layer", {"pause": Path(scratch) / "pause"})
            archive.write(where / "pause.tar", archive.Image(PAUSE, [own], ["/pause"]))

    return cache.part(
        "images-control-plane",
        cache.key(programs.name, base.parent.name, *_OURS, FILES / "pause.c"),
        build,
    )


def base() -> Path:
    """Archive: Debian with the load generators, the tools of a node agent, and the reference CNI
    plugins in /opt/cni/bin.
    """
    programs = binaries.kubernetes() / "cni"
    plugins = {
        f"opt/cni/bin/{name}": programs / name
        for name in ("bridge", "ptp", "loopback", "host-local", "portmap")
    }
    return _archive("base", _Own(BASE, plugins))


def flannel() -> Path:
    """Archive of the agent and of the image whose /flannel is copied to the nodes."""
    programs, plugin = binaries.flannel(), binaries.flannel_cni()
    agent = _Own(FLANNEL, {"opt/bin/flanneld": programs / "flanneld"}, ["/opt/bin/flanneld"])
    return _archive("flannel", agent, _Own(FLANNEL_CNI, {"flannel": plugin / "flannel"}))


def cilium() -> Path:
    """Archive of the agent (with its C and a compiler) and the operator, their files where the
    upstream images have them.
    """
    programs = binaries.cilium()
    agent = {
        **monolith.agent(programs / "cilium-agent"),
        **{
            f"usr/bin/{name}": programs / name
            for name in ("cilium-dbg", "cilium-mount", "cilium-sysctlfix")
        },
        "opt/cni/bin/cilium-cni": programs / "cilium-cni",
        "var/lib/cilium/bpf": programs / "bpf",
        **{
            script: programs / "scripts" / script
            for script in ("init-container.sh", "install-plugin.sh", "cni-uninstall.sh")
        },
        "cni/loopback": binaries.kubernetes() / "cni" / "loopback",
    }
    operator = {"usr/bin/cilium-operator-generic": programs / "cilium-operator"}
    return _archive(
        "cilium",
        _Own(CILIUM, agent, compiler=True),
        _Own(CILIUM_OPERATOR, operator, ["/usr/bin/cilium-operator-generic"]),
    )


@dataclasses.dataclass(frozen=True)
class _Own:
    """What an image has beyond the base: {path in it: path here}, and perhaps the compiler."""

    name: str
    files: Mapping[str, Path]
    entrypoint: Sequence[str] = ()
    compiler: bool = False


def _archive(part: str, *images: _Own) -> Path:
    root = roots.images()

    def build(where: Path) -> None:
        with tempfile.TemporaryDirectory(dir=where) as scratch:
            made = []
            for number, image in enumerate(images):
                own = archive.layer(Path(scratch) / str(number), image.files)
                below = [root / "base.tar", *([root / "compiler.tar"] if image.compiler else [])]
                made.append(archive.Image(image.name, [*below, own], image.entrypoint))
            archive.write(where / f"{part}.tar", *made)

    # The names of the folders that the files come from carry those folders' keys.
    sources = [
        [
            image.name,
            image.compiler,
            list(image.entrypoint),
            {to: str(of.relative_to(cache.folder())) for to, of in image.files.items()},
        ]
        for image in images
    ]
    return (
        cache.part(f"image-{part}", cache.key(sources, root.name, Path(archive.__file__)), build)
        / f"{part}.tar"
    )
