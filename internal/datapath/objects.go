package datapath

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weft/internal/state"
)

// program is one of bpf/*.bpf.c, compiled and embedded.
type program struct {
	name   string // of the function in it, and of the counters' rows
	hook   state.Hook
	object []byte
}

// programs, each in its row of the counters.
func programs() []program {
	list := []program{
		ingressXDP:        {hook: state.HookXDP, object: _IngressXDPBytes},
		ingressTC:         {hook: state.HookIngress, object: _IngressTCBytes},
		translatorEgress:  {hook: state.HookEgress, object: _TranslatorEgressBytes},
		translatorIngress: {hook: state.HookIngress, object: _TranslatorIngressBytes},
		pseudowireEncap:   {hook: state.HookIngress, object: _PseudowireEncapBytes},
		lnsEgress:         {hook: state.HookEgress, object: _LnsEgressBytes},
		bridgePortIn:      {hook: state.HookIngress, object: _BridgePortInBytes},
		bridgePortOut:     {hook: state.HookEgress, object: _BridgePortOutBytes},
		bridgeHostIn:      {hook: state.HookIngress, object: _BridgeHostInBytes},
		bridgeHostOut:     {hook: state.HookEgress, object: _BridgeHostOutBytes},
		flowEgress:        {hook: state.HookEgress, object: _FlowEgressBytes},
		flowSessionEgress: {hook: state.HookEgress, object: _FlowSessionEgressBytes},
		earlyDropEgress:   {hook: state.HookEgress, object: _EarlyDropEgressBytes},
	}
	for i, name := range programNames() {
		list[i].name = name
	}
	return list
}

// anchor returns the position of this program among those of its hook. The ingress
// filter of a bridge's port runs before any other program, its egress filter after
// all others.
func (p program) anchor() link.Anchor {
	switch p.name {
	case "bridge_port_in", "bridge_host_in":
		return link.Head()
	}
	return link.Tail()
}

// helpers are the programs that weft runs, and that are attached nowhere.
func helpers() []program {
	return []program{
		{"nat64_sweep", "", _Nat64SweepBytes},
		{"nat64_resolve", "", _Nat64ResolveBytes},
		{"nat64_import", "", _Nat64ImportBytes},
		{"pseudowire_reassembled", "", _PseudowireReassembledBytes},
	}
}

// digests are the hashes of the programs' code. They are computed once: the code has
// two megabytes, the builds are needed at every link change, and on a weak router
// hashing took a tenth of a second.
var digests = sync.OnceValue(func() map[string][sha256.Size]byte {
	all := map[string][sha256.Size]byte{}
	for _, p := range append(programs(), helpers()...) {
		all[p.name] = sha256.Sum256(p.object)
	}
	return all
})

// build identifies a set of code and tables: a program keeps the tables that it was
// loaded with.
func (p program) build(t state.Tables) string {
	code := digests()[p.name]
	h := sha256.New()
	h.Write(code[:])
	if !servesAll(p.name) {
		t.Unused = 0
	}
	if t != (state.Tables{}) {
		fmt.Fprint(h, t)
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// servesAll reports whether a program has the code for every role of interfaces, and
// omits unused roles.
func servesAll(program string) bool { return program == "ingress_tc" || program == "ingress_xdp" }

func (p program) spec() (*ebpf.CollectionSpec, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(p.object))
	if err != nil {
		return nil, fmt.Errorf("read object of program %s: %w", p.name, err)
	}
	return spec, nil
}

func programNamed(name string) (program, error) {
	for _, p := range append(programs(), helpers()...) {
		if p.name == name {
			return p, nil
		}
	}
	return program{}, fmt.Errorf("no program is called %q", name)
}

// Builds returns the hash of each program's code with tables of these sizes, by
// name.
func Builds(t state.Tables) map[string]string {
	builds := map[string]string{}
	for _, p := range programs() {
		builds[p.name] = p.build(t)
	}
	return builds
}

// AllPrograms lists the programs that are attached, and those that weft runs.
func AllPrograms() (names []string) {
	for _, p := range append(programs(), helpers()...) {
		names = append(names, p.name)
	}
	return names
}

// ProgramNames lists the programs in the order in which a packet may meet them.
func ProgramNames() []string { return programNames() }
