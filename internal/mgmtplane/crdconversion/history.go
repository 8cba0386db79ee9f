// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"maps"
	"runtime"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// history is the latest version that a watch has read of each object. A watch cache
// stores everything that was written in the last 75 seconds or more, each time the
// whole object, of which a write changes little: unchanged parts are stored once.
//
// It evicts an object when nothing else refers to it any longer.
type history struct {
	mu   sync.Mutex
	last map[types.UID]read
	n    uint64 // how many were read
}

// read is an object. Its decoder sets its resource version afterwards, so the maps
// that contain it are copies.
type read struct {
	n      uint64
	object map[string]any
}

// add makes an object that was just decoded share the unchanged parts with the
// version before it. Objects from a watch are never changed: caches share them
// among many readers.
func (h *history) add(u *unstructured.Unstructured) {
	uid := u.GetUID()
	metadata, ok := u.Object["metadata"].(map[string]any)
	if uid == "" || !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if was := h.last[uid].object; was != nil {
		share(metadata, was["metadata"])
		delete(was, "metadata")
		share(u.Object, was)
	}
	if h.last == nil {
		h.last = map[types.UID]read{}
	}
	h.n++
	object := maps.Clone(u.Object)
	object["metadata"] = maps.Clone(metadata)
	h.last[uid] = read{h.n, object}
	n := h.n
	runtime.AddCleanup(u, func(uid types.UID) { h.forget(uid, n) }, uid)
}

func (h *history) forget(uid types.UID, n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last[uid].n == n {
		delete(h.last, uid)
	}
}

// share returns was, and true, if both are equal. If not, it replaces the equal
// parts of now by those of was.
func share(now, was any) (any, bool) {
	switch n := now.(type) {
	case map[string]any:
		w, ok := was.(map[string]any)
		if !ok {
			return now, false
		}
		same := len(n) == len(w)
		for k, v := range n {
			old, found := w[k]
			if !found {
				same = false
				continue
			}
			part, equal := share(v, old)
			if equal {
				n[k] = part
			}
			same = same && equal
		}
		if same {
			return was, true
		}
		return now, false
	case []any:
		w, ok := was.([]any)
		if !ok {
			return now, false
		}
		same := len(n) == len(w)
		for i := range min(len(n), len(w)) {
			part, equal := share(n[i], w[i])
			if equal {
				n[i] = part
			}
			same = same && equal
		}
		if same {
			return was, true
		}
		return now, false
	}
	return was, now == was
}
