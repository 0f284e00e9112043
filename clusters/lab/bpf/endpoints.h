/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Who is where: the endpoints of this node (Cilium's cilium_lxc, bpf/lib/eps.h), the identity and the node of every address of the cluster
 * (cilium_ipcache), and what each endpoint's own program knows of its endpoint. */
#pragma once

#include "policy.h"

#define FAMILY_IPV4 1
#define FAMILY_IPV6 2

/* Reserved identities, pkg/identity/numericidentity.go */
#define IDENTITY_HOST 1
#define IDENTITY_WORLD 2
#define IDENTITY_REMOTE_NODE 6

#define ENDPOINT_HOST 1 /* an address of the node itself */

struct endpoint_key {
	__u8 address[16];
	__u8 family;
	__u8 pad[3];
};

struct endpoint {
	__u32 ifindex;
	__u16 id;
	__u16 flags;
	__u8 mac[6];	  /* of the Pod's device */
	__u8 node_mac[6]; /* of the node's side of the veth */
	__u32 policy;
};

struct ipcache_key {
	__u32 prefix; /* 32 bits of cluster, pad and family, then the address */
	__u16 cluster;
	__u8 pad;
	__u8 family;
	__u8 address[16];
};

struct ipcache_entry {
	__u32 identity;
	__u32 tunnel_endpoint; /* IPv4 address of the node in host order, 0: no tunnel leads there */
};

/* Cilium compiles these into each endpoint's program; here one program serves all, and finds its endpoint by the class id of its filter. */
struct self {
	__u32 identity;
	__be32 ip4;
	__u8 ip6[16];
	__u32 policy;
};

MAP(cilium_lxc) = {BPF_MAP_TYPE_HASH, sizeof(struct endpoint_key), sizeof(struct endpoint), 65535, BPF_F_NO_PREALLOC};
MAP(cilium_ipcache) = {BPF_MAP_TYPE_LPM_TRIE, sizeof(struct ipcache_key), sizeof(struct ipcache_entry), 65535, BPF_F_NO_PREALLOC};
MAP(cilium_self) = {BPF_MAP_TYPE_ARRAY, sizeof(__u32), sizeof(struct self), MAX_ENDPOINTS, 0};
MAP(cilium_calls) = {BPF_MAP_TYPE_PROG_ARRAY, sizeof(__u32), sizeof(__u32), MAX_ENDPOINTS, 0};

inline_always struct endpoint *endpoint4(__be32 address)
{
	struct endpoint_key key = {.family = FAMILY_IPV4};

	memcpy(key.address, &address, 4);
	return bpf_map_lookup_elem(&cilium_lxc, &key);
}

inline_always struct endpoint *endpoint6(const void *address)
{
	struct endpoint_key key = {.family = FAMILY_IPV6};

	memcpy(key.address, address, 16);
	return bpf_map_lookup_elem(&cilium_lxc, &key);
}

inline_always struct ipcache_entry *ipcache4(__be32 address)
{
	struct ipcache_key key = {.prefix = 32 + 32, .family = FAMILY_IPV4};

	memcpy(key.address, &address, 4);
	return bpf_map_lookup_elem(&cilium_ipcache, &key);
}

inline_always struct ipcache_entry *ipcache6(const void *address)
{
	struct ipcache_key key = {.prefix = 32 + 128, .family = FAMILY_IPV6};

	memcpy(key.address, address, 16);
	return bpf_map_lookup_elem(&cilium_ipcache, &key);
}
