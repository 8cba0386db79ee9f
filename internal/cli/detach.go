// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// alreadyUpTimeout is how long --detach waits for a plane that another process
// starts or stops.
const alreadyUpTimeout = 60 * time.Second

// reporter reports the progress of a start to the user, or to the waiting parent
// process.
type reporter struct {
	progress func(string)
	ready    func(line string)
	failed   func(error)
}

// report is one line on the pipe between a background process and its parent.
type report struct {
	Progress string `json:"progress,omitempty"`
	Ready    string `json:"ready,omitempty"`
	Error    string `json:"error,omitempty"`
}

// reporter writes to the terminal, or as JSON to the file descriptor.
func (e *Env) reporter(fd int) reporter {
	if fd == 0 {
		return reporter{
			progress: func(what string) { e.Say("%s", what) },
			ready:    func(line string) { e.Print("%s", line) },
			failed:   func(error) {}, // it becomes the exit status and is printed then
		}
	}
	pipe := os.NewFile(uintptr(fd), "report")
	send := func(r report) { _ = json.NewEncoder(pipe).Encode(r) } // a parent that left does not matter
	return reporter{
		progress: func(what string) { send(report{Progress: what}) },
		ready:    func(line string) { send(report{Ready: line}); _ = pipe.Close() },
		failed:   func(err error) { send(report{Error: err.Error()}); _ = pipe.Close() },
	}
}

// detach starts this program again in the background and returns when the
// plane is ready. A plane that is up already with the same flags is left as it
// is.
func detach(ctx context.Context, env *Env, o upOptions) error {
	if up, err := alreadyUp(ctx, env, o); up || err != nil {
		return err
	}
	if err := datadir.Make(datadir.Dir(o.Dir)); err != nil {
		return err
	}
	if o.logFile == "-" {
		return command.Misuse(errors.New("--log-file - has no terminal to write to with --detach"))
	}
	log, err := os.OpenFile(o.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer func() { _ = log.Close() }()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, append(o.arguments, "--report-fd=3")...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the terminal's Ctrl-C is not meant for it
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start the management plane in the background: %w", err), r.Close(), w.Close())
	}
	_ = w.Close() // else reading never ends when the child exits
	stop := context.AfterFunc(ctx, recovery.Func(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) }))
	defer stop()
	if err := follow(env, r); err != nil {
		_ = cmd.Wait() // its exit status adds nothing to err
		if up, other := alreadyUp(ctx, env, o); up || other != nil {
			return other // another start on the directory was faster
		}
		return fmt.Errorf("%w (log: %s)", err, o.log())
	}
	return cmd.Process.Release()
}

// follow prints the reports of the background process until it is ready.
func follow(env *Env, pipe io.ReadCloser) error {
	defer func() { _ = pipe.Close() }()
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		var r report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("read report of the background process: %w", err)
		}
		switch {
		case r.Error != "":
			return errors.New(strings.TrimSpace(r.Error))
		case r.Ready != "":
			env.Print("%s", r.Ready)
			return nil
		default:
			env.Say("%s", r.Progress)
		}
	}
	return errors.Join(errors.New("the management plane ended before it was ready"), lines.Err())
}

// alreadyUp reports whether a plane runs on the directory and answers, and prints
// it. It waits for one that starts, and for one that ends. The content of the lock
// does not count: that of a process which was just killed shows it as up.
func alreadyUp(ctx context.Context, env *Env, o upOptions) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, alreadyUpTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond) // no event reports that a process is up that is not our child
	defer tick.Stop()
	for dir := datadir.Dir(o.Dir); ; {
		h, running, err := datadir.Running(dir)
		if err != nil || !running {
			return false, err
		}
		if err = errors.New("it is not ready"); !h.Ready.IsZero() {
			_, _, err = askVersion(dir.Kubeconfig())
		}
		if err == nil {
			if err := o.sameAs(h); err != nil {
				return false, err
			}
			env.Print("Management plane is up since %s at https://%s, kubeconfig %s", h.Since.Format(time.RFC3339), h.Address, dir.Kubeconfig())
			return true, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false, fmt.Errorf("process %d holds %s and does not answer (%w): stop it with \"capstan down --force --data-dir %[2]s\"", h.PID, dir, err)
		}
	}
}

// sameAs returns an error unless the running plane has the flags that are
// given. What is not given may be anything.
func (o upOptions) sameAs(h datadir.Holder) error {
	for _, name := range o.given {
		asked, has := o.Flags[name], h.Flags[name]
		if asked == has || name == "listen" && asked == h.Address {
			continue
		}
		return fmt.Errorf("the management plane on %s runs with --%s %q, not %q: stop it with \"capstan down --data-dir %[1]s\" and start it again, or leave --%[2]s out", o.Dir, name, has, asked)
	}
	return nil
}
