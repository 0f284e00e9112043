"""Whose work a stack is, which component gets it, and that everything adds up."""

from __future__ import annotations

import lzma
import math
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnibench.cpp import attribution, perfdata, stacks, symbols, taxonomy
from cnibench.cpp.stacks import Stack
from cnibench.errors import InputError, MeasureError

DESIGNED = {
    "bridge",
    "fib",
    "ip-forward",
    "netfilter",
    "conntrack",
    "ebpf",
    "veth",
    "vxlan",
    "ipip",
    "ovs",
    "crypto",
    "segmentation",
    "tcp-ip",
    "skb",
    "copy",
    "sched",
    "lock",
    "irq",
    "driver",
    "idle",
    "other",
}

# Functions that studies and profiles rest on, of Linux 6.1 and 6.18.
EXAMPLES = {
    "br_forward": "bridge",
    "br_handle_frame": "bridge",
    "br_nf_pre_routing": "bridge",
    "fib_table_lookup": "fib",
    "ip_route_input_slow": "fib",
    "ip_forward": "ip-forward",
    "ip_forward_finish": "ip-forward",
    "nf_hook_slow": "netfilter",
    "ipt_do_table": "netfilter",
    "nft_do_chain": "netfilter",
    "ip_set_test": "netfilter",
    "nf_conntrack_in": "conntrack",
    "nf_nat_inet_fn": "netfilter",
    "bpf_prog_6deef7357e7b4530_from_container": "ebpf",
    "cls_bpf_classify": "ebpf",
    "tcf_classify": "ebpf",
    "bpf_redirect_peer": "ebpf",
    "htab_map_hash": "ebpf",
    "veth_xmit": "veth",
    "vxlan_xmit": "vxlan",
    "vxlan_rcv": "vxlan",
    "udp_tunnel_xmit_skb": "vxlan",
    "ipip_tunnel_xmit": "ipip",
    "ip_tunnel_xmit": "ipip",
    "ovs_dp_process_packet": "ovs",
    "wg_packet_tx_worker": "crypto",
    "skb_segment": "segmentation",
    "tcp_gso_segment": "segmentation",
    "__skb_gso_segment": "segmentation",
    "skb_udp_tunnel_segment": "segmentation",
    "dev_gro_receive": "segmentation",
    "tcp_v4_rcv": "tcp-ip",
    "tcp_sendmsg_locked": "tcp-ip",
    "ip_output": "tcp-ip",
    "ip_send_check": "tcp-ip",
    "udp_sendmsg": "tcp-ip",
    "__alloc_skb": "skb",
    "skb_release_data": "skb",
    "_copy_from_iter": "copy",
    "copy_user_enhanced_fast_string": "copy",
    "__schedule": "sched",
    "try_to_wake_up": "sched",
    "_raw_spin_lock_bh": "lock",
    "net_rx_action": "irq",
    "__do_softirq": "irq",
    "dev_hard_start_xmit": "driver",
    "__netif_receive_skb_core": "driver",
    "start_xmit": "driver",
    "pv_native_safe_halt": "idle",
    "tun_net_xmit": "tun",
    "_raw_spin_unlock_irqrestore": None,
    "memcpy": None,
    "kmem_cache_alloc_node_noprof": None,
    "kthread": None,
}


def golden(name: str) -> bytes:
    return lzma.decompress(
        (Path(__file__).parent.parent / "golden" / "perf" / f"{name}.xz").read_bytes()
    )


@pytest.fixture(scope="module")
def names() -> taxonomy.Taxonomy:
    return taxonomy.load()


def test_the_taxonomy_has_the_components_of_the_design(names: taxonomy.Taxonomy) -> None:
    assert set(names.components) >= DESIGNED
    assert names.version >= 1
    assert {function: names.component(function) for function in EXAMPLES} == EXAMPLES


def test_the_nearest_frame_that_is_named_gets_the_sample(names: taxonomy.Taxonomy) -> None:
    assert names.nearest(("memcpy", "skb_put", "veth_xmit")) == "skb"
    assert names.nearest(("memcpy", "veth_xmit", "dev_hard_start_xmit")) == "veth"
    assert names.nearest(("do_syscall_64", "entry_SYSCALL_64_after_hwframe")) == "other"
    assert names.nearest(("mystery", "do_syscall_64", "entry_SYSCALL_64_after_hwframe")) is None
    assert names.nearest(()) is None


