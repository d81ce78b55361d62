package guest

// message is one line of JSON on the control line, in both directions:
// client <-> supervisor over a unix socket, supervisor <-> agent over a serial
// line. IDs are the client's own; the supervisor renumbers them.
type message struct {
	ID uint64 `json:"id,omitempty"`

	// to the guest
	Run  []string `json:"run,omitempty"`  // start this command
	Kill bool     `json:"kill,omitempty"` // end the command ID
	In   []byte   `json:"in,omitempty"`   // its input; the next follows when Took says so
	EOF  bool     `json:"eof,omitempty"`  // its input ends

	// from the guest
	Out   []byte `json:"out,omitempty"`   // standard output of the command ID
	Err   []byte `json:"err,omitempty"`   // standard error
	Took  bool   `json:"took,omitempty"`  // its last In was passed on
	Exit  *int   `json:"exit,omitempty"`  // it ended; 128+n after signal n
	Error string `json:"error,omitempty"` // it could not start; without ID: the guest could not
	Ready bool   `json:"ready,omitempty"` // the guest is set up
	Stage string `json:"stage,omitempty"` // what it does until then

	Reboot bool `json:"reboot,omitempty"` // from the guest: it ends now, and is to be started again
	Reset  bool `json:"reset,omitempty"`  // from a client to the supervisor: the same without the guest's doing

	// from the supervisor
	Died string `json:"died,omitempty"` // the kernel's process ended, and how
}

// restartsNow is the error of a command that was running when its guest restarted.
const restartsNow = "the guest restarts"

// The files of a guest's directory.
const (
	consoleSocket = "console" // attach here
	controlSocket = "control" // messages
	consoleLog    = "console.log"
	specFile      = "guest.json"  // what the agent reads in the guest
	launchFile    = "launch.json" // what the supervisor starts
	pidFile       = "pid"         // the supervisor's, in the host's numbering
	scratchDir    = "scratch"     // where the supervisor mounts a tmpfs
	initrdFile    = "initrd"
	kernelFile    = "vmlinux"
	diskFile      = "disk" // of HostRoot, on the scratch
)
