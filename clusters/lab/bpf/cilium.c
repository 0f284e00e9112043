/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A model of Cilium's datapath at tc, written for measuring: the steps, maps and lookups of a packet follow Cilium 1.15 (bpf/bpf_lxc.c,
 * bpf/bpf_overlay.c, bpf/bpf_host.c, bpf/lib), its services, NAT, proxy, encryption and tracing are left out.
 *
 *   cil_from_container  ingress of each Pod's veth on the node: connection, egress policy, then to the local endpoint, the tunnel or the wire
 *   cil_lxc_policy      tail call for the receiving endpoint: connection, ingress policy, into the Pod
 *   cil_to_overlay      egress of the tunnel device: marks the packet, which the packet filter knows it by
 *   cil_from_overlay    ingress of the tunnel device: the source's identity is the VNI
 *   cil_from_netdev     ingress of the wire's device, without a tunnel and with eBPF host routing: the source's identity is in the ipcache
 *   cil_from_host       egress of cilium_host: what the node itself, or its stack's routing, sends to Pods
 */
#include "conntrack.h"
#include "endpoints.h"

/* Known when the programs are loaded; the verifier removes what it makes unreachable, as Cilium's compile-time options do. */
struct config {
	__u32 tunnel_ifindex; /* 0: native routing */
	__u32 host_routing;   /* 1: eBPF host routing (redirect_peer, FIB lookup here); 0: through the node's stack */
};

const volatile struct config config SEC(".rodata") = {};

enum delivery { FROM_HOST = 1, FROM_TUNNEL = 2 };

/* skb->mark, lib/common.h: what the node's stack and its packet filter know a packet by */
#define MARK_MAGIC_HOST_MASK 0x0F00
#define MARK_MAGIC_OVERLAY 0x0400
#define MARK_MAGIC_IDENTITY 0x0F00

/* skb->cb[]: what local_delivery() hands to the policy program */
enum { CB_IDENTITY, CB_DELIVERY, CB_POLICY, CB_IFINDEX };

inline_always int encapsulate(struct __sk_buff *skb, __u32 node, __u32 identity)
{
	struct bpf_tunnel_key key = {};

	key.tunnel_id = identity == IDENTITY_HOST ? IDENTITY_REMOTE_NODE : identity;
	key.remote_ipv4 = node;
	key.tunnel_ttl = 64;
	if (bpf_skb_set_tunnel_key(skb, &key, offsetof(struct bpf_tunnel_key, local_ipv4), BPF_F_ZERO_CSUM_TX))
		return drop(skb, DROP_WRITE_ERROR, EGRESS);
	count(skb, FORWARDED, EGRESS);
	return bpf_redirect(config.tunnel_ifindex, 0);
}

/* To an endpoint of this node: its MAC addresses, then its policy program. The hop has been counted by the caller. */
inline_always int local_delivery(struct __sk_buff *skb, const struct endpoint *to, __u32 identity, __u32 delivery)
{
	int reason = set_macs(skb, to->mac, to->node_mac);

	if (reason)
		return drop(skb, reason, INGRESS);
	skb->cb[CB_IDENTITY] = identity;
	skb->cb[CB_DELIVERY] = delivery;
	skb->cb[CB_POLICY] = to->policy;
	skb->cb[CB_IFINDEX] = to->ifindex;
	bpf_tail_call(skb, &cilium_calls, to->id);
	return drop(skb, DROP_EP_NOT_READY, INGRESS);
}

/* The node's routing table, asked from here: the packet goes to the next hop's device without the stack. */
inline_always int fib_redirect(struct __sk_buff *skb, struct bpf_fib_lookup *fib)
{
	struct bpf_redir_neigh next = {};
	long found = bpf_fib_lookup(skb, fib, sizeof(*fib), 0);

	if (found == BPF_FIB_LKUP_RET_SUCCESS) {
		if (set_macs(skb, fib->dmac, fib->smac))
			return drop(skb, DROP_WRITE_ERROR, EGRESS);
		count(skb, FORWARDED, EGRESS);
		return bpf_redirect(fib->ifindex, 0);
	}
	if (found == BPF_FIB_LKUP_RET_NO_NEIGH) {
		next.nh_family = fib->family;
		memcpy(next.ipv6_nh, fib->ipv6_dst, 16);
		count(skb, FORWARDED, EGRESS);
		return bpf_redirect_neigh(fib->ifindex, &next, sizeof(next), 0);
	}
	return drop(skb, DROP_NO_FIB, EGRESS);
}

