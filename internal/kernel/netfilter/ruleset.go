package netfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// Timeout limits how long nft may take to list the ruleset.
const Timeout = 20 * time.Second

// Ruleset returns the namespace's nftables ruleset as nft's JSON, without the
// elements of sets.
func Ruleset(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	c := exec.CommandContext(ctx, "nft", "-j", "-t", "list", "ruleset")
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("nft is not installed: install the package nftables")
	}
	if err != nil {
		return nil, fmt.Errorf("list the ruleset: %w %s", err, bytes.TrimSpace(errs.Bytes()))
	}
	return out, nil
}

// Table returns one table of family inet as nft's JSON, nil if there is none.
func Table(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	c := exec.CommandContext(ctx, "nft", "-j", "list", "table", "inet", name)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("nft is not installed: install the package nftables")
	case err != nil && bytes.Contains(errs.Bytes(), []byte("No such file or directory")):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list table inet %s: %w %s", name, err, bytes.TrimSpace(errs.Bytes()))
	}
	return out, nil
}
