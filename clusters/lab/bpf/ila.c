/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Identifier-locator addressing by rewriting: the upper half of an IPv6 destination address is the virtual SIR prefix for containers and the
 * locator of a host on the way between hosts (draft-herbert-intarea-ila). The steps are those of the kernel's own net/ipv6/ila/ila_common.c
 * in its mode adj-transport: half of the address replaced, the transport checksum adjusted by the difference.
 *
 *   ila_out  egress of the wire's device: SIR prefix to the peer's locator
 *   ila_in   ingress of the wire's device: own locator back to the SIR prefix
 */
#include "helpers.h"

#include <linux/tcp.h>
#include <linux/udp.h>

#define PREFIX 8 /* bytes */
#define MOST_MAPPINGS 4096
#define DESTINATION (ETH_HLEN + offsetof(struct ipv6hdr, daddr))

static __s64 (*bpf_csum_diff)(__be32 *from, __u32 from_size, __be32 *to, __u32 to_size, __u32 seed) = (void *)BPF_FUNC_csum_diff;
static long (*bpf_l4_csum_replace)(void *ctx, __u32 offset, __u64 from, __u64 to, __u64 flags) = (void *)BPF_FUNC_l4_csum_replace;

/* address (16 bytes) -> the prefix that takes the place of its first 8 bytes */
MAP(ila_to_locator) = {BPF_MAP_TYPE_HASH, 16, PREFIX, MOST_MAPPINGS, 0};
MAP(ila_to_sir) = {BPF_MAP_TYPE_HASH, 16, PREFIX, MOST_MAPPINGS, 0};
/* packets translated: 0 out, 1 in */
MAP(ila_counts) = {BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, 2, 0};

struct fragment_header {
	__u8 next;
	__u8 reserved;
	__be16 offset;
	__be32 id;
};

/* Where the transport checksum is; 0: there is none here. */
inline_always __u32 checksum_offset(struct __sk_buff *skb, __u64 *flags)
{
	__u32 offset = ETH_HLEN + sizeof(struct ipv6hdr);
	struct fragment_header extension;
	__u8 next = 0;

	if (bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), &next, 1))
		return 0;
	if (next == IPPROTO_FRAGMENT) {
		if (bpf_skb_load_bytes(skb, offset, &extension, sizeof(extension)) || (extension.offset & htons(0xfff8)))
			return 0;
		next = extension.next;
		offset += sizeof(extension);
	}
	*flags = BPF_F_PSEUDO_HDR;
	switch (next) {
	case IPPROTO_TCP:
		return offset + offsetof(struct tcphdr, check);
	case IPPROTO_UDP:
		*flags |= BPF_F_MARK_MANGLED_0; /* a checksum of zero means none */
		return offset + offsetof(struct udphdr, check);
	case IPPROTO_ICMPV6:
		return offset + 2;
	default:
		return 0;
	}
}

inline_always int translate(struct __sk_buff *skb, struct map_def *mappings, __u32 direction)
{
	__be32 address[4], *prefix;
	__u64 flags = 0, *counter;
	__u32 checksum;
	__s64 difference;

	if (skb->protocol != htons(ETH_P_IPV6))
		return TC_ACT_OK;
	if (bpf_skb_load_bytes(skb, DESTINATION, address, sizeof(address)))
		return TC_ACT_OK;
	prefix = bpf_map_lookup_elem(mappings, address);
	if (!prefix)
		return TC_ACT_OK;
	difference = bpf_csum_diff(address, PREFIX, prefix, PREFIX, 0);
	checksum = checksum_offset(skb, &flags);
	if (checksum && bpf_l4_csum_replace(skb, checksum, 0, difference, flags))
		return TC_ACT_SHOT;
	if (bpf_skb_store_bytes(skb, DESTINATION, prefix, PREFIX, 0))
		return TC_ACT_SHOT;
	counter = bpf_map_lookup_elem(&ila_counts, &direction);
	if (counter)
		(*counter)++;
	return TC_ACT_OK;
}

SEC("tc/ila_out")
int ila_out(struct __sk_buff *skb)
{
	return translate(skb, &ila_to_locator, 0);
}

SEC("tc/ila_in")
int ila_in(struct __sk_buff *skb)
{
	return translate(skb, &ila_to_sir, 1);
}

/* of the sources that this was made from: setup.py tells by it whether an object is up to date */
char _sources[] SEC("sources") = SOURCES;

char _license[] SEC("license") = "Dual BSD/GPL";
