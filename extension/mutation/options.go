// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// Option configures a walk or a patch.
type Option func(*options)

type options struct {
	failFast  bool
	patchType hooksv1.PatchType
}

// FailFast ends a walk at the first error. Without it all items are visited and
// all errors returned.
func FailFast() Option { return func(o *options) { o.failFast = true } }

// MergePatches selects JSON merge patches, which are easier to read, replace
// lists as a whole and cannot set a field to null: a change that does is an
// error.
func MergePatches() Option {
	return func(o *options) { o.patchType = hooksv1.JSONMergePatchType }
}

func complete(opts []Option) options {
	o := options{patchType: hooksv1.JSONPatchType}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}
