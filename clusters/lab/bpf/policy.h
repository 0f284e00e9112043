/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The policy of each endpoint, after Cilium's bpf/lib/policy.h: an LPM trie keyed by identity, direction, protocol and port. Two lookups: one
 * with the peer's identity, one with identity 0 (any); protocol and port are wildcarded by the prefix. A deny wins, then the longer prefix.
 * What no entry matches is dropped; an endpoint without policy has the entry that allows everything, as Cilium gives it.
 *
 * Cilium has a trie for each endpoint; here endpoints with the same policy share one, found by its number: filling a map of maps waits for an
 * RCU grace period each time (kernel/bpf/syscall.c, maybe_wait_bpf_programs), and a packet's lookups are the same. */
#pragma once

#include "packet.h"

#define MAX_ENDPOINTS 4096
#define MAX_POLICIES 1024
#define POLICY_ENTRIES 16384 /* Cilium's default size of a policy map */

struct policy_key {
	__u32 prefix; /* bits after this field */
	__u32 identity;
	__u8 egress;
	__u8 proto;
	__be16 dport;
};

struct policy_entry {
	__u8 deny;
	__u8 prefix; /* bits of proto and dport: 0, 8 or 24 */
	__u16 pad[3];
	__u64 packets;
	__u64 bytes;
};

MAP(cilium_policy) = {
	BPF_MAP_TYPE_ARRAY_OF_MAPS, sizeof(__u32), sizeof(__u32), MAX_POLICIES, 0,
	sizeof(struct policy_key), sizeof(struct policy_entry), POLICY_ENTRIES,
};

/* 0: allowed, else the reason of the drop. ``policy`` is that of the local endpoint, ``identity`` that of the other side. */
inline_always int policy_check(struct __sk_buff *skb, __u32 policy, __u32 identity, const struct transport *t, __u8 direction)
{
	struct policy_key key = {
		.prefix = 64,
		.identity = identity,
		.egress = direction == EGRESS,
		.proto = t->proto,
		.dport = t->dport,
	};
	void *map = bpf_map_lookup_elem(&cilium_policy, &policy);
	struct policy_entry *exact, *any, *chosen;

	if (!map)
		return DROP_EP_NOT_READY;
	exact = bpf_map_lookup_elem(map, &key);
	chosen = exact;
	if (!exact || !exact->deny) {
		key.identity = 0;
		any = bpf_map_lookup_elem(map, &key);
		if (any && (!exact || any->deny || any->prefix > exact->prefix))
			chosen = any;
	}
	if (!chosen)
		return DROP_POLICY;
	__sync_fetch_and_add(&chosen->packets, 1);
	__sync_fetch_and_add(&chosen->bytes, skb->len);
	return chosen->deny ? DROP_POLICY_DENY : 0;
}
