/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Services by eBPF at tc of each Pod's veth pair, in place of kube-proxy: a model of Cilium's load balancing for each packet (bpf/lib/lb.h of
 * Cilium 1.15: lb4_lookup_service, lb4_local, lb4_rev_nat), written for measuring. A Service is found by its hash, an endpoint is drawn by the
 * first packet of a connection and remembered for the others. Session affinity, source ranges and IPv6 are left out.
 *
 *   svc_to_endpoint   what a Pod sends: the Service's address and port become an endpoint's
 *   svc_from_endpoint what a Pod receives: the endpoint's become the Service's again
 */
#include "helpers.h"

#include <linux/tcp.h>
#include <linux/udp.h>

#define MOST_SERVICES (1 << 21) /* with a slot for each endpoint; the kernel takes memory for those that are there */
#define MOST_CONNECTIONS 65536

static long (*bpf_l3_csum_replace)(void *ctx, __u32 offset, __u64 from, __u64 to, __u64 size) = (void *)BPF_FUNC_l3_csum_replace;
static long (*bpf_l4_csum_replace)(void *ctx, __u32 offset, __u64 from, __u64 to, __u64 flags) = (void *)BPF_FUNC_l4_csum_replace;
static __u32 (*bpf_get_prandom_u32)(void) = (void *)BPF_FUNC_get_prandom_u32;

struct service_key {
	__be32 address;
	__be16 port;
	__u8 proto;
	__u8 pad;
	__u32 slot; /* 0: the Service itself; the others are its endpoints */
};

struct service {
	__u64 endpoint; /* of a slot: its key in the map of endpoints */
	__u32 count;    /* of the Service itself: endpoints */
	__u32 pad;
};

struct endpoint {
	__be32 address;
	__be16 port;
	__u16 pad;
};

struct tuple {
	__be32 saddr;
	__be32 daddr;
	__be16 sport;
	__be16 dport;
	__u8 proto;
	__u8 pad[3];
};

MAP(lb_services) = {BPF_MAP_TYPE_HASH, sizeof(struct service_key), sizeof(struct service), MOST_SERVICES, BPF_F_NO_PREALLOC};
MAP(lb_endpoints) = {BPF_MAP_TYPE_HASH, 8, sizeof(struct endpoint), MOST_SERVICES, BPF_F_NO_PREALLOC};
MAP(lb_connections) = {BPF_MAP_TYPE_LRU_HASH, sizeof(struct tuple), 8, MOST_CONNECTIONS, 0};
MAP(lb_replies) = {BPF_MAP_TYPE_LRU_HASH, sizeof(struct tuple), sizeof(struct endpoint), MOST_CONNECTIONS, 0};

struct packet {
	struct tuple t;
	__u32 transport; /* offset of the transport header */
};

/* 0: an IPv4 packet of TCP or UDP, not a later fragment */
inline_always int parse(struct __sk_buff *skb, struct packet *p)
{
	struct iphdr ip;

	if (skb->protocol != htons(ETH_P_IP) || bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
		return -1;
	if ((ip.protocol != IPPROTO_TCP && ip.protocol != IPPROTO_UDP) || (ip.frag_off & htons(0x1fff)))
		return -1;
	p->transport = ETH_HLEN + ip.ihl * 4;
	p->t.saddr = ip.saddr;
	p->t.daddr = ip.daddr;
	p->t.proto = ip.protocol;
	/* the ports are the first four bytes of both headers */
	return bpf_skb_load_bytes(skb, p->transport, &p->t.sport, 4) ? -1 : 0;
}

/* Another address and port in the place of one: the headers' checksums change with them. */
inline_always int rewrite(struct __sk_buff *skb, const struct packet *p, __u32 address_at, __u32 port_at, __be32 from, __be16 from_port,
			  const struct endpoint *to)
{
	__u32 check = p->transport + (p->t.proto == IPPROTO_TCP ? offsetof(struct tcphdr, check) : offsetof(struct udphdr, check));
	__u64 flags = p->t.proto == IPPROTO_UDP ? BPF_F_MARK_MANGLED_0 : 0;
	__be32 address = to->address;
	__be16 port = to->port;

	if (bpf_l4_csum_replace(skb, check, from, address, flags | BPF_F_PSEUDO_HDR | sizeof(address)) ||
	    bpf_l4_csum_replace(skb, check, from_port, port, flags | sizeof(port)) ||
	    bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), from, address, sizeof(address)) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN + address_at, &address, sizeof(address), 0) ||
	    bpf_skb_store_bytes(skb, p->transport + port_at, &port, sizeof(port), 0))
		return TC_ACT_SHOT;
	return TC_ACT_UNSPEC; /* on to the CNI's own program, or the stack */
}

SEC("tc/svc_to_endpoint")
int svc_to_endpoint(struct __sk_buff *skb)
{
	struct service_key key = {};
	struct packet p = {};
	struct endpoint *to, chosen, asked = {};
	struct tuple reply = {};
	struct service *service;
	__u64 *known, endpoint;

	if (parse(skb, &p))
		return TC_ACT_UNSPEC;
	key.address = p.t.daddr;
	key.port = p.t.dport;
	key.proto = p.t.proto;
	service = bpf_map_lookup_elem(&lb_services, &key);
	if (!service)
		return TC_ACT_UNSPEC;
	known = bpf_map_lookup_elem(&lb_connections, &p.t);
	to = NULL;
	if (known) {
		endpoint = *known;
		to = bpf_map_lookup_elem(&lb_endpoints, &endpoint);
	}
	if (!to) {
		if (!service->count)
			return TC_ACT_SHOT;
		key.slot = bpf_get_prandom_u32() % service->count + 1;
		service = bpf_map_lookup_elem(&lb_services, &key);
		if (!service)
			return TC_ACT_SHOT;
		endpoint = service->endpoint;
		to = bpf_map_lookup_elem(&lb_endpoints, &endpoint);
		if (!to)
			return TC_ACT_SHOT;
		asked.address = p.t.daddr;
		asked.port = p.t.dport;
		reply.saddr = to->address;
		reply.daddr = p.t.saddr;
		reply.sport = to->port;
		reply.dport = p.t.sport;
		reply.proto = p.t.proto;
		if (bpf_map_update_elem(&lb_replies, &reply, &asked, BPF_ANY) ||
		    bpf_map_update_elem(&lb_connections, &p.t, &endpoint, BPF_ANY))
			return TC_ACT_SHOT;
	}
	chosen = *to;
	return rewrite(skb, &p, offsetof(struct iphdr, daddr), 2, p.t.daddr, p.t.dport, &chosen);
}

SEC("tc/svc_from_endpoint")
int svc_from_endpoint(struct __sk_buff *skb)
{
	struct packet p = {};
	struct endpoint *asked, chosen;

	if (parse(skb, &p))
		return TC_ACT_UNSPEC;
	asked = bpf_map_lookup_elem(&lb_replies, &p.t);
	if (!asked)
		return TC_ACT_UNSPEC;
	chosen = *asked;
	return rewrite(skb, &p, offsetof(struct iphdr, saddr), 0, p.t.saddr, p.t.sport, &chosen);
}

/* of the sources that this was made from: setup.py tells by it whether an object is up to date */
char _sources[] SEC("sources") = SOURCES;

char _license[] SEC("license") = "Dual BSD/GPL";
