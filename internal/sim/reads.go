// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// Reads collect what a controller reads while it reconciles an object, so that the
// reconcile is not repeated while all of that stays the same. A nil *Reads collects
// nothing.
type Reads struct {
	mu    sync.Mutex // guards the rest
	exact bool       // the controller reads the whole status of Clusters
	all   []func() bool
}

// Note adds what was read: a function that reports whether it is still the same.
func (r *Reads) Note(same func() bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, same)
}

// start clears what was read, before a reconcile.
func (r *Reads) start(exact bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exact, r.all = exact, nil
}

// idle is a reconcile that wrote nothing.
type idle struct {
	reads []func() bool
	due   time.Time // when the controller requested the next one; zero if it did not
}

// holds reports whether the reconcile would write nothing now either.
func (i *idle) holds(now time.Time) bool {
	return i != nil && (i.due.IsZero() || now.Before(i.due)) && !slices.ContainsFunc(i.reads, func(same func() bool) bool { return !same() })
}

// noteGet adds an object that was read, or that it does not exist.
func (s *apiServer) noteGet(gvk schema.GroupVersionKind, key client.ObjectKey) {
	if s.reads == nil {
		return
	}
	find := func() *record {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.table(gvk).records[key]
	}
	was, exact := find(), s.reads.exact
	s.reads.Note(func() bool {
		is := find()
		if is == was {
			return true
		}
		if exact || is == nil || was == nil || !alike(is.Object, was.Object) {
			return false
		}
		was = is
		return true
	})
}

// alike reports whether two versions of a Cluster differ only in what other controllers
// than its own do not read, as the predicates of their watches declare: the part of its
// status that informs users changes all the time.
func alike(is, was client.Object) bool {
	a, isA := is.(*clusterv1.Cluster)
	b, isB := was.(*clusterv1.Cluster)
	return isA && isB && equality.Semantic.DeepEqual(decisive(*a), decisive(*b)) &&
		conditions.IsTrue(a, clusterv1.ClusterControlPlaneInitializedCondition) == conditions.IsTrue(b, clusterv1.ClusterControlPlaneInitializedCondition)
}

// decisive returns a Cluster without what does not decide.
func decisive(c clusterv1.Cluster) clusterv1.Cluster {
	c.ResourceVersion, c.ManagedFields = "", nil
	c.Status = clusterv1.ClusterStatus{Initialization: c.Status.Initialization, FailureDomains: c.Status.FailureDomains}
	return c
}

// noteList adds a list of objects.
func (s *apiServer) noteList(gvk schema.GroupVersionKind, o *client.ListOptions) {
	if s.reads == nil {
		return
	}
	read := func() (version int, selected []*record) {
		s.mu.RLock()
		version = s.table(gvk).version
		s.mu.RUnlock()
		selected = slices.DeleteFunc(s.sorted(gvk, o.Namespace), func(r *record) bool {
			is, err := s.selected(gvk, r, o)
			return err == nil && !is
		})
		return version, selected
	}
	version, was := read()
	s.reads.Note(func() bool {
		s.mu.RLock()
		is := s.table(gvk).version
		s.mu.RUnlock()
		if is == version {
			return true
		}
		now, selected := read()
		if !slices.Equal(selected, was) {
			return false
		}
		version = now
		return true
	})
}
