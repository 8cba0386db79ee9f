// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

// run runs the program in a container and returns what it wrote.
func (b *lab) run(name string, args ...string) (string, int) {
	b.t.Helper()
	var out bytes.Buffer
	code, err := b.Exec(b.t.Context(), name, append([]string{program}, args...), Streams{Out: &out, Err: &out})
	if err != nil {
		b.t.Fatal(err)
	}
	return out.String(), code
}

func TestACommandRunsInTheContainerAndItsCodeComesBack(t *testing.T) {
	b := newLab(t)
	s := b.spec("one", "wait")
	s.Hostname = "inside"
	s.Shadows = map[string][]byte{"/proc/sys/kernel/random/boot_id": []byte("mine\n")}
	b.start(s)
	for what, tc := range map[string]struct {
		args []string
		want string
		code int
	}{
		"its hostname":       {[]string{"cat", "/proc/sys/kernel/hostname"}, "inside\n", 0},
		"a shadow":           {[]string{"cat", "/proc/sys/kernel/random/boot_id"}, "mine\n", 0},
		"no such file":       {[]string{"cat", "/nothing"}, "open /nothing: no such file or directory\n", 1},
		"the host's setting": {[]string{"write", "/proc/sys/kernel/panic", "1"}, "open /proc/sys/kernel/panic: read-only file system\n", 1},
		"its own setting":    {[]string{"write", "/proc/sys/net/ipv4/ip_forward", "1"}, "", 0},
		"its groups":         {[]string{"cat", "/proc/self/cgroup"}, "", 0},
	} {
		got, code := b.run("one", tc.args...)
		if what == "its groups" {
			if strings.Contains(got, b.identity) {
				t.Errorf("%s: it sees %s", what, got)
			}
			continue
		}
		if got != tc.want || code != tc.code {
			t.Errorf("%s: got %q, %d", what, got, code)
		}
	}
}

func TestACommandEndsWithItsContext(t *testing.T) {
	b := newLab(t)
	b.start(b.spec("one", "wait"))
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	var out signalling
	out.wrote = make(chan struct{})
	go func() {
		_, err := b.Exec(ctx, "one", []string{program, "stay"}, Streams{Out: &out})
		ended <- err
	}()
	<-out.wrote
	why := errors.New("enough")
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// signalling tells when something is written.
type signalling struct{ wrote chan struct{} }

func (s *signalling) Write(b []byte) (int, error) {
	close(s.wrote)
	return len(b), nil
}

func TestACommandNeedsAContainerThatRuns(t *testing.T) {
	b := newLab(t)
	if err := b.Create(t.Context(), b.spec("one", "wait")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Exec(t.Context(), "one", []string{program}, Streams{}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("got %v", err)
	}
	if _, err := b.Exec(t.Context(), "two", []string{program}, Streams{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
