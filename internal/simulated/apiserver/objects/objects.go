// SPDX-License-Identifier: Apache-2.0

// Package objects implements the semantics of API objects on the entries of a
// store: identity, generations, subresources, finalizers, owners, namespaces, and
// field management. Errors are those of an API server.
package objects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/defaulting"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// Options is what a Store needs. Journal may be nil: then nothing outlives the
// process.
type Options struct {
	Clock   clock.PassiveClock
	Log     logr.Logger
	Journal store.Journal
}

// Store holds the objects of one cluster. It is safe for concurrent use.
type Store struct {
	raw   *store.Store
	clock clock.PassiveClock
	log   logr.Logger

	served     served
	evicting   sync.Mutex // one eviction at a time, so that each counts the last
	allocating sync.Mutex // one Service at a time, so that no two get the same
	emptying   sync.Map   // names of namespaces whose contents are being deleted now
}

// Writing defines for which manager a write is done, and how.
type Writing struct {
	Manager string // the manager of the written fields; none if empty
	Sub     string // the subresource written through
	Trusted bool   // the simulation itself: spec and status are written together
	DryRun  bool   // do everything but keep it
	// Check may refuse what is about to be stored; was is nil at creation. Nil
	// refuses nothing.
	Check func(was, next *unstructured.Unstructured) error
}

// Open returns the store kept in the journal, or a new one with the default objects
// of every cluster.
func Open(o Options) (*Store, error) {
	raw, err := store.Open(o.Journal, defaulting.Objects(), parse)
	if err != nil {
		return nil, err
	}
	s := &Store{raw: raw, clock: o.Clock, log: o.Log}
	if err := s.seed(); err != nil {
		return nil, fmt.Errorf("create the objects every cluster has: %w", err)
	}
	s.resume()
	return s, nil
}

// resume completes the deletions that the end of an earlier process has interrupted.
func (s *Store) resume() {
	exists := map[types.UID]bool{}
	for _, e := range s.raw.Select(func(e *store.Entry) bool { exists[e.UID] = true; return true }) {
		if bytes.Contains(e.Raw, []byte(`"deletionTimestamp":`)) && leaves(e) {
			if k := s.Kinds().ByGroupResource(e.Key.Resource); k != nil {
				s.empty(k, e)
			}
		}
		if !slices.ContainsFunc(e.Owners, func(owner types.UID) bool { return exists[owner] }) {
			s.collect(e)
		}
	}
}

// Entries gives access to versions and events.
func (s *Store) Entries() *store.Store { return s.raw }

// Entry returns the latest version of an object, or a NotFound error.
func (s *Store) Entry(k *kinds.Kind, namespace, name string) (*store.Entry, error) {
	e := s.raw.Get(keyOf(k, namespace, name))
	if e == nil {
		return nil, apierrors.NewNotFound(k.GroupResource(), name)
	}
	return e, nil
}

func keyOf(k *kinds.Kind, namespace, name string) store.Key {
	if !k.Namespaced {
		namespace = ""
	}
	return store.Key{Resource: k.Stored(), Namespace: namespace, Name: name}
}

// parse converts a record of the journal to an entry.
func parse(r store.Record) (*store.Entry, error) {
	var head struct {
		Metadata struct {
			UID             types.UID               `json:"uid"`
			ResourceVersion string                  `json:"resourceVersion"`
			Labels          map[string]string       `json:"labels"`
			OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(r.Object, &head); err != nil {
		return nil, err
	}
	version, err := strconv.ParseUint(head.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("resourceVersion %q: %w", head.Metadata.ResourceVersion, err)
	}
	e := &store.Entry{
		Key:     r.Key(),
		UID:     head.Metadata.UID,
		Version: version,
		Labels:  head.Metadata.Labels,
		Raw:     r.Object,
	}
	for _, o := range head.Metadata.OwnerReferences {
		e.Owners = append(e.Owners, o.UID)
	}
	return e, nil
}