/* To the node's stack, which routes the packet on: the mark carries the source's identity (set_identity_mark(), lib/overloadable_skb.h). */
inline_always int pass_to_stack(struct __sk_buff *skb, __u32 identity)
{
	skb->mark = MARK_MAGIC_IDENTITY | (identity & 0xFFFF) << 16;
	count(skb, FORWARDED, EGRESS);
	return TC_ACT_OK;
}

inline_always int route4(struct __sk_buff *skb, __u32 identity)
{
	struct bpf_fib_lookup fib = {};
	struct iphdr *ip;
	int reason = hop4(skb); /* the stack counts the same hop once more, as with Cilium */

	if (reason)
		return drop(skb, reason, EGRESS);
	if (!config.host_routing)
		return pass_to_stack(skb, identity);
	ip = network_header(skb, sizeof(*ip));
	if (!ip)
		return drop(skb, DROP_INVALID, EGRESS);
	fib.family = 2; /* AF_INET */
	fib.ifindex = skb->ifindex;
	fib.ipv4_src = ip->saddr;
	fib.ipv4_dst = ip->daddr;
	return fib_redirect(skb, &fib);
}

inline_always int route6(struct __sk_buff *skb, __u32 identity)
{
	struct bpf_fib_lookup fib = {};
	struct ipv6hdr *ip;
	int reason = hop6(skb);

	if (reason)
		return drop(skb, reason, EGRESS);
	if (!config.host_routing)
		return pass_to_stack(skb, identity);
	ip = network_header(skb, sizeof(*ip));
	if (!ip)
		return drop(skb, DROP_INVALID, EGRESS);
	fib.family = 10; /* AF_INET6 */
	fib.ifindex = skb->ifindex;
	memcpy(fib.ipv6_src, &ip->saddr, 16);
	memcpy(fib.ipv6_dst, &ip->daddr, 16);
	return fib_redirect(skb, &fib);
}

/* Connection tracking and policy of one packet, the first of which creates its entry; 0, or why it is dropped.
 * As in Cilium, replies skip the policy; packets of the opening direction meet it each time, so that a change of it takes effect. */
inline_always int admit4(struct __sk_buff *skb, struct iphdr *ip, __u32 policy, __u32 remote, __u32 source, __u8 direction)
{
	struct tuple4 forward = {}, reverse = {};
	struct transport t;
	enum ct_status status;
	int reason = transport4(skb, ip, &t);

	if (reason)
		return reason;
	tuples4(ip, &t, &forward, &reverse, direction);
	status = ct_lookup(skb, &cilium_ct4_global, &forward, &reverse, &t, direction);
	if (status == CT_REPLY)
		return 0;
	reason = policy_check(skb, policy, remote, &t, direction);
	if (!reason && status == CT_NEW)
		reason = ct_create4(skb, &forward, &t, direction, source);
	return reason;
}

inline_always int admit6(struct __sk_buff *skb, struct ipv6hdr *ip, __u32 policy, __u32 remote, __u32 source, __u8 direction)
{
	struct tuple6 forward = {}, reverse = {};
	struct transport t;
	enum ct_status status;
	int reason = transport6(skb, ip, &t);

	if (reason)
		return reason;
	tuples6(ip, &t, &forward, &reverse, direction);
	status = ct_lookup(skb, &cilium_ct6_global, &forward, &reverse, &t, direction);
	if (status == CT_REPLY)
		return 0;
	reason = policy_check(skb, policy, remote, &t, direction);
	if (!reason && status == CT_NEW)
		reason = ct_create6(skb, &forward, &t, direction, source);
	return reason;
}

inline_always int from_container4(struct __sk_buff *skb, const struct self *self)
{
	struct iphdr *ip = network_header(skb, sizeof(*ip));
	__u32 identity = IDENTITY_WORLD, node = 0;
	struct ipcache_entry *remote;
	struct endpoint *to;
	__be32 daddr;
	int reason;

	if (!ip)
		return drop(skb, DROP_INVALID, EGRESS);
	if (ip->saddr != self->ip4)
		return drop(skb, DROP_INVALID_SIP, EGRESS);
	daddr = ip->daddr;
	remote = ipcache4(daddr);
	if (remote) {
		identity = remote->identity;
		node = remote->tunnel_endpoint;
	}
	reason = admit4(skb, ip, self->policy, identity, self->identity, EGRESS);
	if (reason)
		return drop(skb, reason, EGRESS);
	to = endpoint4(daddr);
	if (to) {
		if (to->flags & ENDPOINT_HOST) {
			count(skb, FORWARDED, EGRESS);
			return TC_ACT_OK;
		}
		reason = hop4(skb);
		if (reason)
			return drop(skb, reason, EGRESS);
		count(skb, FORWARDED, EGRESS);
		return local_delivery(skb, to, self->identity, 0);
	}
	if (config.tunnel_ifindex && node)
		return encapsulate(skb, node, self->identity);
	return route4(skb, self->identity);
}

