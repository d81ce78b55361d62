package rig

// The compiler is pinned as in internal/datapath.
//
//go:generate -command bpf go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I../../../bpf/include -I../../../bpf/lib"
//go:generate bpf generate ../../../bpf/bench/generate.bpf.c
//go:generate bpf -type kept receive ../../../bpf/bench/receive.bpf.c
//go:generate bpf xdpForward ../../../bpf/bench/xdp_forward.bpf.c
//go:generate bpf answer ../../../bpf/bench/answer.bpf.c
