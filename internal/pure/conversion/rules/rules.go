// SPDX-License-Identifier: Apache-2.0

// Package rules holds the common parts of the conversions of all groups: pointers whose
// other version has a value, durations, references, and the annotation that restores
// fields that an older version does not have.
//
// Up is from an older version to the hub, which is what is stored; down is the reverse.
// A value can be moved from source to result: Define passes a copy to every conversion.
package rules

import (
	"fmt"
	"math"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Meant converts a plain value of an older version to the hub's pointer. The older
// version cannot distinguish zero from unset, so a zero counts only if the hub had one
// there before it was converted down.
func Meant[T comparable](v T, kept *T) *T {
	var zero T
	if v != zero || kept != nil && *kept == zero {
		return &v
	}
	return nil
}

// Value is what a pointer refers to, zero if it is nil.
func Value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Pointer is nil for a zero value. An empty list or map is not zero, as it differs from
// an absent one.
func Pointer[T any](v T) *T {
	if IsZero(v) {
		return nil
	}
	return &v
}

// IsZero reports whether a value is unset; an empty list or map counts as set.
func IsZero[T any](v T) bool { return reflect.ValueOf(&v).Elem().IsZero() }

// Time is the hub's form of a time that may be missing.
func Time(t *metav1.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return *t
}

// TimePointer is the older form of a time that may be missing.
func TimePointer(t metav1.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Seconds are the whole seconds of a duration that may be missing.
func Seconds(d *metav1.Duration) *int32 {
	if d == nil {
		return nil
	}
	return new(seconds(*d))
}

// SecondsOf are the whole seconds of a duration, which cannot be missing.
func SecondsOf(d metav1.Duration) *int32 { return new(seconds(d)) }

// seconds truncates to whole seconds. An int32 holds 68 years; a longer duration is
// limited to that.
func seconds(d metav1.Duration) int32 {
	return int32(min(max(int64(d.Duration/time.Second), math.MinInt32), math.MaxInt32))
}

// Duration is a duration in seconds, nil if they are.
func Duration(seconds *int32) *metav1.Duration {
	if seconds == nil {
		return nil
	}
	return new(DurationOf(seconds))
}

// DurationOf is a duration in seconds, zero without them.
func DurationOf(seconds *int32) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(Value(seconds)) * time.Second}
}

// TimeoutsUp converts the timeouts of a deletion.
func TimeoutsUp(t clusterv1beta1.NodeTimeouts) clusterv1.MachineDeletionSpec {
	return clusterv1.MachineDeletionSpec{
		NodeDrainTimeoutSeconds:        Seconds(t.NodeDrainTimeout),
		NodeVolumeDetachTimeoutSeconds: Seconds(t.NodeVolumeDetachTimeout),
		NodeDeletionTimeoutSeconds:     Seconds(t.NodeDeletionTimeout),
	}
}

// TimeoutsDown is the reverse of TimeoutsUp.
func TimeoutsDown(d clusterv1.MachineDeletionSpec) clusterv1beta1.NodeTimeouts {
	return clusterv1beta1.NodeTimeouts{
		NodeDrainTimeout:        Duration(d.NodeDrainTimeoutSeconds),
		NodeVolumeDetachTimeout: Duration(d.NodeVolumeDetachTimeoutSeconds),
		NodeDeletionTimeout:     Duration(d.NodeDeletionTimeoutSeconds),
	}
}

// List converts each element of a list; a nil list stays nil, and an empty one empty.
func List[A, B any](in []A, convert func(from *A, to *B)) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i := range in {
		convert(&in[i], &out[i])
	}
	return out
}

// Rebuilt is List, except that an empty list becomes nil.
func Rebuilt[A, B any](in []A, convert func(from *A, to *B)) []B {
	if len(in) == 0 {
		return nil
	}
	return List(in, convert)
}

// TryList is List with conversions that can fail; it stops at the first error.
func TryList[A, B any](in []A, convert func(from *A, to *B) error) (out []B, err error) {
	return List(in, func(from *A, to *B) {
		if err == nil {
			err = convert(from, to)
		}
	}), err
}

// At is the element at an index, zero if the list is shorter.
func At[T any](list []T, i int) (v T) {
	if i < len(list) {
		v = list[i]
	}
	return v
}

// Find is the first element that matches, zero without one.
func Find[T any](list []T, is func(*T) bool) (v T) {
	for i := range list {
		if is(&list[i]) {
			return list[i]
		}
	}
	return v
}

// Lookup returns the apiVersion of references to a kind in versions that have one there:
// that of the newest contract with which the kind's CustomResourceDefinition is labeled.
type Lookup func(schema.GroupKind) (apiVersion string, err error)

// ReferenceUp retains the parts of a reference that identify the object. Namespace,
// version and the rest are dropped.
func ReferenceUp(field string, ref *corev1.ObjectReference) (clusterv1.ContractVersionedObjectReference, error) {
	if ref == nil {
		return clusterv1.ContractVersionedObjectReference{}, nil
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return clusterv1.ContractVersionedObjectReference{}, fmt.Errorf("%s.apiVersion: %w", field, err)
	}
	return clusterv1.ContractVersionedObjectReference{APIGroup: gv.Group, Kind: ref.Kind, Name: ref.Name}, nil
}

// ReferenceDown completes a reference with the version that lookup returns and with the
// namespace of the referring object. An empty reference stays empty.
func ReferenceDown(field string, ref clusterv1.ContractVersionedObjectReference, namespace string, lookup Lookup) (*corev1.ObjectReference, error) {
	if !ref.IsDefined() {
		return nil, nil
	}
	apiVersion, err := lookup(ref.GroupKind())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return &corev1.ObjectReference{APIVersion: apiVersion, Kind: ref.Kind, Name: ref.Name, Namespace: namespace}, nil
}
