package guest

// message is one line of JSON on the control line, in both directions:
// client <-> supervisor over a unix socket, supervisor <-> agent over a serial
// line. IDs are the client's own; the supervisor renumbers them.
type message struct {
	ID uint64 `json:"id,omitempty"`

	// to the guest
	Run  []string `json:"run,omitempty"`  // start this command
	Kill bool     `json:"kill,omitempty"` // end the command ID

	// from the guest
	Data  []byte `json:"data,omitempty"`  // output of the command ID
	Exit  *int   `json:"exit,omitempty"`  // it ended; 128+n after signal n
	Error string `json:"error,omitempty"` // it could not start; without ID: the guest could not
	Ready bool   `json:"ready,omitempty"` // the guest is set up

	// from the supervisor
	Died string `json:"died,omitempty"` // the kernel's process ended, and how
}

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
)
