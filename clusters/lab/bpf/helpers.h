/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What every program here needs of the kernel: helper functions by number (include/uapi/linux/bpf.h, enum bpf_func_id), section names and
 * the form in which a map is declared. libbpf's headers are not used, so that building needs clang and the kernel's own headers only. */
#pragma once

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <stddef.h>

#define SEC(name) __attribute__((section(name), used))
#define inline_always static inline __attribute__((always_inline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define memcpy __builtin_memcpy
#define memset __builtin_memset

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define htons(x) ((__be16)__builtin_bswap16(x))
#define htonl(x) ((__be32)__builtin_bswap32(x))
#else
#define htons(x) ((__be16)(x))
#define htonl(x) ((__be32)(x))
#endif

/* A map: read by clusters/lab/ebpf/programs.py, and made with bpf(2) by syscall.py beside it. The last three are for a map of maps: the LPM tries in it. */
struct map_def {
	__u32 type;
	__u32 key_size;
	__u32 value_size;
	__u32 max_entries;
	__u32 flags;
	__u32 inner_key_size;
	__u32 inner_value_size;
	__u32 inner_max_entries;
};

#define MAP(name) struct map_def name SEC("maps")

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) = (void *)BPF_FUNC_map_update_elem;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static long (*bpf_tail_call)(void *ctx, void *map, __u32 index) = (void *)BPF_FUNC_tail_call;
static long (*bpf_skb_load_bytes)(const void *ctx, __u32 offset, void *to, __u32 len) = (void *)BPF_FUNC_skb_load_bytes;
static long (*bpf_skb_store_bytes)(void *ctx, __u32 offset, const void *from, __u32 len, __u64 flags) = (void *)BPF_FUNC_skb_store_bytes;
static long (*bpf_skb_pull_data)(void *ctx, __u32 len) = (void *)BPF_FUNC_skb_pull_data;
static long (*bpf_skb_change_type)(void *ctx, __u32 type) = (void *)BPF_FUNC_skb_change_type;
static long (*bpf_skb_set_tunnel_key)(void *ctx, void *key, __u32 size, __u64 flags) = (void *)BPF_FUNC_skb_set_tunnel_key;
static long (*bpf_skb_get_tunnel_key)(void *ctx, void *key, __u32 size, __u64 flags) = (void *)BPF_FUNC_skb_get_tunnel_key;
static long (*bpf_fib_lookup)(void *ctx, void *params, int plen, __u32 flags) = (void *)BPF_FUNC_fib_lookup;
static long (*bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)BPF_FUNC_redirect;
static long (*bpf_redirect_peer)(__u32 ifindex, __u64 flags) = (void *)BPF_FUNC_redirect_peer;
static long (*bpf_redirect_neigh)(__u32 ifindex, void *params, int plen, __u64 flags) = (void *)BPF_FUNC_redirect_neigh;

/* skb->data and skb->data_end: loaded by hand, since clang may zero-extend the 32-bit fields once more, which the verifier takes for
 * arithmetic on a pointer (Cilium's bpf/include/bpf/ctx/common.h does the same). */
#define CONTEXT_POINTER(field)                                                                                       \
	inline_always void *packet_##field(const struct __sk_buff *skb)                                              \
	{                                                                                                            \
		void *pointer;                                                                                       \
                                                                                                                     \
		asm volatile("%0 = *(u32 *)(%1 + %2)"                                                                \
			     : "=r"(pointer)                                                                         \
			     : "r"(skb), "i"(offsetof(struct __sk_buff, field)));                                    \
		return pointer;                                                                                      \
	}

CONTEXT_POINTER(data)
CONTEXT_POINTER(data_end)
