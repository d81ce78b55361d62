// Package slowpath carries rare packets between the programs and Go: one
// channel up (what a program lets pass into a translator's TAP device comes
// out of its file) and the same device to put packets back. It knows nothing
// of what is done to them.
package slowpath

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"weft/internal/state"
	"weft/internal/task"
)

// maxFrame is the longest frame that a TAP device hands over.
const maxFrame = 65536 + ethernetHeader

const ethernetHeader = 14

// Packet is an IP packet without link header.
type Packet struct {
	Bytes []byte
	// Local packets come from an address of this host: they leave as its own,
	// because the stack believes no packet that arrives from itself.
	Local bool
	// Back is the index of an interface at which the packet is to arrive once
	// more; 0: it arrives on the translator's device.
	Back int
}

// Device is the user-space end of a persistent TAP device.
type Device struct {
	file *os.File
	mac  [6]byte
	raw  rawSocket

	served atomic.Uint64
	guard  task.Guard
}

// Open takes the user-space end of the TAP device called name, whose link
// address is mac. Only one process can have it. It has to be there: to take one
// that is not makes it, and then weft would find a device that is not its own.
func Open(name string, mac [6]byte) (*Device, error) {
	if _, err := net.InterfaceByName(name); err != nil {
		return nil, fmt.Errorf("find tap device %s: %w", name, err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w (modprobe tun; in a unit DeviceAllow=/dev/net/tun rw, in a container --device /dev/net/tun)", err)
	}
	req, err := unix.NewIfreq(name)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return nil, errors.Join(fmt.Errorf("take tap device %s: %w", name, err), unix.Close(fd))
	}
	if err := persists(fd, req); err != nil {
		return nil, errors.Join(fmt.Errorf("take tap device %s: %w", name, err), unix.Close(fd))
	}
	raw, err := openRaw()
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &Device{file: os.NewFile(uintptr(fd), name), mac: mac, raw: raw}, nil
}

// persists fails if the device was removed in between, and was created again by the
// open: it is removed when fd is closed.
func persists(fd int, req *unix.Ifreq) error {
	if err := unix.IoctlIfreq(fd, unix.TUNGETIFF, req); err != nil {
		return err
	}
	if req.Uint16()&unix.IFF_PERSIST == 0 {
		return unix.ENODEV
	}
	return nil
}

// Serve hands each packet that comes up to handle and puts back what it
// returns, until ctx ends. The packet is only valid during the call. A packet
// at which handle panics is lost.
func (d *Device) Serve(ctx context.Context, handle func(ip []byte, how state.Arrival) []Packet) error {
	stop := context.AfterFunc(ctx, func() { d.file.Close() })
	defer stop()
	frame := make([]byte, maxFrame)
	for {
		n, err := d.file.Read(frame)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from %s: %w", d.file.Name(), err)
		}
		if n <= ethernetHeader {
			continue
		}
		var answers []Packet
		d.guard.Do("packet", frame[ethernetHeader:n], func() { answers = handle(frame[ethernetHeader:n], readNote(frame)) })
		for _, p := range answers {
			// a packet that the stack refuses is lost like any other
			_ = d.Put(p)
		}
		d.served.Add(1)
	}
}

// Served counts the packets that came up and whose answers have been put back.
func (d *Device) Served() uint64 { return d.served.Load() }

// Fault describes the last packet at which handle panicked; nil if there was
// none for long.
func (d *Device) Fault() error { return d.guard.Fault() }

// Put sends a packet into the device, as Serve does with answers.
func (d *Device) Put(p Packet) error {
	if len(p.Bytes) == 0 {
		return nil
	}
	if p.Local && p.Bytes[0]>>4 == 4 {
		return d.send(p.Bytes)
	}
	frame := make([]byte, ethernetHeader, ethernetHeader+len(p.Bytes))
	copy(frame[0:6], d.mac[:])
	copy(frame[6:12], d.mac[:])
	if p.Back != 0 {
		writeBack(frame, p.Back)
	}
	frame[12], frame[13] = 0x08, 0x00
	if p.Bytes[0]>>4 == 6 {
		frame[12], frame[13] = 0x86, 0xdd
	}
	_, err := d.file.Write(append(frame, p.Bytes...))
	return err
}

// Close lets go of the device; it stays, and drops what comes.
func (d *Device) Close() error { return errors.Join(d.file.Close(), d.raw.Close()) }
