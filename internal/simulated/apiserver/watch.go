// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/storage"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/listing"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

const (
	// bookmarkEvery is how often a watch without events sends a bookmark.
	bookmarkEvery = time.Minute
	// A watch without a time limit ends between once and twice this, so that
	// clients do not all reconnect together.
	watchFor = 30 * time.Minute
)

// watcher is one watch under way.
type watcher struct {
	s         *Server
	r         *request
	w         http.ResponseWriter
	options   *internalversion.ListOptions
	as        form
	sel       listing.Selection
	bookmarks bool
	version   uint64 // the client has everything up to here
	told      uint64 // the version that was last sent to the client
	headed    bool   // a table's columns have been sent
}

func (s *Server) watch(w http.ResponseWriter, r *request) error {
	as, err := acceptable(r.Header.Get("Accept"))
	if err != nil {
		return err
	}
	options, err := listOptions(r)
	if err != nil {
		return err
	}
	sel, err := listing.Select(r.kind, r.namespace, r.name, options)
	if err != nil {
		return err
	}
	o := &watcher{s: s, r: r, w: w, as: as, sel: sel, options: options, bookmarks: options.AllowWatchBookmarks}
	defer s.watches.Add(-1)
	if s.watches.Add(1) > maxWatches {
		return apierrors.NewTooManyRequests("too many watches, please try again later", 1)
	}
	initial, err := o.start()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(http.StatusOK)
	if err := o.sendInitial(initial); err != nil {
		return nil // the client has left
	}
	o.run()
	return nil
}

// start finds where the watch starts, and the objects it shows first.
func (o *watcher) start() ([]*store.Entry, error) {
	wanted, err := storage.APIObjectVersioner{}.ParseResourceVersion(o.options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	initial := o.options.SendInitialEvents
	if wanted != 0 && (initial == nil || !*initial) {
		if now := o.s.objects.Entries().Version(); wanted > now {
			// It is from another life of the cluster.
			return nil, apierrors.NewResourceExpired(fmt.Sprintf("too large resource version: %d (%d)", wanted, now))
		}
		o.version, o.told = wanted, wanted
		return nil, nil
	}
	entries, version := o.sel.Latest(o.s.objects.Entries())
	o.version, o.told = version, version
	if wanted > version {
		return nil, storage.NewTooLargeResourceVersionError(wanted, version, 1)
	}
	if initial != nil && !*initial {
		return nil, nil
	}
	return entries, nil
}

func (o *watcher) sendInitial(entries []*store.Entry) error {
	for _, e := range entries {
		if err := o.send(string(store.Added), e); err != nil {
			return err
		}
	}
	if initial := o.options.SendInitialEvents; initial != nil && *initial && o.bookmarks {
		if err := o.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"}); err != nil {
			return err
		}
	}
	return o.flush()
}

// run sends events until the client leaves or its time is over.
func (o *watcher) run() {
	limit := watchFor + rand.N(watchFor)
	if seconds := o.options.TimeoutSeconds; seconds != nil && *seconds > 0 {
		limit = time.Duration(*seconds) * time.Second
	}
	end := time.NewTimer(limit)
	defer end.Stop()
	bookmark := time.NewTicker(bookmarkEvery)
	defer bookmark.Stop()
	for {
		recheck := o.s.rechecked()
		if o.s.answer().Has(CutWatches) {
			return
		}
		events, reached, changed, err := o.s.objects.Entries().Since(o.r.kind.Stored(), o.version)
		if !o.s.admitted(o.r.Context()) {
			return
		}
		if err != nil {
			o.sendExpired()
			return
		}
		for _, ev := range events {
			if o.sendEvent(ev) != nil {
				return
			}
		}
		o.version = reached
		if len(events) > 0 && o.flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-recheck:
		case <-bookmark.C:
			if o.bookmarks && o.version > o.told && (o.bookmark(nil) != nil || o.flush() != nil) {
				return
			}
		case <-end.C:
			return
		case <-o.r.Context().Done():
			return
		case <-o.s.closed.Done():
			return
		}
	}
}

// sendEvent sends a change as it must appear to a client that sees only the objects
// it selected: one that it no longer selects is deleted for it.
func (o *watcher) sendEvent(ev store.Event) error {
	before, after := o.sel.Matches(ev.Prev), o.sel.Matches(ev.Entry)
	switch {
	case ev.Type == store.Deleted:
		if !before {
			return nil
		}
		return o.send(string(store.Deleted), ev.Entry)
	case after && !before:
		return o.send(string(store.Added), ev.Entry)
	case after:
		return o.send(string(store.Modified), ev.Entry)
	case before:
		return o.send(string(store.Deleted), ev.Entry)
	}
	return nil
}

func (o *watcher) send(event string, e *store.Entry) error {
	o.told = max(o.told, e.Version)
	if o.as != rows {
		raw, err := shown(o.r.kind, e, o.as)
		if err != nil {
			return err
		}
		return o.write(event, raw)
	}
	t, err := o.s.tableOf(o.r, []*store.Entry{e})
	if err != nil {
		return err
	}
	t.ResourceVersion = strconv.FormatUint(e.Version, 10)
	if o.headed {
		t.ColumnDefinitions = nil
	}
	o.headed = true
	raw, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return o.write(event, raw)
}

// bookmark sends the client the current version.
func (o *watcher) bookmark(annotations map[string]string) error {
	o.told = o.version
	meta := map[string]any{"resourceVersion": strconv.FormatUint(o.version, 10)}
	if annotations != nil {
		meta["annotations"] = annotations
	}
	kind, gv := o.r.kind.Kind, o.r.kind.GroupVersion().String()
	if o.as != whole {
		kind, gv = "PartialObjectMetadata", "meta.k8s.io/v1"
	}
	var told any = map[string]any{"kind": kind, "apiVersion": gv, "metadata": meta}
	if o.as == rows { // one of an object without other fields
		t, err := listing.Table(o.r.kind, []*unstructured.Unstructured{{Object: map[string]any{}}}, o.s.clock.Now())
		if err != nil {
			return err
		}
		if t.Rows[0].Object.Raw, err = json.Marshal(told); err != nil {
			return err
		}
		t.ColumnDefinitions, t.ResourceVersion = nil, strconv.FormatUint(o.version, 10)
		told = t
	}
	raw, err := json.Marshal(told)
	if err != nil {
		return err
	}
	return o.write("BOOKMARK", raw)
}

func (o *watcher) sendExpired() {
	status := statusOf(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", o.version, o.s.objects.Entries().Version())))
	raw, err := json.Marshal(status)
	if err != nil || o.write("ERROR", raw) != nil {
		return
	}
	_ = o.flush() // the watch ends either way
}

func (o *watcher) write(event string, raw []byte) error {
	_, err := fmt.Fprintf(o.w, "{\"type\":%q,\"object\":%s}\n", event, raw)
	return err
}

func (o *watcher) flush() error { return http.NewResponseController(o.w).Flush() }
