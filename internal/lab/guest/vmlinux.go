package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// errAsItIs means that a kernel image cannot be unpacked here: boot it as it is.
var errAsItIs = errors.New("kernel image of a form not known here")

// payload finds the compressed kernel in a bzImage and the host's program that
// unpacks it; see Documentation/arch/x86/boot.rst, payload_offset. The payload
// ends with the unpacked length, which is not part of the compressed stream.
func payload(image []byte) (compressed []byte, unpacker string, err error) {
	const (
		setupSectors  = 0x1f1
		magicAt       = 0x202
		protocolAt    = 0x206
		payloadOffset = 0x248
		payloadLength = 0x24c
		headerEnd     = 0x250
		trailer       = 4
	)
	if len(image) < headerEnd || string(image[magicAt:magicAt+4]) != "HdrS" ||
		binary.LittleEndian.Uint16(image[protocolAt:]) < 0x0208 {
		return nil, "", errAsItIs
	}
	setup := uint64(or(image[setupSectors], 4)) // 0 means 4
	start := (setup+1)*512 + uint64(binary.LittleEndian.Uint32(image[payloadOffset:]))
	length := uint64(binary.LittleEndian.Uint32(image[payloadLength:]))
	if length < trailer || start+length > uint64(len(image)) {
		return nil, "", errAsItIs
	}
	compressed = image[start : start+length-trailer]
	for magic, program := range map[string]string{
		"\xfd7zXZ\x00": "xz", "\x28\xb5\x2f\xfd": "zstd", "\x1f\x8b": "gzip",
	} {
		if bytes.HasPrefix(compressed, []byte(magic)) {
			return compressed, program, nil
		}
	}
	return nil, "", errAsItIs
}

// unpackKernel writes the ELF image of a bzImage to path. Without KVM a kernel takes
// seconds to unpack itself, and its PVH entry needs no BIOS either. It returns
// errAsItIs if the image has another format or the host lacks the unpacker.
func unpackKernel(ctx context.Context, bzImage, path string) error {
	image, err := os.ReadFile(bzImage)
	if err != nil {
		return err
	}
	compressed, unpacker, err := payload(image)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath(unpacker); err != nil {
		return errAsItIs
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, unpacker, "-dc")
	cmd.Stdin, cmd.Stdout = bytes.NewReader(compressed), out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("unpack %s with %s: %w", bzImage, unpacker, err)
	}
	return out.Close()
}
