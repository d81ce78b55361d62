package stateful

// The compiler is pinned as in internal/datapath.
//
//go:generate -command bpf go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I../../../bpf/include -I../../../bpf/lib"
//go:generate bpf sessions ../../../bpf/bench/sessions.bpf.c
