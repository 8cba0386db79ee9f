// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package statedir

import (
	"context"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// watch checks every second as long as a caller waits: here the system does not
// report that a file was closed by a process that was killed.
type watch struct {
	tell func(id string)

	mu    sync.Mutex // guards all below
	ids   map[string]bool
	timer *time.Timer
}

func newWatch(tell func(id string)) *watch { return &watch{tell: tell, ids: map[string]bool{}} }

func (w *watch) add(id, _ string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids[id] = true
	if w.timer == nil {
		w.timer = time.AfterFunc(time.Second, recovery.Func(context.Background(), w.look))
	}
	return nil
}

func (w *watch) look() {
	w.mu.Lock()
	var ids []string
	for id := range w.ids {
		ids = append(ids, id)
	}
	w.timer = nil
	if len(ids) > 0 {
		w.timer = time.AfterFunc(time.Second, recovery.Func(context.Background(), w.look))
	}
	w.mu.Unlock()
	for _, id := range ids {
		w.tell(id)
	}
}

func (w *watch) remove(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ids, id)
}

func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.ids)
}
