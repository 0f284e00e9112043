"""eBPF programs and maps by bpf(2) and netlink, without libbpf."""
