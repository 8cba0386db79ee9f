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

	"github.com/capstan-dev/capstan/internal/pure/ssadiff"
)

const (
	// The effect of a webhook on an intent may change with the webhook, which causes
	// no event for the object.
	settledFor = 10 * time.Minute
	// A refusal may be about another object, which a user fixes in the meantime.
	refusedFor = time.Minute
)

// Memory caches results about some objects between Writes. It belongs to one
// reconciled object, and its zero value is ready for use. A restart loses it, which
// costs comparisons but no writes.
type Memory struct {
	of map[object]*record
}

// object identifies an object by its name.
type object struct {
	schema.GroupKind
	client.ObjectKey
}

// Forget evicts the record of a deleted object.
func (m *Memory) Forget(obj *unstructured.Unstructured) {
	delete(m.of, object{obj.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(obj)})
}

// record is the cached result for an object. It is valid while the desired state
// and the schema are unchanged.
type record struct {
	of   *ssadiff.Type
	hash [sha256.Size]byte

	known   bool // whether the object with the following UID and version has been compared
	uid     types.UID
	version string // both are empty if the object does not exist
	refusal error  // nil if the object is as desired

	settled *ssadiff.Settled
	until   time.Time // when a refusal or the settled form expires; zero if there is neither

	remains []ssadiff.Remainder
}

// recall returns the record of an object. It returns a new one if the desired state
// has changed or the record has expired.
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

// holds reports whether the current object is recorded as having all of the desired
// fields in the form in which they were sent.
func (m *Memory) holds(wanted, live *unstructured.Unstructured, as record) bool {
	r := m.of[object{wanted.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(wanted)}]
	return r != nil && r.of == as.of && r.hash == as.hash && r.refusal == nil && r.settled == nil && r.knows(live)
}

// knows reports whether the record is about the current object, so that no
// comparison is needed.
func (r *record) knows(live *unstructured.Unstructured) bool {
	uid, version := identity(live)
	return r.known && r.uid == uid && r.version == version
}

// note records that an object is as desired.
func (r *record) note(obj *unstructured.Unstructured) {
	r.uid, r.version = identity(obj)
	r.known, r.refusal = true, nil
}

// refuse records that the desired state was refused for the current object.
func (r *record) refuse(live *unstructured.Unstructured, err error, now time.Time) error {
	r.note(live)
	r.refusal, r.until = err, now.Add(refusedFor)
	return err
}

// settle records the form in which the server stored the desired state, if that
// differs.
func (r *record) settle(s *ssadiff.Settled, now time.Time) {
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

// refused reports whether an error is about the object, so that a retry would give
// the same error.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)
}
