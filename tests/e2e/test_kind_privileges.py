"""What the node agents may do: enough without being privileged, and more only where the runtime
gives them less than they ask for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from _kind_cluster import Kept
from _kind_runs import until
from _kubectl import applied, kubectl

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.nodes import agents, privileges

pytestmark = pytest.mark.timeout(300)
SPACE = "privileges"
_NUMBERS = itertools.count()
RULES = [
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
]
DENIED = {"expression": "!object.spec.containers[0].?securityContext.privileged.orValue(false)"}
# What agents do, each by the program that does it.
WORKS = """
perf record -o - -a -g -e cycles -F 99 -B -N --no-bpf-event -- true 2>/tmp/log >/tmp/data || cat /tmp/log
bpftool prog show >/dev/null || echo programs
nft list ruleset >/dev/null || echo nftables
iptables-legacy-save >/dev/null || echo iptables
grep -q '^0000000000000000 ' /proc/kallsyms && echo symbols
renice -n -5 $$ >/dev/null || echo priority
setpriv --reuid 65534 --clear-groups sleep 100 & sleep 0.2; kill -STOP $! && kill -KILL $! || echo signals
nsenter -t 1 -m -n -- true || echo namespaces
echo 1 > /proc/1/root/proc/sys/net/ipv4/ip_forward || echo settings
mkdir /proc/1/root/var/lib/cnibench-test && rmdir /proc/1/root/var/lib/cnibench-test || echo files
timeout 5 tcpdump -Z root -i lo -c 1 -w /tmp/packets 2>/tmp/log & sleep 1; ping -c 1 127.0.0.1 >/dev/null
wait $! || cat /tmp/log
"""  # noqa: E501


@pytest.fixture
def making(bare_cluster: Kept) -> Iterator[Making]:
    """In a namespace of its own, whose end nobody waits for."""
    name = f"{SPACE}-{next(_NUMBERS)}"
    yield replace(bare_cluster.making, namespace=name, run=name)
    kubectl(bare_cluster.access, "delete", "namespace", name, "--wait=false")


def test_capabilities_suffice_for_all_that_agents_do(bare_cluster: Kept) -> None:
    assert bare_cluster.making.rights == "capabilities"
    for node in bare_cluster.nodes:
        assert node.run(["sh", "-c", WORKS], timeout=60).stdout == ""
        status = node.read_text("/proc/self/status")
        (held,) = (line.split()[1] for line in status.splitlines() if line.startswith("CapBnd"))
        assert int(held, 16) == privileges._mask()
        for path in ("/etc/x", "/usr/bin/x", "/proc/sys/net/ipv4/ip_forward"):
            argv = ["sh", "-c", 'echo 1 > "$0"', path]
            assert node.run(argv, timeout=20, check=False).returncode, path


@pytest.mark.parametrize(
    "lacking",
    [
        pytest.param({"add": ["SYS_ADMIN"]}, id="denied"),
        pytest.param({"add": ["NO_SUCH"]}, id="unknown"),
    ],
)
def test_what_the_runtime_does_not_give_is_asked_for_as_privileged(
    bare_cluster: Kept, making: Making, lacking: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = objects._agent_context

    def context(rights: objects.Rights) -> dict[str, Any]:
        found = usual(rights)
        return {**found, "capabilities": lacking} if rights == "capabilities" else found

    monkeypatch.setattr(objects, "_agent_context", context)
    facts = [node.facts for node in bare_cluster.nodes]
    made, nodes = agents.start(bare_cluster.access, making, facts)
    assert made.rights == "privileged"
    for node in nodes:
        assert privileges.suffice(node)
        node.gateway.close()


def test_agents_that_may_be_neither_see_counters_alone(
    bare_cluster: Kept, making: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = "admissionregistration.k8s.io/v1"
    kind, meta = "ValidatingAdmissionPolicy", {"name": SPACE}
    there = {"matchLabels": {"kubernetes.io/metadata.name": making.namespace}}
    matched = {"resourceRules": RULES, "namespaceSelector": there}
    denied = {"matchConstraints": matched, "validations": [DENIED]}
    policy = {"apiVersion": group, "kind": kind, "metadata": meta, "spec": denied}
    spec = {"policyName": SPACE, "validationActions": ["Deny"]}
    binding = {"apiVersion": group, "kind": f"{kind}Binding", "metadata": meta, "spec": spec}
    access = bare_cluster.access
    applied(access, policy, binding, objects.namespace(making))
    try:
        facts = [node.facts for node in bare_cluster.nodes]
        until(lambda: privileges.refused(access, making.given("privileged"), facts[0].name))
        monkeypatch.setattr(privileges, "suffice", lambda node: False)
        made, nodes = agents.start(access, making, facts)
        assert made.rights == "network"
        for node in nodes:
            assert "MemTotal" in node.read_text("/proc/meminfo")
            node.gateway.close()
    finally:
        kubectl(access, "delete", kind, SPACE)
        kubectl(access, "delete", f"{kind}Binding", SPACE)
