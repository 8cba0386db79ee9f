// SPDX-License-Identifier: Apache-2.0

package crdmigrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/migration"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
)

// soon is the delay before the next page: other definitions are handled in between.
const soon = time.Millisecond

// Reconciler has what the controller needs from outside. All fields but Skip are
// required; Setup checks them.
type Reconciler struct {
	Name string        // of the controller
	Mgmt client.Client // the management cluster
	Live client.Reader // the same, past the cache
	// Definitions are the names of the CustomResourceDefinitions whose objects are
	// migrated.
	Definitions []string
	// Skip are phases that are skipped.
	Skip     Phases
	Recorder events.EventRecorder

	controller.Memory[progress]
}

// progress is the progress of a definition. It does not survive a restart.
type progress struct {
	generation int64
	migration.Pages
}

// Setup registers the controller.
func (r *Reconciler) Setup(_ context.Context, mgr ctrl.Manager) error {
	if r.Name == "" || r.Mgmt == nil || r.Live == nil || len(r.Definitions) == 0 || r.Recorder == nil {
		return errors.New("crdmigrator: Name, Mgmt, Live, Definitions and Recorder are required")
	}
	if r.Skip.has(StorageVersionMigration) && r.Skip.has(CleanupManagedFields) {
		return nil
	}
	// One at a time: no client waits for a migration, and other controllers have to
	// write as well.
	return controller.For(mgr, r.Name, Definition(), predicate.NewPredicateFuncs(r.due)).Unfiltered().Concurrency(1).Complete(r)
}

// Definition returns an empty object of the kind of the controller, of which only
// the metadata is read.
func Definition() *metav1.PartialObjectMetadata {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return crd
}

// due reports whether a definition has changed since its objects were migrated.
func (r *Reconciler) due(crd client.Object) bool {
	return slices.Contains(r.Definitions, crd.GetName()) && crd.GetDeletionTimestamp().IsZero() &&
		crd.GetAnnotations()[clusterv1.CRDMigrationObservedGenerationAnnotation] != strconv.FormatInt(crd.GetGeneration(), 10)
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, seen *metav1.PartialObjectMetadata) (ctrl.Result, error) {
	if !r.due(seen) {
		return ctrl.Result{}, nil
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(seen), crd); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(fmt.Errorf("get CustomResourceDefinition %s: %w", seen.Name, err))
	}
	m, ok := r.plan(crd)
	if !ok || !r.due(crd) { // its next change triggers a reconcile
		return ctrl.Result{}, nil
	}
	p := r.Get(crd)
	if p.generation != crd.Generation {
		p = progress{generation: crd.Generation}
	}
	if m.Store || m.Clean {
		before := p.Pages
		err := m.Step(ctx, &p.Pages)
		count(m.Kind, p.Stored-before.Stored, p.Cleaned-before.Cleaned)
		r.Set(crd, p)
		if err != nil {
			return ctrl.Result{}, fmt.Errorf("migrate objects of CustomResourceDefinition %s: %w", crd.Name, err)
		}
		if !p.Done() {
			ctrl.LoggerFrom(ctx).V(2).Info("Continuing with the next page of objects", "stored", p.Stored, "cleaned", p.Cleaned)
			return ctrl.Result{RequeueAfter: soon}, nil
		}
	}
	return ctrl.Result{}, r.finish(ctx, crd, m, p)
}

// plan returns the migration of a definition, unless its kind cannot be requested.
func (r *Reconciler) plan(crd *apiextensionsv1.CustomResourceDefinition) (m migration.Migration, ok bool) {
	m, ok = migration.Of(crd)
	m.Mgmt, m.Live = r.Mgmt, r.Live
	m.Store = m.Store && !r.Skip.has(StorageVersionMigration)
	m.Clean = !r.Skip.has(CleanupManagedFields)
	return m, ok
}

// finish records that the migration is complete: first that nothing is stored at
// another version, so that a process that stops in between records it again.
func (r *Reconciler) finish(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, m migration.Migration, p progress) error {
	if m.Store {
		if err := m.Note(ctx, crd); err != nil {
			return err
		}
	}
	commit := patch.Snapshot(r.Mgmt, crd)
	metav1.SetMetaDataAnnotation(&crd.ObjectMeta, clusterv1.CRDMigrationObservedGenerationAnnotation, strconv.FormatInt(crd.Generation, 10))
	if err := commit(ctx); err != nil {
		return err
	}
	r.Forget(client.ObjectKeyFromObject(crd))
	if m.Store || p.Cleaned > 0 {
		ctrl.LoggerFrom(ctx).Info("Migrated the objects of a definition", "stored", p.Stored, "cleaned", p.Cleaned, "version", m.Kind.Version)
		r.Recorder.Eventf(crd, nil, corev1.EventTypeNormal, "Migrated", "Migrate", "stored %d objects at %s, and took managedFields of versions that are not served from %d", p.Stored, m.Kind.Version, p.Cleaned)
	}
	return nil
}

// Phase is a part of a migration, by upstream's names.
type Phase string

// The phases.
const (
	StorageVersionMigration Phase = "StorageVersionMigration" // objects are stored at the storage version
	CleanupManagedFields    Phase = "CleanupManagedFields"    // managedFields refer to served versions only
)

// Phases are some of the phases. It is the value of a flag.
type Phases []Phase

// Set implements pflag.Value: it adds phases, with commas between.
func (p *Phases) Set(text string) error {
	for name := range strings.SplitSeq(text, ",") {
		phase := Phase(strings.TrimSpace(name))
		if phase != StorageVersionMigration && phase != CleanupManagedFields {
			return fmt.Errorf("phase %q is not known: give some of %s, %s", name, StorageVersionMigration, CleanupManagedFields)
		}
		if !p.has(phase) {
			*p = append(*p, phase)
		}
	}
	return nil
}

// String implements pflag.Value: it is the phases as Set reads them.
func (p *Phases) String() string {
	var names []string
	for _, phase := range *p {
		names = append(names, string(phase))
	}
	return strings.Join(names, ",")
}

// Type implements pflag.Value.
func (*Phases) Type() string { return "phases" }

func (p *Phases) has(phase Phase) bool { return slices.Contains(*p, phase) }

// Usage is the help text of the flag.
const Usage = "parts of the migration of CRDs to leave to another program: StorageVersionMigration, CleanupManagedFields"
