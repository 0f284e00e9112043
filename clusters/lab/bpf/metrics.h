/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Counters per CPU, by reason and direction. The reasons and their numbers are Cilium's (bpf/lib/drop_reasons.h, bpf/lib/metrics.h). */
#pragma once

#include "helpers.h"

enum direction { INGRESS = 1, EGRESS = 2 };

enum reason {
	FORWARDED = 0,
	DROP_INVALID_SIP = 132,
	DROP_POLICY = 133,
	DROP_INVALID = 134,
	DROP_CT_UNKNOWN_PROTO = 137,
	DROP_UNKNOWN_L3 = 139,
	DROP_WRITE_ERROR = 141,
	DROP_NO_TUNNEL_KEY = 147,
	DROP_CT_CREATE_FAILED = 155,
	DROP_NO_FIB = 169,
	DROP_FRAG_NOT_FOUND = 175,
	DROP_POLICY_DENY = 181,
	DROP_TTL_EXCEEDED = 196,
	DROP_EP_NOT_READY = 203,
};

struct metrics_key {
	__u8 reason;
	__u8 direction;
	__u16 pad[3];
};

struct metrics_value {
	__u64 packets;
	__u64 bytes;
};

MAP(cilium_metrics) = {BPF_MAP_TYPE_PERCPU_HASH, sizeof(struct metrics_key), sizeof(struct metrics_value), 1024, BPF_F_NO_PREALLOC};

/* A super-packet counts once, as the programs see it. */
inline_always void count(struct __sk_buff *skb, __u8 reason, __u8 direction)
{
	struct metrics_key key = {.reason = reason, .direction = direction};
	struct metrics_value *value = bpf_map_lookup_elem(&cilium_metrics, &key);

	if (likely(value)) {
		value->packets++;
		value->bytes += skb->len;
	} else {
		struct metrics_value first = {1, skb->len};

		bpf_map_update_elem(&cilium_metrics, &key, &first, BPF_ANY);
	}
}

inline_always int drop(struct __sk_buff *skb, __u8 reason, __u8 direction)
{
	count(skb, reason, direction);
	return TC_ACT_SHOT;
}
