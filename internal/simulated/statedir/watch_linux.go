// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"context"
	"encoding/binary"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// watch reports that one of some files was closed by a process that may have
// written to it, which also happens when that process was killed.
type watch struct {
	inotify *os.File
	fd      int   // of it: to read it from the file would make its reads block
	err     error // why there is none

	mu    sync.Mutex // guards all below, and fd against its end
	files map[string]int32
	names map[int32]string
}

func newWatch(tell func(id string)) *watch {
	w := &watch{files: map[string]int32{}, names: map[int32]string{}}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		w.err = os.NewSyscallError("inotify_init", err)
		return w
	}
	w.fd, w.inotify = fd, os.NewFile(uintptr(fd), "inotify") // whose reads end when it is closed
	go recovery.Func(context.Background(), func() { w.read(tell) })()
	return w
}

func (w *watch) read(tell func(id string)) {
	buf := make([]byte, 64*unix.SizeofInotifyEvent)
	for {
		n, err := w.inotify.Read(buf)
		if err != nil {
			return
		}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			number := int32(binary.NativeEndian.Uint32(buf[at:]))
			at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[at+12:]))
			w.mu.Lock()
			id, ok := w.names[number]
			w.mu.Unlock()
			if ok {
				tell(id)
			}
		}
	}
}

func (w *watch) add(id, file string) error {
	if w.err != nil {
		return w.err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	number, err := unix.InotifyAddWatch(w.fd, file, unix.IN_CLOSE_WRITE|unix.IN_ATTRIB|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF)
	if err != nil {
		return &os.PathError{Op: "watch", Path: file, Err: err}
	}
	w.files[id], w.names[int32(number)] = int32(number), id
	return nil
}

func (w *watch) remove(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if number, ok := w.files[id]; ok {
		_, _ = unix.InotifyRmWatch(w.fd, uint32(number)) // the watch is removed with its file
		delete(w.files, id)
		delete(w.names, number)
	}
}

func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inotify != nil {
		_ = w.inotify.Close() // only read
	}
	clear(w.files) // and nothing is removed any more
}