FRAMES = st.lists(
    st.sampled_from([*EXAMPLES, "mystery", "do_syscall_64", "do_idle", stacks.USER]),
    min_size=1,
    max_size=6,
).map(tuple)
STACKS = st.lists(
    st.builds(
        Stack,
        st.sampled_from(["cell", "kernel", "foreign"]),
        FRAMES,
        st.integers(1, 10**12).map(float),
        st.integers(1, 9),
    ),
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(STACKS)
def test_components_and_what_is_unclassified_add_up(found: list[Stack]) -> None:
    result = attribution.attribute(found, taxonomy.load())
    everything = sum(stack.cycles for stack in found)
    assert math.isclose(result.window, everything, rel_tol=1e-9, abs_tol=1e-6)
    assert math.isclose(
        sum(own for own, _ in result.functions.values()), result.total, rel_tol=1e-9, abs_tol=1e-6
    )
    assert all(
        own <= inclusive * (1 + 1e-9) <= result.total * (1 + 1e-8)
        for own, inclusive in result.functions.values()
    )
    assert result.samples == sum(stack.samples for stack in found)
    if result.total > 0:
        line = attribution.record(result, 1000, clock=True, version=1)
        assert math.isclose(
            sum(line["components"].values()) + line["unclassified"], line["total"], rel_tol=1e-9
        )
        assert line["cycles"] >= line["idle_cycles"] + line["foreign_cycles"]


@settings(max_examples=40, deadline=None)
@given(STACKS)
def test_folded_stacks_come_back_as_they_were(found: list[Stack]) -> None:
    assert sorted(stacks.unfold(stacks.fold(found)), key=repr) == sorted(found, key=repr)


@pytest.mark.parametrize("text", ["cell 1 2\n", "nobody;f 1 2\n", "cell;f x 2\n", "cell;f\n"])
def test_a_folded_line_that_is_none_names_itself(text: str) -> None:
    with pytest.raises(InputError, match="line 2"):
        stacks.unfold("cell;f 1 2\n" + text)


def test_idle_and_foreign_cycles_are_no_part_of_the_total() -> None:
    found = attribution.attribute(
        [
            Stack("cell", ("ip_output",), 30.0, 3),
            Stack("cell", ("no_such_function", "ip_output"), 20.0, 2),
            Stack("kernel", ("no_such_function",), 10.0, 1),
            Stack("kernel", ("pv_native_safe_halt", "do_idle"), 1000.0, 100),
            Stack("foreign", ("ip_output", stacks.USER), 500.0, 50),
        ],
        taxonomy.load(),
    )
    assert found.components == {"tcp-ip": 50.0}
    assert (found.unclassified, found.idle, found.foreign) == (10.0, 1000.0, 500.0)
    assert (found.total, found.window, found.outside) == (60.0, 1560.0, 10.0)
    assert (found.samples, found.counted) == (156, 6)
    assert found.functions == {"ip_output": (30.0, 50.0), "no_such_function": (30.0, 30.0)}
    line = attribution.record(found, 5, clock=True, version=3)
    assert line == {
        "cycles_source": "estimated",
        "cycles": 1560.0,
        "idle_cycles": 1000.0,
        "foreign_cycles": 500.0,
        "outside_cycles": 10.0,
        "packets": 5,
        "total": 12.0,
        "components": {"tcp-ip": 10.0},
        "unclassified": 2.0,
        "functions": {"ip_output": [6.0, 10.0], "no_such_function": [6.0, 6.0]},
        "samples": 156,
        "counted": 6,
        "taxonomy": 3,
    }
    assert attribution.record(found, 5, clock=False, version=3)["cycles_source"] == "pmu"


def test_nothing_sent_or_sampled_is_a_failed_measurement() -> None:
    some = attribution.attribute([Stack("cell", ("ip_output",), 10.0, 1)], taxonomy.load())
    with pytest.raises(MeasureError, match="no packet"):
        attribution.record(some, 0, clock=False, version=1)
    with pytest.raises(MeasureError, match="no sample"):
        attribution.record(attribution.Breakdown(), 5, clock=False, version=1)


def whose(*frames: str, own: bool = False) -> tuple[str, tuple[str, ...]]:
    """Through the reading of a real recording's form: one sample of process 7."""
    table = symbols.Symbols(
        [
            (0xFFFF_FFFF_8100_0000 + 16 * n, 0xFFFF_FFFF_8100_0010 + 16 * n, name)
            for n, name in enumerate(frames)
        ]
    )
    kernel = [
        0xFFFF_FFFF_8100_0008 + 16 * n for n, name in enumerate(frames) if name != stacks.USER
    ]
    addresses = kernel + ([0x5555] if stacks.USER in frames else [])
    recording = perfdata.Recording(
        True, [(1, 7, 0, 1, 0)], [pack(f"<{len(addresses)}Q", *addresses)]
    )
    [stack] = stacks.named(recording, table, 1e9, {7} if own else {9}, taxonomy.load().is_network)
    return stack.whose, stack.frames


def test_whose_work_a_stack_is() -> None:
    syscall = ("tcp_sendmsg", "do_syscall_64", stacks.USER)
    assert whose(*syscall, own=True) == ("cell", syscall)
    assert whose(*syscall) == ("foreign", syscall)
    assert whose(stacks.USER) == ("foreign", (stacks.USER,))
    # A softirq that came in while a foreign process ran: the packet's work counts, the frames of
    # that process do not.
    softirq = ("tcp_v4_rcv", "net_rx_action", "handle_softirqs", "sysvec_apic_timer_interrupt")
    assert whose(*softirq, "vfs_write", "do_syscall_64", stacks.USER) == ("kernel", softirq)
    timer = (
        "update_process_times",
        "sysvec_apic_timer_interrupt",
        "vfs_write",
        "do_syscall_64",
        stacks.USER,
    )
    assert whose(*timer) == ("foreign", timer)
    # The idle task and kernel threads.
    assert whose("pv_native_safe_halt", "do_idle")[0] == "kernel"
    assert whose("napi_poll", "veth_poll", "run_ksoftirqd", "kthread")[0] == "kernel"
    assert whose("writepage", "kthread")[0] == "foreign"


def test_children_that_were_forked_meanwhile_belong_to_their_parents() -> None:
    recording = perfdata.read(golden("file.data"))
    table = symbols.Kallsyms(golden("kallsyms"))
    network = taxonomy.load().is_network
    pids = {sample[1] for sample in recording.samples} - {0}
    assert pids
    everyone = attribution.attribute(
        stacks.named(recording, table, 1e9, pids, network), taxonomy.load()
    )
    nobody = attribution.attribute(
        stacks.named(recording, table, 1e9, set(), network), taxonomy.load()
    )
    recording.parents = dict.fromkeys(pids, 1)
    inherited = attribution.attribute(
        stacks.named(recording, table, 1e9, {1}, network), taxonomy.load()
    )
    assert inherited == everyone
    assert everyone.total > nobody.total
    assert math.isclose(everyone.window, nobody.window)


def test_a_real_recording_is_classified() -> None:
    recording = perfdata.read(golden("file.data"))
    table = symbols.Kallsyms(golden("kallsyms"))
    found = attribution.attribute(
        stacks.named(recording, table, 1e9, {3, 4, 5}, taxonomy.load().is_network), taxonomy.load()
    )
    assert found.unclassified < 0.05 * found.total
    assert found.components["veth"] > 0
    assert found.components["tcp-ip"] > found.components["veth"]
    assert found.components["copy"] > 0
    assert "bridge" not in found.components
    assert "vxlan" not in found.components


def test_a_taxonomy_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    def refused(text: str, reason: str) -> None:
        path = tmp_path / "taxonomy.yaml"
        path.write_text(text)
        taxonomy.load.cache_clear()
        with pytest.raises(InputError, match=reason):
            taxonomy.load(path)

    one = "version: 1\ncomponents:\n  a: {title: a, functions: [f]}\n"
    refused(one + "  b: {title: b, functions: [f]}\n", "'f' occurs in a and in b")
    refused(one + "  b: {title: b, functions: ['*f']}\n", "expected a name")
    refused(one + "  b: {title: b}\n", "functions")
    refused("version: 1\n", "components")
    refused("{", "taxonomy.yaml")
