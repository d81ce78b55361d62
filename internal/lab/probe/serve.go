package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Server answers transfers on TCP and echoes datagrams on UDP.
type Server struct {
	tcp net.Listener
	udp net.PacketConn
}

// Listen opens both ports on every address. Port 0 lets the kernel choose.
func Listen(tcp, udp uint16) (*Server, error) {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", tcp))
	if err != nil {
		return nil, fmt.Errorf("listen for transfers: %w", err)
	}
	u, err := net.ListenPacket("udp", fmt.Sprintf(":%d", udp))
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("listen for datagrams: %w", err)
	}
	return &Server{tcp: l, udp: u}, nil
}

// Ports returns where it listens.
func (s *Server) Ports() Ports {
	return Ports{
		TCP: uint16(s.tcp.Addr().(*net.TCPAddr).Port),
		UDP: uint16(s.udp.LocalAddr().(*net.UDPAddr).Port),
	}
}

// Run serves until ctx ends. seed makes the bytes that downloads carry.
func (s *Server) Run(ctx context.Context, seed [32]byte) error {
	stop := context.AfterFunc(ctx, func() { s.tcp.Close(); s.udp.Close() })
	defer stop()
	var tasks sync.WaitGroup
	var echoErr error
	tasks.Go(func() { echoErr = s.echo() })
	err := s.accept(ctx, &tasks, seed)
	s.udp.Close()
	tasks.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(err, echoErr)
}

func (s *Server) echo() error {
	buffer := make([]byte, 1<<16)
	for {
		n, from, err := s.udp.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read datagram: %w", err)
		}
		// A lost reply is the client's finding, not the server's failure.
		_, _ = s.udp.WriteTo(buffer[:n], from)
	}
}

func (s *Server) accept(ctx context.Context, tasks *sync.WaitGroup, seed [32]byte) error {
	for {
		conn, err := s.tcp.Accept()
		if err != nil {
			return err
		}
		tasks.Go(func() {
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
			defer stop()
			// What goes wrong here the client sees as a cut connection.
			_ = serveTransfer(conn, seed)
		})
	}
}

// The transfer's own protocol: the client sends a 16-byte request (magic,
// direction, length); the sender sends length bytes; each side tells the other
// the SHA-256 of what it sent or got.
const magic = "weft-01"

type request struct {
	direction Direction
	length    int64
}

func (r request) marshal() []byte {
	b := append([]byte(magic), 'd')
	if r.direction == Upload {
		b[len(b)-1] = 'u'
	}
	return binary.BigEndian.AppendUint64(b, uint64(r.length))
}

func readRequest(r io.Reader) (request, error) {
	var b [16]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return request{}, err
	}
	q := request{direction: Download, length: int64(binary.BigEndian.Uint64(b[8:]))}
	if string(b[:7]) != magic || q.length < 0 || q.length > MaxTransfer {
		return request{}, fmt.Errorf("not a transfer request: %x", b)
	}
	switch b[7] {
	case 'd':
	case 'u':
		q.direction = Upload
	default:
		return request{}, fmt.Errorf("not a transfer direction: %q", b[7])
	}
	return q, nil
}

func serveTransfer(conn net.Conn, seed [32]byte) error {
	q, err := readRequest(conn)
	if err != nil {
		return err
	}
	if q.direction == Download {
		_, _, err = send(conn, q.length, seed, 0)
	} else {
		_, _, err = receive(conn, q.length, 0)
	}
	return err
}
