/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Connection tracking in an LRU hash, after Cilium's bpf/lib/conntrack.h: the reverse tuple is looked up first (a reply costs one lookup, a
 * packet of the opening direction two), each endpoint of a connection inside one node has an entry of its own (TUPLE_OUT, TUPLE_IN), and an
 * entry for ICMP errors stands beside each connection. Entries whose lifetime has passed are removed from user space, as Cilium's agent does. */
#pragma once

#include "packet.h"

#define LIFETIME_TCP 8000 /* seconds: Cilium's CT_CONNECTION_LIFETIME_TCP */
#define LIFETIME_OTHER 60
#define LIFETIME_SYN 60
#define LIFETIME_CLOSE 10

#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4

enum ct_status { CT_NEW, CT_ESTABLISHED, CT_REPLY };

enum ct_flag { RX_CLOSING = 1, TX_CLOSING = 2, SEEN_NON_SYN = 4 };

struct ct_entry {
	__u64 rx_packets;
	__u64 rx_bytes;
	__u64 tx_packets;
	__u64 tx_bytes;
	__u32 lifetime; /* CLOCK_MONOTONIC seconds at which the entry may go */
	__u16 flags;
	__u16 pad;
	__u32 source_identity;
	__u32 pad2;
};

MAP(cilium_ct4_global) = {BPF_MAP_TYPE_LRU_HASH, sizeof(struct tuple4), sizeof(struct ct_entry), 65536, 0};
MAP(cilium_ct6_global) = {BPF_MAP_TYPE_LRU_HASH, sizeof(struct tuple6), sizeof(struct ct_entry), 65536, 0};

inline_always __u32 now(void)
{
	return (__u32)(bpf_ktime_get_ns() / 1000000000ULL);
}

inline_always int alive(const struct ct_entry *entry)
{
	return (entry->flags & (RX_CLOSING | TX_CLOSING)) != (RX_CLOSING | TX_CLOSING);
}

inline_always void touch(struct __sk_buff *skb, struct ct_entry *entry, const struct transport *t, __u8 direction)
{
	__u32 lifetime;

	if (t->proto == IPPROTO_TCP) {
		if (!(t->tcp_flags & TCP_SYN) && !(entry->flags & SEEN_NON_SYN))
			entry->flags |= SEEN_NON_SYN;
		if (unlikely(t->tcp_flags & TCP_RST))
			entry->flags |= RX_CLOSING | TX_CLOSING;
		else if (unlikely(t->tcp_flags & TCP_FIN))
			entry->flags |= direction == EGRESS ? TX_CLOSING : RX_CLOSING;
		lifetime = !alive(entry) ? LIFETIME_CLOSE : entry->flags & SEEN_NON_SYN ? LIFETIME_TCP : LIFETIME_SYN;
	} else {
		lifetime = LIFETIME_OTHER;
	}
	lifetime += now();
	if (entry->lifetime != lifetime)
		entry->lifetime = lifetime;
	if (direction == EGRESS) {
		__sync_fetch_and_add(&entry->tx_packets, 1);
		__sync_fetch_and_add(&entry->tx_bytes, skb->len);
	} else {
		__sync_fetch_and_add(&entry->rx_packets, 1);
		__sync_fetch_and_add(&entry->rx_bytes, skb->len);
	}
}

inline_always enum ct_status ct_lookup(struct __sk_buff *skb, void *map, const void *forward, const void *reverse, const struct transport *t,
				       __u8 direction)
{
	struct ct_entry *entry = bpf_map_lookup_elem(map, reverse);
	int opens = t->proto == IPPROTO_TCP && (t->tcp_flags & TCP_SYN);

	/* a SYN that meets a closed connection opens a new one (a port used again) */
	if (entry && !(opens && !alive(entry))) {
		touch(skb, entry, t, direction);
		return CT_REPLY;
	}
	entry = bpf_map_lookup_elem(map, forward);
	if (entry && !(opens && !alive(entry))) {
		touch(skb, entry, t, direction);
		return CT_ESTABLISHED;
	}
	return CT_NEW;
}

inline_always int ct_create(struct __sk_buff *skb, void *map, const void *forward, const void *related, const struct transport *t,
			    __u8 direction, __u32 source_identity)
{
	struct ct_entry entry = {};

	entry.source_identity = source_identity;
	entry.lifetime = now() + (t->proto == IPPROTO_TCP ? LIFETIME_SYN : LIFETIME_OTHER);
	if (direction == EGRESS) {
		entry.tx_packets = 1;
		entry.tx_bytes = skb->len;
	} else {
		entry.rx_packets = 1;
		entry.rx_bytes = skb->len;
	}
	if (bpf_map_update_elem(map, forward, &entry, BPF_ANY))
		return DROP_CT_CREATE_FAILED;
	/* a flag, not a null pointer: kernel 6.1's verifier loses track of a pointer that may be either */
	if (t->proto != IPPROTO_ICMP && t->proto != IPPROTO_ICMPV6 && bpf_map_update_elem(map, related, &entry, BPF_ANY))
		return DROP_CT_CREATE_FAILED;
	return 0;
}

inline_always int ct_create4(struct __sk_buff *skb, const struct tuple4 *forward, const struct transport *t, __u8 direction, __u32 identity)
{
	struct tuple4 related = *forward;

	related.sport = related.dport = 0;
	related.proto = IPPROTO_ICMP;
	related.flags |= TUPLE_RELATED;
	return ct_create(skb, &cilium_ct4_global, forward, &related, t, direction, identity);
}

inline_always int ct_create6(struct __sk_buff *skb, const struct tuple6 *forward, const struct transport *t, __u8 direction, __u32 identity)
{
	struct tuple6 related = *forward;

	related.sport = related.dport = 0;
	related.proto = IPPROTO_ICMPV6;
	related.flags |= TUPLE_RELATED;
	return ct_create(skb, &cilium_ct6_global, forward, &related, t, direction, identity);
}
