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

	"github.com/capstan-dev/capstan/internal/kit/wholefile"
)

// set changes the state, keeps it in its file, and tells whoever is connected.
func (s *supervisor) set(change func(*State)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.state)
	text, err := json.Marshal(s.state)
	if err == nil {
		if err = wholefile.Write(StateFile, text); err != nil && overwrite(StateFile, text) == nil {
			err = nil
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return err
}

// note is set where a container must not end because a disk is full, or broken:
// whoever is connected is told nevertheless.
func (s *supervisor) note(change func(*State)) { _ = s.set(change) }

// overwrite writes over what a file holds, which needs no room on most file systems.
// What is longer than the new content stays behind it: who reads it stops before.
func overwrite(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(append(content, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// listen opens the socket of the container in the working directory, so that no
// path is too long for it.
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
				return // the process ends
			}
			go s.serve(c)
		}
	}()
	return nil
}

// longestWrite is how long somebody may not read what is written to him: a
// launcher that hangs must not fill the memory of a supervisor.
const longestWrite = 10 * time.Second

// serve tells one connection of every state and takes requests from it.
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
	defer func() { _ = c.Close() }() // the other side sees the end
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

// Dial connects to the supervisor of a container's folder. The path of a socket
// may have 107 bytes, so the folder is named by a descriptor.
func Dial(dir string) (net.Conn, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	defer func() { _ = unix.Close(fd) }() // it was only named
	return net.Dial("unix", magic(fd)+"/"+SocketFile)
}

// ReadState reads how far a container is; the zero value if it was never begun.
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
