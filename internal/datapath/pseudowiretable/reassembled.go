package pseudowiretable

import (
	"fmt"

	"github.com/cilium/ebpf"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Joiner decapsulates packets of pseudowires that the kernel has reassembled from
// fragments: it gives pseudowire_reassembled, by BPF_PROG_RUN, the whole packet. So they
// are checked and counted by the same code as all others.
type Joiner struct {
	program *ebpf.Program
	out     []byte
}

// reassembledMax is the largest packet that BPF_PROG_RUN accepts: what fits into a page
// beside the kernel's own data. Larger packets are truncated to it, and the program
// counts them as such.
const reassembledMax = 3600

// Joiner loads the program. It serves one goroutine.
func (d Table) Joiner() (*Joiner, error) {
	prog, err := d.core.Load("pseudowire_reassembled")
	if err != nil {
		return nil, err
	}
	return &Joiner{program: prog, out: make([]byte, reassembledMax+256)}, nil
}

// Unpack returns the frame in a packet, which follows an empty link header, and the
// index of the hidden end that it leaves by. With any other outcome than
// ForwardPseudowireDecap there is none. The frame is valid until the next call.
func (j *Joiner) Unpack(packet []byte, device int) (frame []byte, hidden int, outcome state.Outcome, err error) {
	var after datapath.SKBuff
	run := ebpf.RunOptions{
		Data: packet[:min(len(packet), reassembledMax)], DataOut: j.out,
		Context: datapath.SKBuff{Ifindex: uint32(device)}, ContextOut: &after,
	}
	got, err := j.program.Run(&run)
	if err != nil {
		return nil, 0, state.DropKernel, fmt.Errorf("run program pseudowire_reassembled: %w", err)
	}
	if outcome = state.Outcome(got); outcome != state.ForwardPseudowireDecap {
		return nil, 0, outcome, nil
	}
	return run.DataOut, int(after.Mark), outcome, nil
}
