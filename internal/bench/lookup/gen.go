package lookup

// The compiler is pinned as in internal/datapath.
//
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I../../../bpf/include -I../../../bpf/lib" lookup ../../../bpf/bench/lookup.bpf.c