inline_always int from_container6(struct __sk_buff *skb, const struct self *self)
{
	struct ipv6hdr *ip = network_header(skb, sizeof(*ip));
	__u32 identity = IDENTITY_WORLD, node = 0;
	struct ipcache_entry *remote;
	struct endpoint *to;
	__u8 daddr[16];
	int reason;

	if (!ip)
		return drop(skb, DROP_INVALID, EGRESS);
	memcpy(daddr, &ip->daddr, 16);
	/* Cilium answers neighbour discovery in a program of its own; here the node's stack does: it concerns no measured packet */
	if (daddr[0] == 0xff || (daddr[0] == 0xfe && (daddr[1] & 0xc0) == 0x80))
		return TC_ACT_OK;
	if (!same6(&ip->saddr, self->ip6))
		return drop(skb, DROP_INVALID_SIP, EGRESS);
	if (ip->nexthdr == IPPROTO_ICMPV6) {
		__u8 type = 0;

		bpf_skb_load_bytes(skb, ETH_HLEN + sizeof(*ip), &type, 1);
		if (type >= 133 && type <= 137)
			return TC_ACT_OK;
		ip = network_header(skb, sizeof(*ip));
		if (!ip)
			return drop(skb, DROP_INVALID, EGRESS);
	}
	remote = ipcache6(daddr);
	if (remote) {
		identity = remote->identity;
		node = remote->tunnel_endpoint;
	}
	reason = admit6(skb, ip, self->policy, identity, self->identity, EGRESS);
	if (reason)
		return drop(skb, reason, EGRESS);
	to = endpoint6(daddr);
	if (to) {
		if (to->flags & ENDPOINT_HOST) {
			count(skb, FORWARDED, EGRESS);
			return TC_ACT_OK;
		}
		reason = hop6(skb);
		if (reason)
			return drop(skb, reason, EGRESS);
		count(skb, FORWARDED, EGRESS);
		return local_delivery(skb, to, self->identity, 0);
	}
	if (config.tunnel_ifindex && node)
		return encapsulate(skb, node, self->identity);
	return route6(skb, self->identity);
}

SEC("tc/cil_from_container")
int cil_from_container(struct __sk_buff *skb)
{
	__u32 id = skb->tc_classid;
	struct self *self = bpf_map_lookup_elem(&cilium_self, &id);

	if (!self)
		return drop(skb, DROP_EP_NOT_READY, EGRESS);
	/* a queue recorded by the Pod's veth must not choose the wire's queue */
	skb->queue_mapping = 0;
	switch (skb->protocol) {
	case htons(ETH_P_IP):
		return from_container4(skb, self);
	case htons(ETH_P_IPV6):
		return from_container6(skb, self);
	case htons(ETH_P_ARP):
		return TC_ACT_OK;
	default:
		return drop(skb, DROP_UNKNOWN_L3, EGRESS);
	}
}

inline_always int policy4(struct __sk_buff *skb, __u32 policy, __u32 identity)
{
	struct iphdr *ip = network_header(skb, sizeof(*ip));

	return ip ? admit4(skb, ip, policy, identity, identity, INGRESS) : DROP_INVALID;
}

inline_always int policy6(struct __sk_buff *skb, __u32 policy, __u32 identity)
{
	struct ipv6hdr *ip = network_header(skb, sizeof(*ip));

	return ip ? admit6(skb, ip, policy, identity, identity, INGRESS) : DROP_INVALID;
}

SEC("tc/cil_lxc_policy")
int cil_lxc_policy(struct __sk_buff *skb)
{
	__u32 identity = skb->cb[CB_IDENTITY], delivery = skb->cb[CB_DELIVERY];
	__u32 policy = skb->cb[CB_POLICY], ifindex = skb->cb[CB_IFINDEX];
	int reason = skb->protocol == htons(ETH_P_IP) ? policy4(skb, policy, identity) : policy6(skb, policy, identity);

	if (reason)
		return drop(skb, reason, INGRESS);
	count(skb, FORWARDED, INGRESS);
	/* redirect_peer switches from ingress to ingress: not from the egress of cilium_host */
	if (!config.host_routing || (delivery & FROM_HOST))
		return bpf_redirect(ifindex, 0);
	/* after the tunnel the inner frame is not addressed to the tunnel's device: the Pod's stack would drop it */
	if (delivery & FROM_TUNNEL)
		bpf_skb_change_type(skb, 0 /* PACKET_HOST */);
	return bpf_redirect_peer(ifindex, 0);
}

