"""What the tests of runs on kind share."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

CNIBENCH = str(Path(sys.executable).with_name("cnibench"))
LIMIT = 600.0
ONE_CELL = ("--placement", "inter", "--workload", "tcp-rr", "--no-perf")
# Windows of a second can be over before perf has begun on a machine that does more than this.
SHORT = ("--duration", "3s", "--warmup", "0s", "--blocks", "1")
IN_SLICES = ("--duration", "1s", "--blocks", "1")


def cnibench(*words: str | Path, cwd: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [CNIBENCH, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=cwd,
        check=False,
    )
    assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def output(*argv: str | Path, given: str = "") -> str:
    done = subprocess.run(
        [str(word) for word in argv],
        input=given,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def engine(*argv: str | Path) -> str:
    """What podman or kind says. Podman fails at the moment at which a container of another suite
    loses its network namespace or its processes are being moved: it is asked again.
    """
    for _ in range(4):
        try:
            return output(*argv)
        except AssertionError:
            time.sleep(2)
    return output(*argv)


def until(what: Callable[[], Any], limit: float = 120.0) -> Any:
    end = time.monotonic() + limit
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.3)
    return found


def nothing_left(said: str) -> bool:
    """Does ``clean`` say so? The folder of temporary files is the machine's: those of a run that a
    test of another suite killed at the same moment are not of this cluster.
    """
    return all(
        "nothing was left" in line or line.startswith("removed: the temporary folder ")
        for line in said.splitlines()
    )


def run_of(folder: Path) -> Path:
    (run,) = folder.glob("runs/*")
    return run


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    path = run_of(folder) / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def clusters() -> set[str]:
    return set(engine("kind", "get", "clusters").split())


def kubectl(kept: Mapping[str, Any], *words: str, given: str = "") -> str:
    """On the cluster that a run with --keep left."""
    return output("kubectl", "--kubeconfig", kept["kubeconfig"], *words, given=given)


def run_shop(kubeconfig: str, image: str) -> None:
    """Starts a Pod of somebody else's, and waits for it."""
    kubectl = ("kubectl", "--kubeconfig", kubeconfig)
    local = ("--image", image, "--image-pull-policy", "IfNotPresent")
    output(*kubectl, "run", "shop", *local, "--command", "--", "sleep", "1000")
    until(lambda: "Running" in output(*kubectl, "get", "pod", "shop"))


def kept_cluster(said: str) -> tuple[str, str]:
    """Kubeconfig and name of the cluster that ``cnibench run --keep`` left, from what it said."""
    match = re.search(r"kept: KUBECONFIG=(\S+)", said)
    assert match, said
    return match[1], Path(match[1]).parent.name


def namespaces_of_runs(kept: Mapping[str, Any]) -> set[str]:
    """Of runs that have the kept cluster as an existing one."""
    label = "app.kubernetes.io/managed-by=cnibench"
    names = kubectl(kept, "get", "ns", "-l", label, "-o", "name").split()
    return {name.removeprefix("namespace/") for name in names}
