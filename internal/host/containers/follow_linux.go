// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/internal/host/containers/supervisor"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// listener receives the names of changed containers: each name once, however often
// the container changed since the last read.
type listener struct {
	names []string
	woken chan struct{} // has room for one
}

// Changes returns the names of containers whose state changes: their first process
// starts, restarts or exits for any reason. The channel is closed when ctx ends or
// the launcher is closed.
func (l *Launcher) Changes(ctx context.Context) <-chan string {
	me, out := &listener{woken: make(chan struct{}, 1)}, make(chan string)
	l.mu.Lock()
	l.listeners[me] = true
	closed := l.closed
	if !closed {
		l.followers.Add(1)
	}
	l.mu.Unlock()
	if closed {
		close(out)
		return out
	}
	go recovery.Func(ctx, func() {
		defer l.followers.Done()
		defer close(out)
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.listeners, me)
		}()
		for {
			l.mu.Lock()
			names := me.names
			me.names = nil
			l.mu.Unlock()
			for _, name := range names {
				select {
				case out <- name:
				case <-ctx.Done():
					return
				case <-l.following.Done():
					return
				}
			}
			select {
			case <-me.woken:
			case <-ctx.Done():
				return
			case <-l.following.Done():
				return
			}
		}
	})()
	return out
}

func (l *Launcher) notify(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for to := range l.listeners {
		if !slices.Contains(to.names, name) {
			to.names = append(to.names, name)
		}
		select {
		case to.woken <- struct{}{}:
		default: // it is already notified
		}
	}
}

// follow follows the supervisor of a container until it exits, with one goroutine
// per container.
func (l *Launcher) follow(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.followed[name] || l.closed {
		return
	}
	l.followed[name] = true
	l.followers.Go(recovery.Func(l.following, func() {
		l.hear(name)
		l.mu.Lock()
		delete(l.followed, name)
		l.mu.Unlock()
		if l.following.Err() != nil {
			return
		}
		l.ended(name)
	}))
}

// hear reports each state of a container except the initial one.
func (l *Launcher) hear(name string) {
	conn := l.dial(name)
	if conn == nil {
		return
	}
	stop := context.AfterFunc(l.following, recovery.Func(l.following, func() { _ = conn.Close() }))
	defer stop()
	defer func() { _ = conn.Close() }() // the supervisor exited, or the launcher is closed
	states := json.NewDecoder(conn)
	for first := true; ; first = false {
		var st supervisor.State
		if states.Decode(&st) != nil {
			return
		}
		if !first && !st.Ended { // its end is reported when the supervisor has exited
			l.notify(name)
		}
	}
}

// listening is the longest time between a supervisor's lock and its socket.
const listening = 5 * time.Second

// dial connects to a supervisor, which may have just started; nil if it exited.
func (l *Launcher) dial(name string) net.Conn {
	for deadline := time.Now().Add(listening); ; time.Sleep(10 * time.Millisecond) {
		conn, err := supervisor.Dial(l.folder(name))
		if err == nil {
			return conn
		}
		if alive, aerr := l.alive(name); aerr != nil || !alive || time.Now().After(deadline) || l.following.Err() != nil {
			if alive {
				l.options.Log.Error(err, "Hearing the supervisor of a container", "container", name)
			}
			return nil
		}
	}
}

// ended removes what an exited container left behind, and reports the change.
func (l *Launcher) ended(name string) {
	done, err := l.work(l.following, name)
	if err != nil {
		return // the launcher is closed
	}
	alive, err := l.alive(name)
	if err == nil && !alive { // else it has been started again meanwhile
		err = l.tidy(name)
	}
	done()
	if err != nil {
		l.options.Log.Error(err, "Removing what an ended container left", "container", name)
	}
	if alive {
		l.follow(name)
	}
	l.notify(name)
}
