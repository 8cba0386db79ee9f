// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// set changes the state, stores it in its file, and sends it to all connections.
func (s *supervisor) set(change func(*State)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.state)
	text, err := json.Marshal(s.state)
	if err == nil {
		if err = atomicfile.Write(StateFile, text); err != nil && overwrite(StateFile, text) == nil {
			err = nil
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return err
}

// note is set for cases in which a container must not end because a disk is full or
// broken: connections receive the state anyway.
func (s *supervisor) note(change func(*State)) { _ = s.set(change) }

// overwrite writes over the content of a file, which needs no space on most file
// systems. If the old content was longer, its end remains; readers stop before it.
func overwrite(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(append(content, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// listen opens the socket of the container in the working directory, so that its
// path is never too long.
func (s *supervisor) listen() error {
	if err := os.Remove(SocketFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket of an earlier supervisor: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: SocketFile, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen for the launcher: %w", err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the process exits
			}
			go s.serve(c)
		}
	}()
	return nil
}

// longestWrite is how long a connection may not be read: a launcher that hangs must
// not fill the memory of a supervisor.
const longestWrite = 10 * time.Second

// serve sends every state to one connection and takes requests from it.
func (s *supervisor) serve(c net.Conn) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		requests := json.NewDecoder(c)
		for {
			var r Request
			if requests.Decode(&r) != nil {
				return
			}
			if r.Stop {
				s.askToStop(r.Grace)
			}
		}
	}()
	defer func() { _ = c.Close() }() // the other side notices the end
	for {
		s.mu.Lock()
		state, changed := s.state, s.changed
		s.mu.Unlock()
		if c.SetWriteDeadline(time.Now().Add(longestWrite)) != nil || json.NewEncoder(c).Encode(state) != nil {
			return
		}
		select {
		case <-changed:
		case <-gone:
			return
		}
	}
}

// Dial connects to the supervisor of a container's folder. The path of a socket may
// have 107 bytes, so the folder is named by a descriptor.
func Dial(dir string) (net.Conn, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	defer func() { _ = unix.Close(fd) }() // opened with O_PATH
	return net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", fd, SocketFile))
}

// ReadState reads the state of a container; the zero value if it never started.
func ReadState(dir string) (State, error) {
	var st State
	text, err := os.ReadFile(filepath.Join(dir, StateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(&st)
	}
	if err != nil {
		return st, fmt.Errorf("read the state of a container: %w", err)
	}
	return st, nil
}
