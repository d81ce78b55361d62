package nat64table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"weft/internal/datapath"
)

// End ends sessions before they expire, and the bindings that only they referenced.
// It returns the number ended; a session that has ended meanwhile is no error.
func (d Table) End(sessions []Session) (int, error) {
	d.core.TakeSizes()
	prog, err := d.core.Load("nat64_sweep")
	if err != nil {
		return 0, err
	}
	before, err := d.sessionsEnded()
	if err != nil {
		return 0, err
	}
	for len(sessions) > 0 {
		n := min(len(sessions), sweepKeysMost)
		var data bytes.Buffer
		data.Write(make([]byte, 14))
		for _, s := range sessions[:n] {
			if err := binary.Write(&data, binary.NativeEndian, encodeSessionKey(s.Protocol, s.IPv4, s.Remote4)); err != nil {
				return 0, err
			}
		}
		out := make([]byte, data.Len()+64)
		verdict, err := prog.Run(&ebpf.RunOptions{Data: data.Bytes(), DataOut: out, Context: datapath.SKBuff{Mark: sweepKeys}})
		if err == nil && verdict != 0 {
			err = errors.New("it was refused")
		}
		if err != nil {
			return 0, fmt.Errorf("run program nat64_sweep: %w", err)
		}
		sessions = sessions[n:]
	}
	after, err := d.sessionsEnded()
	return int(after - before), err
}

func (d Table) sessionsEnded() (n uint64, err error) {
	usages, err := d.Usages()
	for _, u := range usages {
		n += u.SessionsEnded
	}
	return n, err
}

func encodeSessionKey(protocol uint8, pool, remote netip.AddrPort) sessionKey {
	k := sessionKey{Pool: datapath.Wire32(pool.Addr()), PoolPort: datapath.Wire16(pool.Port()), Remote: datapath.Wire32(remote.Addr()), RemotePort: datapath.Wire16(remote.Port()), Protocol: protocol}
	if protocol == 1 {
		k.RemotePort = k.PoolPort
	}
	return k
}
