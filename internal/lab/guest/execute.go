package guest

import (
	"context"
	"os"
)

// InGuest gives the command that on the host stands for argv in the guest of a
// directory: with its input, outputs and exit status, and killed with it. self
// is as in Spec.
func InGuest(self []string, dir string, argv ...string) []string {
	command := append([]string(nil), self...)
	return append(append(command, roleExec, dir), argv...)
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
