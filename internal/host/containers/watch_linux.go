// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/rootfs"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Watch sends when a file of a container may have appeared or changed: at least
// once after each change, and once at the start if the file exists. It continues
// when the container reboots or is started again, and ends with ctx or when the
// launcher is closed.
func (l *Launcher) Watch(ctx context.Context, name, file string) (<-chan struct{}, error) {
	if !path.IsAbs(file) || path.Clean(file) != file || file == "/" {
		return nil, fmt.Errorf("watch %s of container %s: it is no absolute, clean path of a file", file, name)
	}
	if _, err := l.spec(name); err != nil {
		return nil, fmt.Errorf("watch %s of container %s: %w", file, name, err)
	}
	if err := l.watches.open(); err != nil {
		return nil, fmt.Errorf("watch %s of container %s: %w", file, name, err)
	}
	changes := l.Changes(ctx)
	w := &watch{file: file, number: -1, woken: make(chan struct{}, 1)}
	out := make(chan struct{}, 1)
	go recovery.Func(ctx, func() {
		defer close(out)
		defer l.watches.drop(w)
		for {
			if there := l.arm(name, w); there {
				select {
				case out <- struct{}{}:
				default: // the last one has not been received
				}
			}
			for woken := false; !woken; {
				select {
				case <-w.woken:
					woken = true
				case changed, ok := <-changes:
					if !ok {
						return
					}
					woken = changed == name
				}
			}
		}
	})()
	return out, nil
}

// arm watches the folder of a file, or the deepest existing folder on its path, and
// reports whether the file exists. If the container does not run, nothing is
// watched.
func (l *Launcher) arm(name string, w *watch) (there bool) {
	root, err := l.openRoot(name)
	if err != nil {
		return false // its start is a change
	}
	defer func() { _ = unix.Close(root) }() // opened with O_PATH
	for {
		folder, awaited, err := deepest(root, w.file)
		if err != nil {
			return false
		}
		err = l.watches.add(w, folder, awaited)
		_ = unix.Close(folder) // opened with O_PATH
		if err != nil {
			l.options.Log.Error(err, "Watching a file of a container", "container", name, "file", w.file)
			return false
		}
		// This finds what was created before the watch was added.
		again, next, err := deepest(root, w.file)
		if err != nil {
			return false
		}
		_ = unix.Close(again) // opened with O_PATH
		if next == awaited {
			break
		}
	}
	fd, err := rootfs.Inside(root, w.file, unix.O_PATH)
	if err == nil {
		_ = unix.Close(fd) // opened with O_PATH
	}
	return err == nil
}

// deepest opens the deepest existing folder on the path of a file, and returns the
// name that is awaited in it.
func deepest(root int, file string) (folder int, awaited string, err error) {
	for dir, name := path.Split(file); ; dir, name = path.Split(strings.TrimSuffix(dir, "/")) {
		fd, err := rootfs.Inside(root, dir, unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			return fd, name, nil
		}
		if dir == "/" || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			return -1, "", err
		}
	}
}

// watch is one file that a caller awaits.
type watch struct {
	file  string
	woken chan struct{} // has room for one

	number  int    // the kernel's number of the watch; -1 is none
	awaited string // the name in the watched folder
}

// watches are all watches of a launcher. They share one instance of inotify, of
// which a host has few.
type watches struct {
	mu     sync.Mutex // guards the fields below, and number and awaited of each watch
	file   *os.File
	by     map[int]map[*watch]bool
	reader sync.WaitGroup
}

func (w *watches) open() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil {
		return nil
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if errors.Is(err, unix.EMFILE) {
		return errors.New("the host has no inotify instance left: raise the sysctl fs.inotify.max_user_instances")
	}
	if err != nil {
		return fmt.Errorf("make an inotify instance: %w", err)
	}
	w.file, w.by = os.NewFile(uintptr(fd), "inotify"), map[int]map[*watch]bool{}
	file := w.file
	w.reader.Go(recovery.Func(context.Background(), func() { w.read(file) }))
	return nil
}

func (w *watches) close() error {
	w.mu.Lock()
	file := w.file
	w.mu.Unlock()
	if file == nil {
		return nil
	}
	err := file.Close()
	w.reader.Wait()
	return err
}

// add watches a folder for a watch, instead of its previous one.
func (w *watches) add(one *watch, folder int, awaited string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	const mask = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_CLOSE_WRITE | unix.IN_MODIFY | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	var number int
	err := control(w.file, func(fd int) (err error) {
		number, err = unix.InotifyAddWatch(fd, fmt.Sprintf("/proc/self/fd/%d", folder), mask)
		return err
	})
	if err != nil {
		return fmt.Errorf("add an inotify watch: %w", err)
	}
	if number != one.number {
		w.forget(one)
	}
	if w.by[number] == nil {
		w.by[number] = map[*watch]bool{}
	}
	w.by[number][one] = true
	one.number, one.awaited = number, awaited
	return nil
}

func (w *watches) drop(one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(one)
}

// forget ends the kernel's watch of a folder unless other watches use it. The
// caller holds mu.
func (w *watches) forget(one *watch) {
	others := w.by[one.number]
	delete(others, one)
	if len(others) == 0 && one.number >= 0 {
		delete(w.by, one.number)
		// It may have been removed with its folder.
		_ = control(w.file, func(fd int) error { _, err := unix.InotifyRmWatch(fd, uint32(one.number)); return err })
	}
	one.number = -1
}

// control uses the descriptor of a file, which is not closed meanwhile.
func control(f *os.File, do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(conn.Control(func(fd uintptr) { err = do(int(fd)) }), err)
}

// read reads the kernel's events until the instance is closed.
func (w *watches) read(file *os.File) {
	buffer := make([]byte, 64<<10) // some hundreds of events
	for {
		n, err := file.Read(buffer)
		if err != nil {
			return
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			number, mask := int(int32(binary.NativeEndian.Uint32(rest))), binary.NativeEndian.Uint32(rest[4:])
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:size], "\x00"))
			rest = rest[size:]
			w.notify(number, mask, name)
		}
	}
}

// notify notifies the watches that await a name in a folder: all those of a folder
// that was removed, and all if the kernel's queue overflowed.
func (w *watches) notify(number int, mask uint32, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, all := range w.by {
		for one := range all {
			if mask&unix.IN_Q_OVERFLOW != 0 || n == number && (name == "" || name == one.awaited) {
				select {
				case one.woken <- struct{}{}:
				default: // it is already notified
				}
			}
		}
	}
	if mask&unix.IN_IGNORED != 0 { // the kernel may reuse the number for another folder
		for one := range w.by[number] {
			one.number = -1
		}
		delete(w.by, number)
	}
}