/* To a local endpoint, from outside of this node or from its stack. TC_ACT_UNSPEC: the destination is no endpoint here. */
inline_always int deliver(struct __sk_buff *skb, __u32 identity, __u32 delivery)
{
	struct endpoint *to = NULL;
	int reason;

	if (skb->protocol == htons(ETH_P_IP)) {
		struct iphdr *ip = network_header(skb, sizeof(*ip));

		if (!ip)
			return drop(skb, DROP_INVALID, INGRESS);
		to = endpoint4(ip->daddr);
		if (!to || (to->flags & ENDPOINT_HOST))
			return TC_ACT_UNSPEC;
		reason = hop4(skb);
	} else {
		struct ipv6hdr *ip = network_header(skb, sizeof(*ip));

		if (!ip)
			return drop(skb, DROP_INVALID, INGRESS);
		to = endpoint6(&ip->daddr);
		if (!to || (to->flags & ENDPOINT_HOST))
			return TC_ACT_UNSPEC;
		reason = hop6(skb);
	}
	if (reason)
		return drop(skb, reason, INGRESS);
	return local_delivery(skb, to, identity, delivery);
}

inline_always int is_ip(struct __sk_buff *skb)
{
	return skb->protocol == htons(ETH_P_IP) || skb->protocol == htons(ETH_P_IPV6);
}

inline_always struct ipcache_entry *ipcache(struct __sk_buff *skb, int source)
{
	if (skb->protocol == htons(ETH_P_IP)) {
		struct iphdr *ip = network_header(skb, sizeof(*ip));

		return ip ? ipcache4(source ? ip->saddr : ip->daddr) : NULL;
	} else {
		struct ipv6hdr *ip = network_header(skb, sizeof(*ip));

		return ip ? ipcache6(source ? &ip->saddr : &ip->daddr) : NULL;
	}
}

SEC("tc/cil_to_overlay")
int cil_to_overlay(struct __sk_buff *skb)
{
	skb->mark = (skb->mark & ~MARK_MAGIC_HOST_MASK) | MARK_MAGIC_OVERLAY;
	return TC_ACT_OK;
}

SEC("tc/cil_from_overlay")
int cil_from_overlay(struct __sk_buff *skb)
{
	struct bpf_tunnel_key key = {};
	int verdict;

	if (!is_ip(skb))
		return TC_ACT_OK;
	if (bpf_skb_get_tunnel_key(skb, &key, offsetof(struct bpf_tunnel_key, local_ipv4), 0))
		return drop(skb, DROP_NO_TUNNEL_KEY, INGRESS);
	verdict = deliver(skb, key.tunnel_id, FROM_TUNNEL);
	if (verdict != TC_ACT_UNSPEC)
		return verdict;
	bpf_skb_change_type(skb, 0 /* PACKET_HOST: for the node itself */);
	return TC_ACT_OK;
}

SEC("tc/cil_from_netdev")
int cil_from_netdev(struct __sk_buff *skb)
{
	struct ipcache_entry *source;
	int verdict;

	if (!is_ip(skb))
		return TC_ACT_OK;
	source = ipcache(skb, 1);
	verdict = deliver(skb, source ? source->identity : IDENTITY_WORLD, 0);
	return verdict == TC_ACT_UNSPEC ? TC_ACT_OK : verdict;
}

SEC("tc/cil_from_host")
int cil_from_host(struct __sk_buff *skb)
{
	struct ipcache_entry *entry;
	__u32 identity;
	int verdict;

	if (!is_ip(skb))
		return TC_ACT_OK;
	entry = ipcache(skb, 1);
	identity = entry ? entry->identity : IDENTITY_WORLD;
	verdict = deliver(skb, identity, FROM_HOST);
	if (verdict != TC_ACT_UNSPEC)
		return verdict;
	entry = ipcache(skb, 0);
	if (config.tunnel_ifindex && entry && entry->tunnel_endpoint)
		return encapsulate(skb, entry->tunnel_endpoint, identity);
	return TC_ACT_OK;
}

/* of the sources that this was made from: setup.py tells by it whether an object is up to date */
char _sources[] SEC("sources") = SOURCES;

char _license[] SEC("license") = "Dual BSD/GPL";
