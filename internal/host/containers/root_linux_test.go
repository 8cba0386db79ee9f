// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/containers/supervisor"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// program is the first process of the containers of these tests: this program,
// which is the only file of their root.
const program = "/program"

// heldProgram is the copy that hold creates.
const heldProgram = "/held"

// TestMain runs this program as the containers' program, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[0] == program || os.Args[0] == heldProgram) {
		if err := inContainer(os.Args[1], os.Args[2:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// inContainer performs the actions of a program in a container.
func inContainer(what string, args []string) error {
	switch what {
	case "wait": // until it is asked to exit
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		if len(args) > 0 {
			fmt.Println(strings.Join(args, " "))
		}
		<-ended
		return nil
	case "stay": // ignores signals
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("stays")
		<-time.After(time.Hour) // without a timer, Go reports a deadlock
	case "reboot":
		if _, err := os.Stat("/rebooted"); err == nil {
			return inContainer("wait", []string{"again"})
		}
		if err := os.WriteFile("/rebooted", nil, 0o600); err != nil {
			return err
		}
		return unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	case "cat":
		for _, file := range args {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			fmt.Print(string(text))
		}
		return nil
	case "serve":
		l, err := net.Listen("tcp", args[0])
		if err != nil {
			return err
		}
		fmt.Println("serves")
		echo(l, args[1])
		return nil
	case "dial":
		patience := 10 * time.Second
		if len(args) > 1 {
			patience = 300 * time.Millisecond // no answer is expected
		}
		conn, err := net.DialTimeout("tcp", args[0], patience)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(conn)
		fmt.Print(string(text))
		return err
	case "lines":
		n, err := strconv.Atoi(args[0])
		for i := range n {
			fmt.Println("line", i)
		}
		return err
	case "nest":
		return nest()
	case "eat": // that many MiB
		n, err := strconv.Atoi(args[0])
		for all := [][]byte{}; len(all) < n; {
			all = append(all, bytes.Repeat([]byte("x"), 1<<20))
		}
		return err
	case "deep":
		if err := os.MkdirAll(filepath.Dir(args[0]), 0o755); err != nil {
			return err
		}
		return os.WriteFile(args[0], nil, 0o600)
	case "hold":
		return hold()
	case "write":
		return os.WriteFile(args[0], []byte(args[1]), 0o644)
	}
	return fmt.Errorf("%s is unknown", what)
}

// echo answers each connection with a word.
func echo(l net.Listener, word string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, word) // the other side notices missing data
		_ = conn.Close()
	}
}

// nested is set in the environment of a test that runs in a separate process.
const nested = "CAPSTAN_TEST_NESTED"

// nestedTest returns a command that runs this test in a separate process with an
// argument.
func nestedTest(t *testing.T, told string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), nested+"="+told)
	return cmd
}

// requireRoot skips a test that needs root.
func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containers need root")
	}
}

// lab is a folder of containers for one test.
type lab struct {
	*Launcher
	t    *testing.T
	dir  string
	root string // a layer with the program
}

func newLab(t *testing.T) *lab {
	t.Helper()
	requireRoot(t)
	b := &lab{t: t, dir: filepath.Join(t.TempDir(), "containers"), root: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The folders of tests may be on another file system than the program.
	text, err := os.ReadFile(self)
	if err == nil {
		err = atomicfile.WriteProgram(filepath.Join(b.root, program), text)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.open()
	t.Cleanup(b.removeAll)
	return b
}

func (b *lab) open() {
	b.t.Helper()
	l, err := Open(b.dir, Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.Launcher = l
}

// removeAll removes everything of a test, and checks that nothing is left.
func (b *lab) removeAll() {
	b.removeContainers()
	ctx := context.WithoutCancel(b.t.Context())
	all, err := b.Networks()
	for _, n := range all {
		err = errors.Join(err, b.RemoveNetwork(ctx, n.Name))
	}
	if err := errors.Join(err, b.Close()); err != nil {
		b.t.Error(err)
	}
	b.nothingLeft()
}

func (b *lab) removeContainers() {
	b.t.Helper()
	all, err := b.List()
	for _, s := range all {
		err = errors.Join(err, b.Remove(context.WithoutCancel(b.t.Context()), s.Spec.Name))
	}
	if err != nil {
		b.t.Error(err)
	}
}

// nothingLeft checks that nothing on the host carries the folder's identity, and
// that no container is in the folder.
func (b *lab) nothingLeft() {
	b.t.Helper()
	var found []string
	for _, dir := range b.groups.Dirs(groupBase(b.identity)) {
		if _, err := os.Stat(dir); err == nil {
			found = append(found, dir)
		}
	}
	if links := leftLinks(b.t, b.names); links != "" {
		found = append(found, links)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(b.dir)) {
		found = append(found, "a mount")
	}
	entries, err := os.ReadDir(filepath.Join(b.dir, containersDir))
	for _, e := range entries {
		found = append(found, e.Name())
	}
	lines, gerr := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte(supervisor.Name+"\x00"+b.identity)) {
			found = append(found, "process "+file)
		}
	}
	if err := errors.Join(err, gerr); err != nil || len(found) > 0 {
		b.t.Errorf("left: %v, %v", found, err)
	}
}

// spec returns a container that runs the program.
func (b *lab) spec(name string, args ...string) Spec {
	s := Spec{Name: name, Root: []string{b.root}, Args: append([]string{program}, args...)}
	for _, dir := range []string{"/lib", "/lib64"} { // the program may be dynamically linked
		if _, err := os.Stat(dir); err == nil {
			s.Mounts = append(s.Mounts, Mount{Source: dir, Target: dir, ReadOnly: true})
		}
	}
	return s
}

func (b *lab) start(s Spec) {
	b.t.Helper()
	if err := errors.Join(b.Create(b.t.Context(), s)); err != nil {
		b.t.Fatal(err)
	}
	if err := b.Start(b.t.Context(), s.Name); err != nil {
		b.t.Fatal(err)
	}
}

// awaitConsole waits until a container has written something.
func (b *lab) awaitConsole(name, want string) {
	b.t.Helper()
	b.await(func() error {
		text, err := os.ReadFile(filepath.Join(b.folder(name), "console.log"))
		if err == nil && !bytes.Contains(text, []byte(want)) {
			err = fmt.Errorf("the console has %q, want %q", text, want)
		}
		return err
	})
}

// await waits until check returns no error.
func (b *lab) await(check func() error) {
	b.t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			b.t.Fatal(err)
		}
	}
}
