/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* From a packet to the tuple of its connection, and the routing step (TTL, MAC addresses) that an IP hop owes it.
 * A function that can fail gives 0 or a reason of metrics.h. */
#pragma once

#include "metrics.h"

enum tuple_flag {
	TUPLE_OUT = 0,	  /* the connection was opened by the local endpoint */
	TUPLE_IN = 1,	  /* ... towards the local endpoint */
	TUPLE_RELATED = 2 /* an ICMP error about it */
};

struct tuple4 {
	__be32 daddr;
	__be32 saddr;
	__be16 dport;
	__be16 sport;
	__u8 proto;
	__u8 flags;
} __attribute__((packed));

struct tuple6 {
	__u8 daddr[16];
	__u8 saddr[16];
	__be16 dport;
	__be16 sport;
	__u8 proto;
	__u8 flags;
} __attribute__((packed));

/* The transport header. For ICMP echo both ports are the identifier, for ICMP errors both are 0 and ``related`` is set. */
struct transport {
	__u32 offset;
	__be16 sport;
	__be16 dport;
	__u8 proto;
	__u8 tcp_flags; /* FIN 1, SYN 2, RST 4, ACK 16 */
	__u8 related;
};

/* Ports of the fragments after the first, as Cilium's cilium_ipv4_frag_datagrams and cilium_ipv6_frag_datagrams keep them. */
struct fragment_key {
	__u8 daddr[16];
	__u8 saddr[16];
	__u32 id;
	__u8 proto;
	__u8 pad[3];
};

struct fragment_ports {
	__be16 sport;
	__be16 dport;
};

MAP(cilium_frags) = {BPF_MAP_TYPE_LRU_HASH, sizeof(struct fragment_key), sizeof(struct fragment_ports), 8192, 0};

#define headers(type) (ETH_HLEN + sizeof(type))

/* The IP header, in the linear part of the packet; NULL when the packet is shorter. */
inline_always void *network_header(struct __sk_buff *skb, __u32 size)
{
	void *data = packet_data(skb);

	if (unlikely(data + ETH_HLEN + size > packet_data_end(skb))) {
		if (bpf_skb_pull_data(skb, ETH_HLEN + size))
			return NULL;
		data = packet_data(skb);
		if (data + ETH_HLEN + size > packet_data_end(skb))
			return NULL;
	}
	return data + ETH_HLEN;
}

inline_always int load_transport(struct __sk_buff *skb, struct transport *t)
{
	struct {
		__be16 sport;
		__be16 dport;
	} ports;
	__u8 flags[2], icmp[8];

	switch (t->proto) {
	case IPPROTO_TCP:
		if (bpf_skb_load_bytes(skb, t->offset + 12, flags, 2))
			return DROP_INVALID;
		t->tcp_flags = flags[1];
		/* fallthrough */
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
		if (bpf_skb_load_bytes(skb, t->offset, &ports, 4))
			return DROP_INVALID;
		t->sport = ports.sport;
		t->dport = ports.dport;
		return 0;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if (bpf_skb_load_bytes(skb, t->offset, icmp, 8))
			return DROP_INVALID;
		if (t->proto == IPPROTO_ICMP ? icmp[0] == 0 || icmp[0] == 8 : icmp[0] == 128 || icmp[0] == 129) {
			memcpy(&t->sport, icmp + 4, 2);
			t->dport = t->sport;
		} else {
			t->related = 1;
		}
		return 0;
	default:
		return DROP_CT_UNKNOWN_PROTO;
	}
}

inline_always int fragment(struct __sk_buff *skb, struct transport *t, struct fragment_key *key, int later)
{
	struct fragment_ports ports, *known;
	int reason;

	if (later) {
		known = bpf_map_lookup_elem(&cilium_frags, key);
		if (!known)
			return DROP_FRAG_NOT_FOUND;
		t->sport = known->sport;
		t->dport = known->dport;
		return 0;
	}
	reason = load_transport(skb, t);
	if (reason)
		return reason;
	ports.sport = t->sport;
	ports.dport = t->dport;
	bpf_map_update_elem(&cilium_frags, key, &ports, BPF_ANY);
	return 0;
}

inline_always int transport4(struct __sk_buff *skb, const struct iphdr *ip, struct transport *t)
{
	memset(t, 0, sizeof(*t));
	t->proto = ip->protocol;
	t->offset = ETH_HLEN + ip->ihl * 4;
	if (unlikely(ip->frag_off & htons(0x3fff))) {
		struct fragment_key key = {};

		memcpy(key.daddr, &ip->daddr, 4);
		memcpy(key.saddr, &ip->saddr, 4);
		key.id = ip->id;
		key.proto = ip->protocol;
		return fragment(skb, t, &key, (ip->frag_off & htons(0x1fff)) != 0);
	}
	return load_transport(skb, t);
}

