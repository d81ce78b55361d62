// SPDX-License-Identifier: Apache-2.0
/*
 * ptrace() for User-Mode Linux on a CPU whose XSAVE area is larger than UML's
 * buffer for it, loaded by LD_PRELOAD.
 *
 * UML 6.1 keeps the extended state of its processes (x87, SSE, AVX, AVX-512,
 * PKRU) in a buffer of 2,696 bytes. With AMX the area has 11,008 bytes, and
 * PTRACE_SETREGSET(NT_X86_XSTATE) takes the whole area or answers EFAULT: every
 * guest panics at its first process with "ptrace set fp regs failed, errno = 14".
 * LocalAddr the rest of the area is filled in with what the process has. Where the
 * buffer is large enough nothing changes.
 *
 * UML calls ptrace() from one thread, so one buffer serves it. No libc is needed
 * to build this.
 */
typedef unsigned char byte;
typedef unsigned long u64;

struct iovec {
	void *base;
	u64 len;
};

enum {
	SYS_PTRACE = 101,
	PTRACE_PEEKUSR = 3, /* PEEKTEXT 1, PEEKDATA 2: all three return a word */
	PTRACE_GETREGSET = 0x4204,
	PTRACE_SETREGSET = 0x4205,
	NT_X86_XSTATE = 0x202,
	XSTATE_BV = 512,      /* where the area says which components are not in their initial state */
	COMPONENTS = 0x2ff,   /* those that UML's buffer has room for */
	LARGEST_AREA = 65536, /* guest/xstate.go has this number, too */
};

extern int *__errno_location(void);

static long system_ptrace(long request, long pid, u64 address, void *data)
{
	register void *r10 __asm__("r10") = data;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_PTRACE), "D"(request), "S"(pid), "d"(address), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

long ptrace(int request, long pid, u64 address, void *data)
{
	static byte area[LARGEST_AREA] __attribute__((aligned(64)));
	struct iovec whole = {area, sizeof(area)};

	if (request == PTRACE_SETREGSET && address == NT_X86_XSTATE &&
	    system_ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &whole) == 0) {
		const struct iovec *given = data;

		if (whole.len > given->len) {
			for (u64 i = 0; i < given->len; i++)
				area[i] = ((const byte *)given->base)[i];
			*(u64 *)(area + XSTATE_BV) &= COMPONENTS;
			data = &whole;
		}
	}

	/* the system call stores the word, libc's function returns it */
	int peek = request >= 1 && request <= PTRACE_PEEKUSR;
	long word = 0;
	long result = system_ptrace(request, pid, address, peek ? &word : data);

	if (result < 0) {
		*__errno_location() = -result;
		return -1;
	}
	if (!peek)
		return result;
	*__errno_location() = 0;
	return word;
}
