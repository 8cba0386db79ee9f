// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// attempts is how often objects that cannot be written are retried, and how often the
	// migration restarts because the definition has changed meanwhile.
	attempts = 3
)

// Needed reports whether objects of the definition may be stored at another
// version than the one at which objects are stored now.
func Needed(crd *apiextensionsv1.CustomResourceDefinition) bool {
	m, _ := Of(crd)
	return m.Store
}

// Run writes every object of the definition called name, unless none can be stored at
// another version than the storage version, and then records that in its
// status.storedVersions. It returns how many objects it wrote.
//
// It reads a page of objects at a time. Objects that are deleted, or that others write
// meanwhile, need no write. Completed work is never undone: after an error, or an
// interruption, run it again. It writes only status.storedVersions of the definition, and
// that only if all objects could be written.
//
// The scheme of mgmt must include CustomResourceDefinition.
func Run(ctx context.Context, mgmt client.Client, name string) (written int, err error) {
	for attempt := 1; ; attempt++ {
		n, err := run(ctx, mgmt, name)
		written += n
		if !apierrors.IsConflict(err) || attempt == attempts {
			return written, err
		}
	}
}

// run returns a conflict if the definition has changed since it was read.
func run(ctx context.Context, mgmt client.Client, name string) (written int, err error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := mgmt.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return 0, fmt.Errorf("get CustomResourceDefinition %s: %w", name, err)
	}
	m, ok := Of(crd)
	if !m.Store {
		return 0, nil
	}
	if !ok {
		return 0, fmt.Errorf("store objects of CustomResourceDefinition %s at version %q: the API server does not serve them at it: see the conditions and spec.versions of the definition", name, m.Kind.Version)
	}
	m.Mgmt, m.Live = mgmt, mgmt
	var (
		p      Pages
		failed int
	)
	for !p.Done() {
		if err := m.Step(ctx, &p); err != nil {
			if failed++; failed == attempts || ctx.Err() != nil {
				return p.Stored, fmt.Errorf("store objects of CustomResourceDefinition %s at version %q: %w", name, m.Kind.Version, err)
			}
		}
	}
	if err := m.Note(ctx, crd); err != nil {
		return p.Stored, err
	}
	return p.Stored, nil
}
