package datapath

// The compiler is pinned: another version gives other bytes, and CI compares
// them (docs/decisions/0002-ebpf-build.md). Go types come from one object.
//
//go:generate -command bpf go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I../../bpf/include -I../../bpf/lib -I../../bpf/hook -I../../bpf/blocks"
//go:generate bpf -no-global-types -type interface -type nat64_key4 -type nat64_key6 -type nat64_rule4 -type nat64_rule6 -type nat64_translator -type nat64_volume -type proxy_key -type nat64_bib6_key -type nat64_binding -type nat64_bib4_key -type nat64_owner -type nat64_session_key -type nat64_session -type nat64_slot -type nat64_stateful -type nat64_subscriber_key -type nat64_subscriber -type nat64_usage -type nat64_sweep_state -type nat64_event -type lower_key -type neighbour -type nexthop -type l2tp_lns -type l2tp_tunnel -type l2tp_group -type l2tp_down -type l2tp_up -type l2tp_down_rest -type l2tp_up_rest -type l2tp_state -type l2tp_captured -type l2tp_addr4 -type l2tp_addr6 -type l2tp_lengths -type l2tp_walled_garden_key -type guard_interface -type flow_key4 -type flow_key6 -type flow4 -type flow6 -type flow_line4 -type flow_line6 -type flow_bucket -type flow_hop -type flow_control -type flow_tuple -type flow_early_drop -type flow_session_key -type pseudowire_key -type pseudowire_rx -type pseudowire_endpoints -type pseudowire_path -type pseudowire_tx -type pseudowire_stats -type l2tp_line IngressTC ../../bpf/ingress_tc.bpf.c
//go:generate bpf -no-global-types ingressXDP ../../bpf/ingress_xdp.bpf.c
//go:generate bpf -no-global-types translatorEgress ../../bpf/translator_egress.bpf.c
//go:generate bpf -no-global-types translatorIngress ../../bpf/translator_ingress.bpf.c
//go:generate bpf -no-global-types pseudowireEncap ../../bpf/pseudowire_encap.bpf.c
//go:generate bpf -no-global-types pseudowireReassembled ../../bpf/pseudowire_reassembled.bpf.c
//go:generate bpf -no-global-types nat64Sweep ../../bpf/nat64_sweep.bpf.c
//go:generate bpf -no-global-types nat64Resolve ../../bpf/nat64_resolve.bpf.c
//go:generate bpf -no-global-types lnsEgress ../../bpf/lns_egress.bpf.c
//go:generate bpf -no-global-types -type flow_passed_key -type flow_event FlowEgress ../../bpf/flow_egress.bpf.c
//go:generate bpf -no-global-types flowSessionEgress ../../bpf/flow_session_egress.bpf.c
//go:generate bpf -no-global-types earlyDropEgress ../../bpf/early_drop_egress.bpf.c
//go:generate bpf -no-global-types nat64Import ../../bpf/nat64_import.bpf.c
//go:generate bpf -no-global-types -type bridge_port -type bridge_station_key -type bridge_station -type bridge_usage -type bridge_drop_key BridgePortIn ../../bpf/bridge_port_in.bpf.c
//go:generate bpf -no-global-types bridgePortOut ../../bpf/bridge_port_out.bpf.c
//go:generate bpf -no-global-types bridgeHostIn ../../bpf/bridge_host_in.bpf.c
//go:generate bpf -no-global-types bridgeHostOut ../../bpf/bridge_host_out.bpf.c
