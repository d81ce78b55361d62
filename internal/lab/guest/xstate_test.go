package guest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestUMLGetsTheWrapperWhereTheXSAVEAreaIsLargerThanItsBuffer(t *testing.T) {
	for _, c := range []struct {
		name    string
		area    int
		static  bool
		wrapped bool
		wrong   string
	}{
		{"no XSAVE", 0, false, false, ""},
		{"AVX", 832, false, false, ""},
		{"AVX-512 and PKRU", 2696, false, false, ""},
		{"AVX-512 and PKRU, static UML", 2696, true, false, ""},
		{"AMX", 11008, false, true, ""},
		{"AMX, static UML", 11008, true, false, "of 11008 bytes is larger than UML's buffer of 2696 bytes, and /usr/bin/linux.uml is linked statically"},
		{"as much as the wrapper has room for", 65536, false, true, ""},
		{"more than the wrapper has room for", 65537, false, false, "of 65537 bytes is larger than the 65536 bytes that weft's wrapper of ptrace can fill"},
	} {
		wrapped, err := wrapperFor(c.area, !c.static, "/usr/bin/linux.uml")
		if wrapped != c.wrapped || (err != nil) != (c.wrong != "") {
			t.Errorf("%s: wrapped %v, %v; want %v, %q", c.name, wrapped, err, c.wrapped, c.wrong)
			continue
		}
		if err == nil {
			continue
		}
		if text := err.Error(); !strings.HasPrefix(text, "User-Mode Linux does not run on this CPU, because ") || !strings.Contains(text, c.wrong) {
			t.Errorf("%s: %q; want %q in it", c.name, text, c.wrong)
		}
	}
}

func TestTheSizeOfTheXSAVEAreaIsAskedOfPtrace(t *testing.T) {
	needRoot(t)
	area, err := xsaveArea("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	// legacy region 512, header 64, AVX 256
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(info), " avx ") && area < 832 || strings.Contains(string(info), " amx_tile ") != (area > 8192) {
		t.Errorf("%d bytes, on a CPU with %s", area, info)
	}
	if _, err := xsaveArea("/no/such/program"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestWhetherAProgramIsLinkedDynamicallyIsReadFromIt(t *testing.T) {
	busybox, err := program("busybox", busyboxPackage)
	if err != nil {
		t.Fatal(err)
	}
	linux, err := program("linux.uml", umlPackage)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{linux: true, busybox: false} {
		if dynamic, err := dynamicallyLinked(path); err != nil || dynamic != want {
			t.Errorf("%s: %v, %v", path, dynamic, err)
		}
	}
}

// setShortState gives a process a state whose end is missing, as UML does on a
// CPU with AMX, but shorter still (the legacy region and the header), so that
// every CPU with AVX refuses it. The state's first byte of XMM0 is another.
const setShortState = `
import ctypes, os, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_ulong, ctypes.c_void_p]
TRACEME, PEEKUSER, KILL, GETREGSET, SETREGSET, XSTATE = 0, 3, 8, 0x4204, 0x4205, 0x202
class iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_ulong)]
child = os.fork()
if child == 0:
    libc.ptrace(TRACEME, 0, 0, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
os.waitpid(child, 0)
area = ctypes.create_string_buffer(131072)
def call(request, size):
    vector = iovec(ctypes.addressof(area), size)
    r = libc.ptrace(request, child, XSTATE, ctypes.byref(vector))
    return (r, 0 if r >= 0 else ctypes.get_errno(), vector.len)
r, errno, whole = call(GETREGSET, len(area))
assert r == 0, errno
area[160] = 0x5a
area[512:520] = struct.pack("Q", struct.unpack("Q", area[512:520])[0] | 3)
r, errno, _ = call(SETREGSET, 576)
print("set", r, errno)
ctypes.memset(area, 0, len(area))
assert call(GETREGSET, len(area)) == (0, 0, whole)
print("xmm0", hex(area[160][0]))
ctypes.set_errno(0)
print("stack", libc.ptrace(PEEKUSER, child, 19 * 8, None) not in (0, -1))
print("nothing there", libc.ptrace(PEEKUSER, child, 1 << 20, None), ctypes.get_errno())
libc.ptrace(KILL, child, 0, None)
`

func TestTheWrapperFillsInTheEndOfAnXSAVEArea(t *testing.T) {
	needRoot(t)
	wrapper := filepath.Join(t.TempDir(), wrapperFile)
	if err := os.WriteFile(wrapper, ptraceWrapper, 0o500); err != nil {
		t.Fatal(err)
	}
	const eio = "nothing there -1 5\n"
	for _, c := range []struct{ name, preload, want string }{
		{"without the wrapper", "", "set -1 14\nxmm0 0x0\nstack True\n" + eio},
		{"with it", wrapper, "set 0 0\nxmm0 0x5a\nstack True\n" + eio},
	} {
		cmd := exec.Command("python3", "-c", setShortState)
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+c.preload)
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != c.want {
			t.Errorf("%s: %v\n%swant\n%s", c.name, err, out, c.want)
		}
	}
}

// floating computes in floating point in several processes at once, so that the
// guest's kernel saves and restores their state.
const floating = `for i in 1 2 3; do
	awk 'BEGIN { s = 0; for (i = 1; i <= 200000; i++) s += 1 / (i * i); printf "%.6f\n", s }' &
done; wait`

func TestAUMLGuestComputesWithTheWrapperAndWithout(t *testing.T) {
	needRoot(t)
	linux, err := program("linux.uml", umlPackage)
	if err != nil {
		t.Fatal(err)
	}
	needed, err := umlNeedsWrapper(linux)
	if err != nil {
		t.Fatal(err)
	}
	for name, wrap := range map[string]wrapping{"as this CPU needs it": wrapWhereNeeded, "wrapped": wrapAlways, "not wrapped": wrapNever} {
		t.Run(name, func(t *testing.T) {
			if wrap == wrapNever && needed {
				// what the wrapper is for: where this boots it is needed no longer
				b := newBench(t)
				m, err := Start(t.Context(), Spec{Kind: UML, Name: "g1", Dir: shortDir(t), Netns: b.path, wrap: wrap})
				if err == nil {
					t.Fatal("a guest boots that does not run on this CPU: ", m.Stop(t.Context()))
				}
				return
			}
			m := newBench(t).start(Spec{Kind: UML, Name: "g1", Dir: shortDir(t), wrap: wrap})
			want := strings.Repeat("1.644929\n", 3)
			if got := mustExec(t, m, "sh", "-c", floating); got != want {
				t.Errorf("sums of inverse squares:\n%swant\n%s", got, want)
			}
		})
	}
}
