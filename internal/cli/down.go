// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

type downOptions struct {
	dir     string
	timeout time.Duration
	force   bool
}

func newDown(env *Env, run func(context.Context, *Env, downOptions) error) *cobra.Command {
	var o downOptions
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the management plane",
		Long: `Stop the management plane that runs on the data directory, and wait for it.
Its data stays, and clusters continue to run without it. Simulated clusters are
part of its process: they do not answer while it is down, and continue with the
next "up".`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkGiven(cmd); err != nil {
				return err
			}
			return run(cmd.Context(), env, o)
		},
	}
	dataDirFlag(cmd, env, &o.dir)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "how long to wait")
	cmd.Flags().BoolVar(&o.force, "force", false, "kill it when it has not stopped in time; nothing is lost by that")
	return cmd
}

// runDown signals the process to stop and waits for the lock, not for the process:
// it is not a child of this one, and the lock is what the next start needs.
func runDown(ctx context.Context, env *Env, o downOptions) error {
	dir := datadir.Dir(o.dir)
	h, running, err := datadir.Running(dir)
	if err != nil {
		return err
	}
	if !running {
		env.Print("No management plane runs on %s", dir)
		return nil
	}
	if h.PID <= 0 {
		return fmt.Errorf("data directory %s is held, but its lock does not say by which process", dir)
	}
	begin := time.Now()
	if err := syscall.Kill(h.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop process %d: %w", h.PID, err)
	}
	err = waitReleased(ctx, dir, o.timeout)
	if errors.Is(err, context.DeadlineExceeded) && o.force {
		if err := syscall.Kill(h.PID, syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill process %d: %w", h.PID, err)
		}
		err = waitReleased(ctx, dir, lifecycle.StopTimeout)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("process %d has not stopped in %s: give it more --timeout, or kill it with --force; nothing is lost by that", h.PID, o.timeout)
	}
	if err != nil {
		return fmt.Errorf("wait for process %d to stop: %w", h.PID, err)
	}
	env.Print("Management plane stopped after %s", time.Since(begin).Round(100*time.Millisecond))
	return nil
}

// waitReleased returns when no process holds the directory any longer.
func waitReleased(ctx context.Context, dir datadir.Dir, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond) // no event reports the release of a lock
	defer tick.Stop()
	for {
		if _, running, err := datadir.Running(dir); err != nil || !running {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
