package guest

import (
	"context"
	"os"
)

// InGuest returns the host's command that runs argv in the guest of a directory:
// with its input, outputs and exit status, and killed with it. self is as in Spec.
func InGuest(self []string, dir string, argv ...string) []string {
	command := append([]string(nil), self...)
	return append(append(command, roleExec, dir), argv...)
}

// OnConsole returns the command that connects a terminal to the console of a
// directory's guest; Ctrl-] ends it.
func OnConsole(self []string, dir string) []string {
	command := append([]string(nil), self...)
	return append(command, roleAttach, dir)
}

func attach(dir string) error {
	ctx := context.Background()
	m, err := Open(ctx, dir)
	if err != nil {
		return err
	}
	defer m.Close()
	os.Stdout.WriteString("The console of the guest; Ctrl-] leaves it.\r\n")
	return m.Attach(ctx, os.Stdin, os.Stdout)
}

func execute(dir string, argv []string) (exit int, err error) {
	ctx := context.Background()
	m, err := Open(ctx, dir)
	if err != nil {
		return -1, err
	}
	defer m.Close()
	return m.Run(ctx, Command{Argv: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
}
