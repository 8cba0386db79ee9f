// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inFolder is a supervisor that listens in a folder of its own, which is the working
// directory.
func inFolder(t *testing.T) (s *supervisor, dir string) {
	t.Helper()
	// A path of more than 107 bytes, which a socket cannot have.
	dir = filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	s = &supervisor{stop: make(chan time.Duration, 1), changed: make(chan struct{})}
	if err := s.listen(); err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// launcher is a connection to a supervisor.
type launcher struct {
	*testing.T
	net.Conn
	states *json.Decoder
}

func dial(t *testing.T, dir string) launcher {
	t.Helper()
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return launcher{t, c, json.NewDecoder(c)}
}

// until reads states until one has what is awaited.
func (l launcher) until(awaited func(State) bool) State {
	l.Helper()
	for {
		var got State
		if err := l.states.Decode(&got); err != nil {
			l.Fatalf("the connection ended: %v", err)
		}
		if awaited(got) {
			return got
		}
	}
}

func TestServeSendsTheStateToAllConnections(t *testing.T) {
	s, dir := inFolder(t)
	s.note(func(st *State) { st.Running, st.PID = true, 7 })
	one, two := dial(t, dir), dial(t, dir)
	for _, l := range []launcher{one, two} { // the state that is there when they connect
		l.until(func(st State) bool { return st.Running && st.PID == 7 })
	}
	if err := one.Close(); err != nil { // this one is no longer interested
		t.Fatal(err)
	}
	s.note(func(st *State) { st.Running, st.Ended, st.ExitCode, st.Message = false, true, 3, "over" })
	want := two.until(func(st State) bool { return st.Ended })
	stored, err := ReadState(dir)
	if err != nil || want.ExitCode != 3 || stored.ExitCode != 3 || stored.Message != "over" || stored.PID != want.PID {
		t.Errorf("sent %+v, stored %+v, %v", want, stored, err)
	}
}

// TestServeTakesRequestsUntilOneCannotBeRead: that ends its connection alone.
func TestServeTakesRequestsUntilOneCannotBeRead(t *testing.T) {
	s, dir := inFolder(t)
	broken, sound := dial(t, dir), dial(t, dir)
	sound.until(func(State) bool { return true })
	for _, text := range []string{`{"Stop":false,"Grace":1}`, `{"Stop":true,"Grace":5000000000}`, "no JSON\n"} {
		if _, err := broken.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if grace := <-s.stop; grace != 5*time.Second {
		t.Errorf("a grace period of %s", grace)
	}
	for err := error(nil); err == nil; {
		err = broken.states.Decode(&State{}) // until the supervisor has closed it
	}
	s.note(func(st *State) { st.Boots = 2 })
	sound.until(func(st State) bool { return st.Boots == 2 })
	if err := json.NewEncoder(sound).Encode(Request{Stop: true}); err != nil {
		t.Fatal(err)
	}
	if grace := <-s.stop; grace != 0 {
		t.Errorf("a grace period of %s", grace)
	}
}

// TestListenReplacesTheSocketOfAnEarlierSupervisor, which did not remove it.
func TestListenReplacesTheSocketOfAnEarlierSupervisor(t *testing.T) {
	_, dir := inFolder(t)
	next := &supervisor{stop: make(chan time.Duration, 1), changed: make(chan struct{})}
	if err := next.listen(); err != nil {
		t.Fatal(err)
	}
	next.note(func(st *State) { st.PID = 9 })
	dial(t, dir).until(func(st State) bool { return st.PID == 9 })
	if _, err := Dial(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

// TestLockIsHeldByOne, and Alive reports it without taking it.
func TestLockIsHeldByOne(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), LockFile)
	alive := func(want bool) {
		t.Helper()
		if got, err := Alive(file); err != nil || got != want {
			t.Errorf("alive %t, %v, want %t", got, err, want)
		}
	}
	alive(false) // it never started
	first, err := lock(file)
	if err != nil {
		t.Fatal(err)
	}
	alive(true)
	alive(true)
	if second, err := lock(file); err == nil || !strings.Contains(err.Error(), "another supervisor has it") {
		t.Errorf("a second lock: %v, %v", second, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	alive(false)
	third, err := lock(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
}

// started is a process that runs a script, which has printed a line.
func started(t *testing.T, script string) *os.Process {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }() // only its first line counts
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has exited if the test passes
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(read).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd.Process
}

func TestAwaitStopsTheFirstProcess(t *testing.T) {
	t.Parallel()
	const obeys, ignores = `trap 'exit 5' TERM; echo; while :; do sleep 0.01; done`, `trap '' TERM; echo; while :; do sleep 0.01; done`
	for name, tc := range map[string]struct {
		script   string
		requests []time.Duration
		asked    bool
		exit     int
		signal   syscall.Signal
	}{
		"it exits":                    {"echo; exit 4", nil, false, 4, 0},
		"it is killed by another":     {"echo; kill -KILL $$", nil, false, 0, syscall.SIGKILL},
		"it obeys":                    {obeys, []time.Duration{time.Hour}, true, 5, 0},
		"it ignores the signal":       {ignores, []time.Duration{time.Millisecond}, true, 0, syscall.SIGKILL},
		"without a grace period":      {obeys, []time.Duration{0}, true, 0, syscall.SIGKILL},
		"a second request without":    {ignores, []time.Duration{time.Hour, 0}, true, 0, syscall.SIGKILL},
		"a negative grace period":     {ignores, []time.Duration{-time.Second}, true, 0, syscall.SIGKILL},
		"a second, shorter one":       {ignores, []time.Duration{time.Hour, time.Millisecond}, true, 0, syscall.SIGKILL},
		"many requests at once, last": {ignores, []time.Duration{time.Hour, time.Hour, time.Hour, 0}, true, 0, syscall.SIGKILL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &supervisor{stop: make(chan time.Duration, 1), run: Run{StopSignal: int(syscall.SIGTERM)}}
			p := started(t, tc.script)
			go func() {
				for _, grace := range tc.requests {
					s.askToStop(grace)
				}
			}()
			how, asked, err := s.await(p)
			if err != nil || asked != tc.asked || tc.signal != 0 && (!how.Signaled() || how.Signal() != tc.signal) || tc.signal == 0 && how.ExitStatus() != tc.exit {
				t.Errorf("asked %t, status %v, %v", asked, how, err)
			}
		})
	}
}

func TestStoppedWithinEndsAPauseBetweenBoots(t *testing.T) {
	t.Parallel()
	s := &supervisor{stop: make(chan time.Duration, 1)}
	if s.stoppedWithin(0) || s.stoppedWithin(time.Millisecond) {
		t.Error("stopped without a request")
	}
	s.askToStop(time.Second)
	if !s.stoppedWithin(0) {
		t.Error("a request before the pause is lost")
	}
	if s.stoppedWithin(0) {
		t.Error("one request counts twice")
	}
	go s.askToStop(time.Second)
	if !s.stoppedWithin(time.Hour) {
		t.Error("a request during the pause is lost")
	}
}

func TestAskToStopKeepsTheNewestRequest(t *testing.T) {
	t.Parallel()
	s := &supervisor{stop: make(chan time.Duration, 1)}
	for _, grace := range []time.Duration{time.Hour, time.Minute, time.Second} { // no reader: the container is still starting
		s.askToStop(grace)
	}
	if grace := <-s.stop; grace != time.Second {
		t.Errorf("a grace period of %s", grace)
	}
}
