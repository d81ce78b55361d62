package guest

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// archive writes the kernel's initramfs format: cpio "newc", see
// Documentation/driver-api/early-userspace/buffer-format.rst. Directories are
// written before what they hold. The first error sticks and close returns it.
type archive struct {
	w      io.Writer
	err    error
	offset int64
	inode  int
	seen   map[string]bool
}

const (
	typeDirectory = 0o040000
	typeRegular   = 0o100000
	typeSymlink   = 0o120000
)

func newArchive(w io.Writer) *archive {
	return &archive{w: w, seen: map[string]bool{".": true, "": true}}
}

func (a *archive) directory(name string) {
	name = strings.Trim(path.Clean(name), "/")
	if a.seen[name] {
		return
	}
	a.parents(name)
	a.entry(name, typeDirectory|0o755, nil)
}

func (a *archive) file(name string, mode int, content []byte) {
	name = strings.Trim(path.Clean(name), "/")
	if a.seen[name] {
		return
	}
	a.parents(name)
	a.entry(name, typeRegular|mode&0o7777, content)
}

func (a *archive) symlink(name, target string) {
	name = strings.Trim(path.Clean(name), "/")
	if a.seen[name] {
		return
	}
	a.parents(name)
	a.entry(name, typeSymlink|0o777, []byte(target))
}

func (a *archive) parents(name string) {
	if dir := path.Dir(name); dir != "." {
		a.directory(dir)
	}
}

func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, nil)
	return a.err
}

// entry writes thirteen fields of eight hex digits after the magic, the name
// with its zero, and the content, the last two each padded to four bytes.
func (a *archive) entry(name string, mode int, content []byte) {
	a.seen[name] = true
	a.inode++
	const uid, gid, links, mtime, major, minor, checksum = 0, 0, 1, 0, 0, 0, 0
	if int64(len(content)) > 0xffffffff && a.err == nil {
		a.err = fmt.Errorf("cpio entry %s: %d bytes do not fit 32 bits", name, len(content))
	}
	a.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		a.inode, mode, uid, gid, links, mtime, len(content), major, minor, major, minor, len(name)+1, checksum))
	a.write(append([]byte(name), 0))
	a.pad()
	a.write(content)
	a.pad()
}

func (a *archive) pad() { a.write(make([]byte, -a.offset&3)) }

func (a *archive) write(b []byte) {
	if a.err != nil {
		return
	}
	n, err := a.w.Write(b)
	a.offset += int64(n)
	a.err = err
}
