// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX ingress of a pseudowire's hidden end: encapsulates the frames that the
 * pseudowire's interface sends, and sends them to the other end (pseudowire_encap.h).
 */
#include "tc.h"
#include "counters.h"
#include "pseudowire_encap.h"

SEC("tcx/ingress")
int pseudowire_encap(struct __sk_buff *ctx)
{
	return pseudowire_encapsulate(ctx, PSEUDOWIRE_ENCAP);
}

char _license[] SEC("license") = "Dual BSD/GPL";
