/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The one bounds idiom: a cursor over the packet's linear bytes, and PULL,
 * which gives the next header and moves on, or NULL when it is not all there.
 */
#include "kernel.h"

struct cursor {
	void *pos;
	void *end;
};

#define PULL(cursor, type)                                \
	({                                                \
		type *_header = (cursor)->pos;            \
		if ((void *)(_header + 1) > (cursor)->end) \
			_header = NULL;                   \
		else                                      \
			(cursor)->pos = _header + 1;      \
		_header;                                  \
	})
