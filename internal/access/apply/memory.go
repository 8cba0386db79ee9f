// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/pure/topology/intent"
)

const (
	// What a webhook makes of an intent may change with the webhook, of which
	// nothing tells.
	settledFor = 10 * time.Minute
	// A refusal may be about another object, which a user mends in the meantime.
	refusedFor = time.Minute
)

// Memory is what is known of some objects from one Write to the next. It
// belongs to one reconciled object, and its zero value is ready; a restart
// forgets it, which costs comparisons and no writes.
type Memory struct {
	of map[object]*record
}

// object is an object by its name.
type object struct {
	schema.GroupKind
	client.ObjectKey
}

// Forget drops what is known of an object that is deleted.
func (m *Memory) Forget(obj *unstructured.Unstructured) {
	delete(m.of, object{obj.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(obj)})
}

// record is what is known of an object, as long as the same is wanted of it by
// the same schema.
type record struct {
	of   *intent.Type
	hash [sha256.Size]byte

	known   bool // how the object is that has the following UID and version
	uid     types.UID
	version string // both are empty of an object that is not there
	refusal error  // nil if it is as wanted

	settled *intent.Settled
	until   time.Time // a refusal or what is settled ends then; zero if there is neither

	remains []intent.Remainder
}

// recall returns what is known of an object. If something else is wanted by now,
// or its time is over, that is nothing.
func (m *Memory) recall(wanted *unstructured.Unstructured, as record, now time.Time) *record {
	key := object{wanted.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(wanted)}
	r := m.of[key]
	if r == nil || r.of != as.of || r.hash != as.hash {
		r = &as
	} else if !r.until.IsZero() && !now.Before(r.until) {
		as.remains = r.remains
		r = &as
	}
	if m.of == nil {
		m.of = map[object]*record{}
	}
	m.of[key] = r
	return r
}

// holds reports whether it is known that an object, as it is, has all that is wanted
// in the form in which it was sent.
func (m *Memory) holds(wanted, live *unstructured.Unstructured, as record) bool {
	r := m.of[object{wanted.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(wanted)}]
	return r != nil && r.of == as.of && r.hash == as.hash && r.refusal == nil && r.settled == nil && r.knows(live)
}

// knows reports whether there is nothing to be done about the object as it is.
func (r *record) knows(live *unstructured.Unstructured) bool {
	uid, version := identity(live)
	return r.known && r.uid == uid && r.version == version
}

// note remembers that an object is as wanted.
func (r *record) note(obj *unstructured.Unstructured) {
	r.uid, r.version = identity(obj)
	r.known, r.refusal = true, nil
}

// refuse remembers that what is wanted of an object as it is was refused.
func (r *record) refuse(live *unstructured.Unstructured, err error, now time.Time) error {
	r.note(live)
	r.refusal, r.until = err, now.Add(refusedFor)
	return err
}

// settle remembers what the server made of what is wanted, if anything else.
func (r *record) settle(s *intent.Settled, now time.Time) {
	r.settled, r.until = s, time.Time{}
	if s != nil {
		r.until = now.Add(settledFor)
	}
}

func identity(obj *unstructured.Unstructured) (types.UID, string) {
	if obj == nil {
		return "", ""
	}
	return obj.GetUID(), obj.GetResourceVersion()
}

func hashOf(wanted *unstructured.Unstructured) (hash [sha256.Size]byte, err error) {
	text, err := json.Marshal(wanted)
	return sha256.Sum256(text), err
}

// refused reports whether an error is about the object, so that the same again
// gives the same.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)
}
