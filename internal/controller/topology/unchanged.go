// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// unchangedFor is how long a no-op result can be reused. A cluster is provisioned in
// less, which is when most reconciles find nothing new. A change that no watch
// reports, such as a webhook with different behavior, is detected afterwards, as it
// would have been.
const unchangedFor = time.Minute

// fingerprint identifies what a reconcile has read. The zero value means that
// the reconcile has not read everything.
type fingerprint [sha256.Size]byte

// unchanged is the result of a reconcile that found everything as desired.
type unchanged struct {
	fingerprint fingerprint
	until       time.Time
	plan        *upgrade.Plan
	notes       []string
	held        []string
}

// reuseUnchanged ends a reconcile that has read the same as the last one, if that had
// nothing to write: it would compute and compare everything again with the same
// result. Half of the reconciles of a cluster that is being provisioned are like
// that, after a status change of one of its objects or a status write that was due.
func (r *Reconciler) reuseUnchanged(ctx context.Context, s *state) (reconciler.Next, error) {
	last := s.memory.unchanged
	s.memory.unchanged = nil
	if s.failure() != nil {
		return reconciler.Continue(), nil
	}
	s.fingerprint = r.fingerprintOf(ctx, s)
	if last == nil || s.fingerprint == (fingerprint{}) || last.fingerprint != s.fingerprint || !r.Clock.Now().Before(last.until) {
		return reconciler.Continue(), nil
	}
	s.memory.unchanged = last
	s.facts.Plan, s.facts.Held, s.notes = last.plan, last.held, last.notes
	return reconciler.Wait(0), nil
}

// settle caches the result of a reconcile if the next one may reuse it: nothing
// failed or is awaited, and no extension was called, whose answer may change. The
// reconcile's own writes change the fingerprint, so that the next one differs.
func (r *Reconciler) settle(s *state, res ctrl.Result, err error) {
	if err != nil || !res.IsZero() || s.asked || s.fingerprint == (fingerprint{}) || s.memory.unchanged != nil {
		return
	}
	s.memory.unchanged = &unchanged{
		fingerprint: s.fingerprint, until: r.Clock.Now().Add(unchangedFor), plan: s.facts.Plan, held: s.facts.Held, notes: slices.Concat(s.notes, s.desired.Unmatched),
	}
}

// fingerprintOf summarizes what a reconcile reads: the Cluster, its class and the templates
// of the class, its existing objects, and possible leftovers. If something cannot
// be read, the result is zero, and the phase that needs it reports the error.
func (r *Reconciler) fingerprintOf(ctx context.Context, s *state) fingerprint {
	for _, of := range s.blueprint.Templates() {
		template, err := r.classTemplate(ctx, s, of)
		if err != nil {
			return fingerprint{}
		}
		s.recordRead(template)
	}
	if err := r.recordLeftovers(ctx, s); err != nil {
		return fingerprint{}
	}
	slices.Sort(s.seen) // lists have no fixed order
	text, err := json.Marshal(map[string]any{
		"generation": s.cluster.Generation, "labels": s.cluster.Labels, "annotations": s.cluster.Annotations,
		"class": version(s.class), "contract": s.contract, "upgrade": s.facts.Upgrade, "objects": s.seen,
	})
	if err != nil {
		return fingerprint{}
	}
	return sha256.Sum256(text)
}

// recordLeftovers records the objects that removeLeftovers reads.
func (r *Reconciler) recordLeftovers(ctx context.Context, s *state) error {
	var checks clusterv1.MachineHealthCheckList
	if err := r.ofCluster(ctx, s, &checks); err != nil {
		return err
	}
	for i := range checks.Items {
		s.recordRead(&checks.Items[i])
	}
	sets, err := r.sets(ctx, s)
	if err != nil {
		return err
	}
	for i := range sets { // their statuses change all the time
		set := &sets[i]
		s.seen = append(s.seen, fmt.Sprint(set.UID, set.DeletionTimestamp.IsZero(), set.Finalizers))
	}
	for _, kind := range slices.SortedFunc(maps.Keys(s.memory.kinds), inOrder) {
		found, err := r.copies(ctx, s, kind)
		if err != nil {
			return err
		}
		for i := range found {
			s.recordRead(&found[i])
		}
	}
	return nil
}

// recordRead records an object that was read.
func (s *state) recordRead(obj client.Object) { s.seen = append(s.seen, version(obj)) }

// version identifies one version of an object.
func version(obj client.Object) string { return string(obj.GetUID()) + "/" + obj.GetResourceVersion() }

// inOrder compares kinds by their names.
func inOrder(a, b schema.GroupKind) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Group, b.Group))
}
