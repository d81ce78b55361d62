// Package session is the reference of stateful NAT64 (RFC 6146): bindings,
// sessions, the TCP state machine, filtering, limits and time, as a table in
// plain Go. The eBPF programs do the same (bpf/blocks/nat64_state*.h), and
// random histories through both must agree. It is pure: the time is given with
// each packet, and which free port a new binding gets is the caller's choice,
// whose legality is checked here.
package session