inline_always int transport6(struct __sk_buff *skb, const struct ipv6hdr *ip, struct transport *t)
{
	struct {
		__u8 next;
		__u8 reserved;
		__be16 offset;
		__be32 id;
	} extension;
	__u8 jumbo[2]; /* next header, length in units of 8 bytes without the first */

	memset(t, 0, sizeof(*t));
	t->proto = ip->nexthdr;
	t->offset = ETH_HLEN + sizeof(*ip);
	if (unlikely(ip->nexthdr == IPPROTO_HOPOPTS)) { /* a super-packet of more than 64 KiB has its length there */
		if (bpf_skb_load_bytes(skb, t->offset, jumbo, sizeof(jumbo)))
			return DROP_INVALID;
		t->proto = jumbo[0];
		t->offset += 8 + 8 * jumbo[1];
	} else if (unlikely(ip->nexthdr == IPPROTO_FRAGMENT)) {
		struct fragment_key key = {};

		memcpy(key.daddr, &ip->daddr, 16);
		memcpy(key.saddr, &ip->saddr, 16);
		if (bpf_skb_load_bytes(skb, t->offset, &extension, sizeof(extension)))
			return DROP_INVALID;
		t->proto = extension.next;
		t->offset += sizeof(extension);
		key.id = extension.id;
		key.proto = extension.next;
		return fragment(skb, t, &key, (extension.offset & htons(0xfff8)) != 0);
	}
	return load_transport(skb, t);
}

inline_always void tuples4(const struct iphdr *ip, const struct transport *t, struct tuple4 *forward, struct tuple4 *reverse, __u8 direction)
{
	__u8 related = t->related ? TUPLE_RELATED : 0;

	forward->daddr = reverse->saddr = ip->daddr;
	forward->saddr = reverse->daddr = ip->saddr;
	forward->dport = reverse->sport = t->dport;
	forward->sport = reverse->dport = t->sport;
	forward->proto = reverse->proto = t->proto;
	forward->flags = (direction == EGRESS ? TUPLE_OUT : TUPLE_IN) | related;
	reverse->flags = (direction == EGRESS ? TUPLE_IN : TUPLE_OUT) | related;
}

inline_always void tuples6(const struct ipv6hdr *ip, const struct transport *t, struct tuple6 *forward, struct tuple6 *reverse, __u8 direction)
{
	__u8 related = t->related ? TUPLE_RELATED : 0;

	memcpy(forward->daddr, &ip->daddr, 16);
	memcpy(forward->saddr, &ip->saddr, 16);
	memcpy(reverse->daddr, &ip->saddr, 16);
	memcpy(reverse->saddr, &ip->daddr, 16);
	forward->dport = reverse->sport = t->dport;
	forward->sport = reverse->dport = t->sport;
	forward->proto = reverse->proto = t->proto;
	forward->flags = (direction == EGRESS ? TUPLE_OUT : TUPLE_IN) | related;
	reverse->flags = (direction == EGRESS ? TUPLE_IN : TUPLE_OUT) | related;
}

/* One IPv4 hop: TTL and header checksum, incrementally (RFC 1624), as ip_decrease_ttl() of include/net/ip.h does. */
inline_always int hop4(struct __sk_buff *skb)
{
	struct iphdr *ip = network_header(skb, sizeof(*ip));
	__u32 sum;

	if (!ip)
		return DROP_INVALID;
	if (ip->ttl <= 1)
		return DROP_TTL_EXCEEDED;
	sum = ip->check + htons(0x0100);
	ip->check = (__u16)(sum + (sum >= 0xffff));
	ip->ttl--;
	return 0;
}

inline_always int hop6(struct __sk_buff *skb)
{
	struct ipv6hdr *ip = network_header(skb, sizeof(*ip));
	__u8 hops;

	if (!ip)
		return DROP_INVALID;
	if (ip->hop_limit <= 1)
		return DROP_TTL_EXCEEDED;
	hops = ip->hop_limit - 1;
	/* no header checksum here, but a checksum over the whole packet (CHECKSUM_COMPLETE) must follow */
	if (bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, hop_limit), &hops, 1, BPF_F_RECOMPUTE_CSUM))
		return DROP_WRITE_ERROR;
	return 0;
}

inline_always int same6(const void *a, const void *b)
{
	const __u32 *x = a, *y = b;

	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2] && x[3] == y[3];
}

inline_always int set_macs(struct __sk_buff *skb, const __u8 *destination, const __u8 *source)
{
	struct ethhdr *eth = packet_data(skb);

	if ((void *)(eth + 1) > packet_data_end(skb))
		return DROP_INVALID;
	memcpy(eth->h_dest, destination, ETH_ALEN);
	memcpy(eth->h_source, source, ETH_ALEN);
	return 0;
}
