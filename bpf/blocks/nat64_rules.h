/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/* Finds the rule of an address, and applies it (RFC 6052 2.3, RFC 7757). */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "nat64_maps.h"

static __always_inline struct nat64_translator *nat64_translator(__u32 id)
{
	return bpf_map_lookup_elem(&nat64_translators, &id);
}

static __always_inline struct nat64_rule6 *nat64_rule6(const struct in6_addr *a)
{
	struct nat64_key6 key = { .prefixlen = 128, .addr = *a };

	return bpf_map_lookup_elem(&nat64_rules6, &key);
}

static __always_inline struct nat64_rule4 *nat64_rule4(__be32 a)
{
	struct nat64_key4 key = { .prefixlen = 32, .addr = a };

	return bpf_map_lookup_elem(&nat64_rules4, &key);
}

static __always_inline __be32 nat64_to4(const struct in6_addr *a, const struct nat64_rule6 *r)
{
	__u32 bits = 0;

	if (r->suffix.bits)
		bits = addr6_take(a, r->suffix.from, r->suffix.u_octet) >>
		       ((32 - r->suffix.bits) & 31);
	return bpf_htonl(r->base4 | bits);
}

static __always_inline void nat64_to6(struct in6_addr *to, __be32 a, const struct nat64_rule4 *r)
{
	*to = r->base6;
	if (r->suffix.bits)
		addr6_put(to, r->suffix.from, r->suffix.u_octet,
			  bpf_ntohl(a) << ((32 - r->suffix.bits) & 31));
}

/* RFC 6052 2.2: bits 64..71 of an address made with a short prefix are zero */
static __always_inline bool nat64_u_octet_set(const struct in6_addr *a, const struct nat64_rule6 *r)
{
	return r->suffix.u_octet && a->u8[8];
}
