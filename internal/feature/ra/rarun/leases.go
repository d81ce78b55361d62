package rarun

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"weft/internal/feature/ra"
	"weft/internal/store"
)

// leaseFile keeps the leases of one link.
type leaseFile struct {
	file *store.File // nil: nothing has to be kept
}

// keptLease is a lease as it is written.
type keptLease struct {
	Client string       `json:"client"` // DUID, hexadecimal
	IAID   string       `json:"iaid"`
	Kind   ra.Kind      `json:"kind"`
	Prefix netip.Prefix `json:"prefix"`
	Until  time.Time    `json:"until"`
	Peer   netip.Addr   `json:"peer"`
}

// openLeases opens the file that s names, with what is in it. Stateless DHCPv6
// has none. If it cannot be had, leases are kept in memory only, and why is
// the error. A lease that cannot be read is left out.
func openLeases(s ra.Settings) (*leaseFile, []ra.Lease, error) {
	if s.DHCPv6 != ra.DHCPStateful {
		return &leaseFile{}, nil, nil
	}
	f, err := store.Open(s.Leases)
	if err != nil {
		return &leaseFile{}, nil, err
	}
	var kept []ra.Lease
	var bad error
	err = f.Each(func(_, value []byte) error {
		l, err := readLease(value)
		if err == nil {
			kept = append(kept, l)
		} else {
			bad = fmt.Errorf("read a lease of %s: %w", s.Leases, err)
		}
		return nil
	})
	if f.Damaged != nil {
		bad = f.Damaged
	}
	return &leaseFile{f}, kept, errors.Join(err, bad)
}

func readLease(text []byte) (ra.Lease, error) {
	var k keptLease
	if err := json.Unmarshal(text, &k); err != nil {
		return ra.Lease{}, err
	}
	client, err := hex.DecodeString(k.Client)
	if err != nil {
		return ra.Lease{}, err
	}
	iaid, err := hex.DecodeString(k.IAID)
	if err != nil || len(iaid) != 4 {
		return ra.Lease{}, fmt.Errorf("%q is no IAID", k.IAID)
	}
	return ra.Lease{Binding: ra.Binding{Client: string(client), IAID: [4]byte(iaid), Kind: k.Kind}, Prefix: k.Prefix, Until: k.Until, Peer: k.Peer}, nil
}

func leaseKey(b ra.Binding) []byte { return []byte(string(b.Kind) + string(b.IAID[:]) + b.Client) }

// Put keeps a lease.
func (f *leaseFile) Put(l ra.Lease) error {
	if f.file == nil {
		return nil
	}
	text, err := json.Marshal(keptLease{hex.EncodeToString([]byte(l.Client)), hex.EncodeToString(l.IAID[:]), l.Kind, l.Prefix, l.Until, l.Peer})
	if err != nil {
		return err
	}
	return f.file.Put(leaseKey(l.Binding), text)
}

// Delete forgets a lease.
func (f *leaseFile) Delete(l ra.Lease) error {
	if f.file == nil {
		return nil
	}
	return f.file.Delete(leaseKey(l.Binding))
}

// Close closes the file.
func (f *leaseFile) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
