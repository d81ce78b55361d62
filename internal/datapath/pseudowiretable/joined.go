package pseudowiretable

import (
	"fmt"

	"github.com/cilium/ebpf"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Joiner unpacks packets of pseudowires that came in pieces and that the kernel
// has joined: it gives pseudowire_joined, by BPF_PROG_RUN, the whole packet. So
// they are checked and counted by the same code as all others.
type Joiner struct {
	program *ebpf.Program
	out     []byte
}

// joinedMax is what BPF_PROG_RUN takes: what fits in a page beside what the kernel
// keeps of a packet there. Of larger ones the program sees as much, and counts
// them as truncated.
const joinedMax = 3600

// Joiner loads the program. It serves one goroutine.
func (d Table) Joiner() (*Joiner, error) {
	prog, err := d.core.Load("pseudowire_joined")
	if err != nil {
		return nil, err
	}
	return &Joiner{program: prog, out: make([]byte, joinedMax+256)}, nil
}

// Unpack gives the frame that is in a packet, which stands behind an empty link
// header, and the index of the hidden end that it is to go out by. With any other
// outcome than ForwardWireIn there is none. The frame is valid until the next call.
func (j *Joiner) Unpack(packet []byte, device int) (frame []byte, hidden int, outcome state.Outcome, err error) {
	var after datapath.SKBuff
	run := ebpf.RunOptions{
		Data: packet[:min(len(packet), joinedMax)], DataOut: j.out,
		Context: datapath.SKBuff{Ifindex: uint32(device)}, ContextOut: &after,
	}
	got, err := j.program.Run(&run)
	if err != nil {
		return nil, 0, state.DropKernel, fmt.Errorf("run program pseudowire_joined: %w", err)
	}
	if outcome = state.Outcome(got); outcome != state.ForwardWireIn {
		return nil, 0, outcome, nil
	}
	return run.DataOut, int(after.Mark), outcome, nil
}
