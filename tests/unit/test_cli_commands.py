"""The command line without measuring: help, discovery, JSON, dry runs, lists, and what doctor
finds.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from cnibench import registry
from cnibench.cli.errors import guarded
from cnibench.cli.main import Commands, files, first_line, group
from cnibench.cli.measurement import packages
from cnibench.cli.measurement.execute import comparisons
from cnibench.cli.measurement.plan import plan_of
from cnibench.cli.options.plan import PlanOptions
from cnibench.model.cell import Cell, Sample
from cnibench.model.profile import builtin
from cnibench.planning.method import MEASURED
from cnibench.registry import providers
from cnibench.run.progress import Lines, Terminal, words
from cnibench.run.provenance import Provenance, failure
from cnibench.rundir.schema import now
from cnibench.system.environment import cpu_model, disturbances, machine, memory, steal
from cnibench.testbed.capabilities.ownership import Leftover, Ownership
from cnibench.vm import requirements
from cnibench.vm.accel import Accelerator

ENTRY = "import sys; from cnibench.cli.main import main; sys.argv[0] = 'cnibench'; main()"
TWO = "a=veth-baseline,b=veth-baseline"
DRY_RUN = ["run", "--dry-run", "--cni", TWO, "--no-perf", "--kernel", "host"]


def call(*arguments: str) -> int:
    return guarded(lambda: group.main(list(arguments), prog_name="cnibench", standalone_mode=False))


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def names() -> list[str]:
    return group.list_commands(click.Context(group))


def test_help_imports_nothing_heavy_and_lists_every_command() -> None:
    program = (
        "import sys\nfrom cnibench.cli.errors import guarded\nfrom cnibench.cli.main import"
        " group\nstatus = guarded(lambda: group.main(['--help'], prog_name='cnibench',"
        " standalone_mode=False))\nheavy = {'pydantic', 'numpy', 'scipy', 'yaml', 'rich', 'duckdb',"
        " 'altair', 'msgspec', 'pyroute2'} & set(sys.modules)\nprint('HEAVY', sorted(heavy),"
        " status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "HEAVY [] 0"
    for name in names():
        assert f"  {name} " in done.stdout


def test_a_preview_waits_for_no_import_of_numpy() -> None:
    """numpy and scipy take longer to import than the whole preview to make."""
    program = (
        "import sys\nfrom cnibench.cli.main import group\n"
        "group.main(['run', '--cni', 'host', '--kernel', 'host', '--dry-run'],"
        " standalone_mode=False)\nprint(sorted({'numpy', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "\ntime: " in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", names())
def test_each_command_is_found_by_its_file_and_says_the_same_everywhere(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    assert command.name == name
    path = files()[name]
    assert path.stem.rstrip("_").replace("_", "-") == name
    assert path.read_text().startswith('"""')
    assert first_line(path)
    assert call(name, "--help") == 0
    assert "Usage: cnibench" in capsys.readouterr().out


def test_help_fits_80_columns_and_cuts_no_summary() -> None:
    def walk(command: click.Command, context: click.Context) -> None:
        for line in command.get_help(context).splitlines():
            assert len(line) <= 80, line
            assert not re.match(r"  [a-z-]+  .*\.\.\.$", line), line
        for name in command.list_commands(context) if isinstance(command, click.Group) else ():
            one = command.get_command(context, name)
            assert one is not None
            walk(one, click.Context(one, info_name=name, parent=context, terminal_width=80))

    walk(group, click.Context(group, info_name="cnibench", terminal_width=80))


def test_other_modules_are_no_commands() -> None:
    assert {"run", "runs", "profiles", "doctor", "clean"} <= set(names())
    assert not {"main", "--init--", "errors", "measure", "plan"} & set(names())
    assert isinstance(group, Commands)
    assert group.get_command(click.Context(group), "errors") is None
    assert group.get_command(click.Context(group), "measure/run") is None


