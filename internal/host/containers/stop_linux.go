// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/capstan-dev/capstan/internal/host/containers/supervisor"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// answerTime is how long a supervisor may take after the grace period to kill the
// processes, which takes milliseconds.
const answerTime = 15 * time.Second

// Stop asks the first process of a container to exit, and kills it after the grace
// period. It succeeds if the container does not run.
func (l *Launcher) Stop(ctx context.Context, name string, grace time.Duration) error {
	done, err := l.work(ctx, name)
	if err != nil {
		return err
	}
	defer done()
	if _, err := l.spec(name); err != nil {
		return fmt.Errorf("stop container %s: %w", name, err)
	}
	alive, err := l.alive(name)
	if err == nil && alive {
		err = l.askToStop(ctx, name, max(grace, 0))
	}
	if err == nil {
		err = l.tidy(name) // ends what did not exit
	}
	if err != nil {
		return fmt.Errorf("stop container %s: %w", name, err)
	}
	return nil
}

// askToStop returns when the supervisor of a container has exited, or does not
// answer. It is an error only if ctx ends first.
func (l *Launcher) askToStop(ctx context.Context, name string, grace time.Duration) error {
	conn, err := supervisor.Dial(l.folder(name))
	if err != nil {
		return nil // it has just exited, or exited before it listened
	}
	defer func() { _ = conn.Close() }() // everything was written
	stop := context.AfterFunc(ctx, recovery.Func(ctx, func() { _ = conn.Close() }))
	defer stop()
	if json.NewEncoder(conn).Encode(supervisor.Request{Stop: true, Grace: grace}) == nil {
		_ = conn.SetReadDeadline(time.Now().Add(grace + answerTime)) // local connections support it
		_, _ = io.Copy(io.Discard, conn)                             // it ends with the supervisor
	}
	return context.Cause(ctx)
}

// Remove ends a container immediately and removes everything of it. The container
// may not exist.
func (l *Launcher) Remove(ctx context.Context, name string) error {
	if !label.MatchString(name) {
		return fmt.Errorf("remove container %s: it is no DNS label, so there is none", name)
	}
	done, err := l.work(ctx, name)
	if err != nil {
		return err
	}
	defer done()
	if err := l.remove(name); err != nil {
		return fmt.Errorf("remove container %s: %w", name, err)
	}
	return nil
}

func (l *Launcher) remove(name string) error {
	if err := l.tidy(name); err != nil {
		return err
	}
	l.reached("tidied")
	// Renamed first, it is no longer a container after an interruption at any step.
	old := filepath.Join(l.dir, containersDir, oldPrefix+name)
	l.discard(old)
	if err := os.Rename(l.folder(name), old); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	l.reached("folder put aside")
	l.discard(old)
	return nil
}
