"""A node of agents: what they write to the file system stays in the tree of namespaces, and each
node has its own.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from cnibench.clusters.lab.daemons.processes import Daemons
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.errors import ClusterError, MissingError
from cnibench.system import process as programs

_COPIED = ("/etc", "/opt", "/var")  # what is written there is not written to the machine's files
_START = 10.0  # s


class NodeFiles:
    """A mount namespace: the machine's files, of which some are this node's own copies. It lives
    as long as the process that it was made in, one of ``daemons``.
    """

    def __init__(self, node: LabNode, daemons: Daemons, private: Sequence[str]) -> None:
        """Raises ClusterError."""
        self.folder = daemons.file(f"node-{node.name}")
        self.folder.mkdir()
        self._node, self._daemons = node, daemons
        self._name = f"files-of-{node.name}"
        made = self.folder / "mounted"
        script = [*self._mounts(private), f"touch {made}", "exec sleep infinity"]
        argv = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", "\n".join(script)]
        daemons.start(self._name, node.ns, argv)
        daemons.wait(
            f"node {node.name} gets files of its own",
            made.exists,
            _START,
            "the kernel must have overlayfs (CONFIG_OVERLAY_FS)",
        )

    def _mounts(self, private: Sequence[str]) -> list[str]:
        found = [
            "mount -t sysfs sysfs /sys",  # of this network namespace
            "mount -t bpf bpf /sys/fs/bpf || true",  # what pins programs says so itself
        ]
        for path in _COPIED:
            if Path(path).is_dir():
                upper, work = (self.folder / kind / path[1:] for kind in ("changed", "work"))
                options = shlex.quote(f"lowerdir={path},upperdir={upper},workdir={work}")
                found.append(f"mkdir -p {upper} {work}")
                found.append(f"mount -t overlay overlay -o {options} {path}")
        return found + [f"mkdir -p {path} && mount -t tmpfs tmpfs {path}" for path in private]

    def enter(self, argv: Sequence[str]) -> list[str]:
        """``argv`` so that it runs with the node's files; in which network is the caller's
        business.
        """
        holder = self._daemons.pids()[self._name]
        return ["nsenter", f"--mount=/proc/{holder}/ns/mnt", "--", *argv]

    def run(self, argv: Sequence[str], *, limit: float, text: str, env: dict[str, str]) -> str:
        """A program on the node to its end; its output. Raises ClusterError, LimitError."""
        try:
            with self._node.ns.inside():
                done = programs.run(
                    self.enter(argv), timeout=limit, input=text, check=False, env=env
                )
        except MissingError as error:
            raise ClusterError(error.message, error.remedy) from None
        if done.returncode:
            said = (done.stdout.strip() or done.stderr.strip() or "(no output)")[-600:]
            raise ClusterError(f"{argv[0]} {programs.ending(done.returncode)}: {said}")
        return done.stdout