def test_dry_run_tells_cells_time_and_bytes_and_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [*DRY_RUN, "--workload", "tcp-rr", "--resolution", "2%", "--noise", "1%"]
    assert call(*arguments, "--seed", "5", "--json") == 0
    found = document(capsys)
    assert (len(found["cells"]), found["blocks"], found["samples"], found["seed"]) == (4, 7, 28, 5)
    assert found["seconds"] == pytest.approx(28 * MEASURED * 1.4 + 4 * 1.5)
    assert [(one["blocks"], one["noise"], one["source"]) for one in found["planned"]] == [
        (7, 0.01, "given")
    ]
    assert call(*arguments) == 0
    said = capsys.readouterr()
    assert "4 cells x 7 blocks = 28 samples" in said.out
    assert (
        "tcp-rr: 7 blocks, planned to find 2 % in the pair with a power of 80% at a noise of 1 %"
        " (given)" in said.out
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", ["commit", "=a1", "commit=", "commit=a1=", "x=" + 2000 * "y"])
def test_facts_are_recorded_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    monkeypatch.chdir(tmp_path)
    facts = ["--fact", "commit=a1", "--fact", "rack=left=3"]
    assert call(*DRY_RUN, *facts, "--json") == 0
    assert document(capsys)["facts"] == {"commit": "a1", "rack": "left=3"}
    assert call(*DRY_RUN, *facts, "--fact", wrong) == 2
    assert "expected KEY=VALUE, each KEY once" in capsys.readouterr().err


def test_too_few_blocks_are_reported_of_what_is_measured_not_of_what_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for workload, told in (("tcp-rr", True), ("rule-path", False)):
        assert call(*DRY_RUN, "--blocks", "1", "--workload", workload) == 0
        assert ("cannot show a difference" in "".join(capsys.readouterr())) == told, workload


def test_options_override_the_keys_of_a_plan_file(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "cni: [flannel]\nduration: 3s\nplacement: intra\nsettings: {'': {mtu: '1400'}}\n"
    )
    plan = plan_of(
        PlanOptions(
            plan=str(file),
            duration="4s",
            blocks="7",
            ip="both",
            no_perf=True,
            settings=["a:b:c=d=e", "x=1"],
        )
    )
    assert (plan.cni, plan.duration, plan.placement, plan.blocks, plan.ip, plan.windows) == (
        ("flannel",),
        4.0,
        ("intra",),
        7,
        (4, 6),
        ("speed",),
    )
    assert plan.settings == {"": {"mtu": "1400", "x": "1"}, "a:b": {"c": "d=e"}}
    work = plan_of(
        PlanOptions(cni=["a"], workload=["tcp-rr:request=64:response=1k,tcp-stream"])
    ).workload
    assert [(one.name, one.params) for one in work] == [
        ("tcp-rr", {"request": 64, "response": "1k"}),
        ("tcp-stream", {}),
    ]


def test_no_runs_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("runs", "--json") == 0
    assert document(capsys) == {"schema": 1, "problems": [], "runs": []}


def test_profiles_lists_all_with_where_they_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("profiles", "--json") == 0
    found = {item["name"]: item for item in document(capsys)["profiles"]}
    assert {"host", "veth-baseline"} <= found.keys()
    assert all(item["here"]["lab"] in ("host", "vm", "no") for item in found.values())
    assert all(item["here"]["reason"] for item in found.values() if item["here"]["lab"] != "host")
    assert found["flannel"]["services"] == ["iptables", "nftables", "ipvs", "ebpf", "none"]
    assert found["antrea"]["services"] == []
    assert call("profiles", "show", "veth-baseline") == 0
    assert "Routed veth pairs" in capsys.readouterr().out
    assert call("profiles", "show", "calico-wireguard") == 0
    assert re.search(r"same mode without it +calico-np-xsub", capsys.readouterr().out)
    assert call("profiles", "show", "flannel") == 0
    assert re.search(r"model +certified against flanneld v\d", capsys.readouterr().out)
    assert call("profiles", "show", "cilium-kpr") == 0
    assert re.search(r"\(--proxy\) +none, ebpf", capsys.readouterr().out)


def test_a_profile_has_an_encapsulation_where_it_is_an_overlay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("profiles") == 0
    cells = (line.split() for line in capsys.readouterr().out.splitlines())
    found = {words[0]: words[2:4] for words in cells if words and words[0] in builtin()}
    assert found.keys() == builtin().keys()
    for name, (mode, encapsulation) in found.items():
        assert (mode == "overlay") is (encapsulation != "none"), name


def test_doctor_names_what_is_missing_and_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(packages, "_system", lambda: ("debian",))
    monkeypatch.setattr(
        packages, "path", lambda tool: "" if tool in ("netperf", "netserver") else "/usr/bin/true"
    )
    # Really starting a kernel takes up to 10 s: tests/e2e/test_vm.py does.
    monkeypatch.setattr(requirements, "accelerator", lambda kernel: Accelerator("kvm"))
    assert call("doctor", "--json") == 3
    found = document(capsys)
    assert found["install"].startswith(
        "sudo apt-get install --no-install-recommends netperf  # netperf: add non-free"
    )
    assert {item["for"] for item in found["missing"]} == {
        name for name, work in providers("workloads").items() if "netperf" in work.tools
    }
    (here,) = (one for one in found["profiles"] if one["profile"] == "veth-baseline")
    assert here["runs"] == "ok"
    assert here["lacks"].startswith("workloads that need netperf, netserver")
    assert "apt-get install" in here["remedy"]


def test_doctor_calls_no_profile_ok_where_the_lab_lacks_a_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    which = shutil.which
    monkeypatch.setattr(
        "shutil.which", lambda name, **more: None if name == "nsenter" else which(name, **more)
    )
    monkeypatch.setattr(requirements, "accelerator", lambda kernel: Accelerator("kvm"))
    assert call("doctor", "--json") == 3
    found = document(capsys)["profiles"]
    assert {one["runs"] for one in found} == {"no"}
    assert all("not installed: nsenter" in one["lacks"] for one in found)
    assert all(one["remedy"].endswith(" util-linux") for one in found)
    assert call("doctor") == 3
    said = capsys.readouterr().out
    assert said.count("not installed: nsenter") == 2, "of the lab, and of all profiles together"


def test_a_congestion_control_that_is_not_there_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("run", "--cni", "veth-baseline", "--congestion-control", "nonsense") == 3
    said = capsys.readouterr().err
    assert "error: the congestion control nonsense is not available\n" in said


def test_packages_are_those_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_system", lambda: ("ubuntu", "debian"))
    assert (
        packages.install_command(["perf", "ab"])
        == "sudo apt-get install --no-install-recommends apache2-utils linux-tools-generic"
    )
    monkeypatch.setattr(packages, "_system", lambda: ("fedora",))
    assert (
        packages.install_command(["perf", "perf"])
        == "install the packages that Debian calls: linux-perf"
    )


@pytest.mark.parametrize("system", ["debian", "ubuntu"])
def test_what_installs_programs_can_be_pasted_into_a_shell(
    monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    monkeypatch.setattr(packages, "_system", lambda: (system,))
    netperf = packages.install_command(["netperf"])
    line = packages.together(
        ["sudo apt-get install ipset", netperf, "run as root", "sudo apt-get install ipset", ""]
    )
    assert line.startswith(
        "run as root; sudo apt-get install --no-install-recommends ipset netperf  # "
    )
    assert {"debian": "non-free", "ubuntu": "multiverse"}[system] in line
    for command in (netperf, line):
        subprocess.run(["bash", "-n", "-c", command], check=True, timeout=20)
    assert packages.together(["sudo apt-get install podman, or start docker"]) == (
        "sudo apt-get install podman, or start docker"
    )


def test_the_machine_says_what_it_is_and_not_who() -> None:
    facts = machine(["ip"])
    assert facts["kernel"] == os.uname().release
    assert facts["memory"] > 0
    assert os.uname().nodename not in json.dumps(
        {key: value for key, value in facts.items() if key not in ("kernel", "os")}
    )
    calm = {
        **facts,
        "governor": "powersave",
        "load": [9.0, 1.0, 1.0],
        "cpus_online": 2,
        "steal": 0.2,
        "smt": True,
        "turbo": "",
        "virtualisation": "",
    }
    assert len(disturbances(calm)) == 4
    quiet = {**calm, "governor": "performance", "load": [0.0, 0.0, 0.0], "steal": 0.0, "smt": False}
    assert disturbances(quiet) == []


def test_proc_files_are_parsed() -> None:
    assert cpu_model("processor\t: 0\nmodel name\t: AMD EPYC 7B13\n") == "AMD EPYC 7B13"
    assert cpu_model("") == ""
    assert memory("MemTotal:       16384 kB\n") == 16384 * 1024
    assert steal("cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 1\n") == pytest.approx(0.1)
    assert steal("") == 0.0


def test_comparisons_are_log_ratios_of_finished_blocks() -> None:
    cells = {
        label: Cell(label=label, profile="p", placement="intra", workload="tcp-rr")
        for label in "ab"
    }
    provenance = Provenance("lab", "veth", "all", "baseline")

    def sample(label: str, block: int, value: float, metric: str = "throughput") -> Sample:
        return msgspec.structs.replace(
            failure(cells[label], block, provenance, "ok", "", now())[0], metric=metric, value=value
        )

    workloads: Any = {"tcp-rr": type("Work", (), {"primary": "throughput"})()}
    lines = [
        sample(label, block, value)
        for block in range(3)
        for label, value in (("a", 2.0), ("b", 1.0))
    ]
    lines.append(sample("a", 0, 7.0, "packets"))
    (series,) = comparisons(lines, workloads, 2).values()
    assert series == pytest.approx([0.6931, 0.6931], abs=1e-3)


def test_windows_with_perf_do_not_stop_a_run() -> None:
    provenance = Provenance("lab", "veth", "all", "baseline")

    def sample(window: Any, value: float, **more: Any) -> Sample:
        one = Cell(label="a", profile="p", placement="intra", workload="tcp-rr", window=window)
        line = failure(one, 0, provenance, "ok", "", now())[0]
        return msgspec.structs.replace(line, **{"metric": "throughput", "value": value, **more})

    workloads: Any = {"tcp-rr": type("Work", (), {"primary": "throughput"})()}
    speed = sample("speed", 1.0)
    assert list(comparisons([speed], workloads, 2).values()) == [[0.0]]
    for other in (
        sample("cpp", 7.0),
        sample("speed", 7.0, metric="packets"),
        sample("speed", 7.0, disturbed="stalled"),
        sample("speed", 7.0, block=2),
        sample("speed", 0.0),
    ):
        assert comparisons([other], workloads, 2) == {}
        assert list(comparisons([speed, other], workloads, 2).values()) == [[0.0]]


def test_lines_say_what_is_done_and_left(capsys: pytest.CaptureFixture[str]) -> None:
    one = Cell(
        label="flannel",
        profile="flannel",
        placement="inter",
        workload="tcp-rr",
        params={"request": 1},
        window="cpp",
        ip=6,
    )
    progress = Lines()
    progress.begin(2, 24.0)
    progress.cell(one, 0, 2)
    progress.finished(one, 12.0, "timeout", "netperf did not end")
    said = capsys.readouterr()
    assert said.out == ""
    assert (
        "[1/2] block 1/2 flannel inter IPv6 tcp-rr (cycles) [request=1]: timeout: netperf did"
        " not end" in said.err
    )
    assert words(one) == "flannel inter IPv6 tcp-rr (cycles) [request=1]"


def test_the_bar_takes_any_label_and_stays_off_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    one = Cell(label="[/red] [bold", profile="flannel", placement="inter", workload="tcp-rr")
    progress = Terminal(colour=False)
    progress.stage("installing [/x]")
    progress.begin(1, 1.0)
    progress.cell(one, 0, 1)
    progress.stage("[/y]")
    progress.notify("bad is not measured; remedy: [modprobe] it")
    progress.finished(one, 1.0, "failed", "[/z]")
    progress.end()
    said = capsys.readouterr()
    assert said.out == ""
    assert "bad is not measured; remedy: [modprobe] it\n" in said.err, "what is to be read stays"


def test_clean_says_in_json_what_goes_with_what(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it says in words: the objects of a CNI."""
    left = Leftover("the profile flannel", lambda: None, about="deleted: DaemonSet a/b")

    class Existing(Ownership):
        def __init__(self, options: object) -> None: ...

        def __enter__(self) -> Existing:
            return self

        def __exit__(self, *error: object) -> None: ...

        def leftovers(
            self, owners: Sequence[str] = (), notify: Callable[[str], None] = print
        ) -> list[Leftover]:
            return [left]

    monkeypatch.setattr(registry, "provider", lambda *_: Existing)
    assert call("clean", "--dry-run", "--json") == 0
    said = document(capsys)
    assert said["about"] == {"the profile flannel": "deleted: DaemonSet a/b"}
    assert said["removed"] == []


def test_an_interrupt_before_any_command_is_imported_is_said_in_a_line() -> None:
    program = """
import os, signal, sys
from cnibench.cli.main import main

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "cnibench.cli.errors":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
main()
"""
    done = subprocess.run([sys.executable, "-c", program, "runs"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nerror: interrupted\n")


def test_doctor_of_a_cluster_that_does_not_answer_says_so_as_run_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "kubeconfig"
    one = {"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "x",
                "clusters": [one], "contexts": [context], "users": [{"name": "x", "user": {}}],
            }
        )
    )  # fmt: skip
    assert call("doctor", "--cluster", "existing", "--kubeconfig", str(config), "--json") == 3
    found = document(capsys)
    (missing,) = found["missing"]
    assert missing["lacks"].startswith("the API server of the context 'x' does not answer")
    assert {one["runs"] for one in found["profiles"]} == {"no"}
