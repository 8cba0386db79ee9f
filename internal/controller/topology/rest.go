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
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/topology/upgrade"
)

// restFor is how long a look that found nothing to do stands for those after it. A
// cluster comes up in less, which is when most of them find nothing new; and what
// nothing tells of, as a webhook that does other things than before, is met
// afterwards as it would have been.
const restFor = time.Minute

// sight tells what a reconcile has read from what another has. The zero value is
// that of one which has not come so far.
type sight [sha256.Size]byte

// rest is what a reconcile came to that found all as it should be.
type rest struct {
	sight sight
	until time.Time
	plan  *upgrade.Plan
	notes []string
	held  []string
}

// rests ends a reconcile that sees what the last one saw, if that had nothing to
// do: this one would compute and compare it all once more to find the same. Half
// of the looks at a cluster that comes up are of that kind, be it that the status
// of something has changed or that one of its own is due.
func (r *Reconciler) rests(ctx context.Context, s *state) (phase.Next, error) {
	last := s.memory.rest
	s.memory.rest = nil
	if s.failure() != nil {
		return phase.Continue(), nil
	}
	s.sight = r.see(ctx, s)
	if last == nil || s.sight == (sight{}) || last.sight != s.sight || !r.Clock.Now().Before(last.until) {
		return phase.Continue(), nil
	}
	s.memory.rest = last
	s.facts.Plan, s.facts.Held, s.notes = last.plan, last.held, last.notes
	s.commit = r.rememberToTell(s.cluster)
	return phase.Wait(0), nil
}

// settle notes what a reconcile came to, if the next one may rely on that: nothing
// failed or is waited for, and nobody outside was asked, who may answer otherwise. What
// it has written itself is not as it was seen, so that the next one differs.
func (r *Reconciler) settle(s *state, res ctrl.Result, err error) {
	if err != nil || !res.IsZero() || s.asked || s.sight == (sight{}) || s.memory.rest != nil {
		return
	}
	s.memory.rest = &rest{
		sight: s.sight, until: r.Clock.Now().Add(restFor), plan: s.facts.Plan, held: s.facts.Held, notes: slices.Concat(s.notes, s.desired.Unmatched),
	}
}

// see sums up what a reconcile reads: the Cluster, its class and templates of that,
// what there is of it, and what may be left over. What cannot be read is told by
// who needs it: then this is zero.
func (r *Reconciler) see(ctx context.Context, s *state) sight {
	for _, of := range s.blueprint.Templates() {
		template, err := r.classTemplate(ctx, s, of)
		if err != nil {
			return sight{}
		}
		s.sees(template)
	}
	if err := r.seeLeftovers(ctx, s); err != nil {
		return sight{}
	}
	slices.Sort(s.seen) // lists come in any order
	text, err := json.Marshal(map[string]any{
		"generation": s.cluster.Generation, "labels": s.cluster.Labels, "annotations": s.cluster.Annotations,
		"class": version(s.class), "contract": s.contract, "upgrade": s.facts.Upgrade, "objects": s.seen,
	})
	if err != nil {
		return sight{}
	}
	return sha256.Sum256(text)
}

// seeLeftovers notes what removeLeftovers looks at.
func (r *Reconciler) seeLeftovers(ctx context.Context, s *state) error {
	var checks clusterv1.MachineHealthCheckList
	if err := r.ofCluster(ctx, s, &checks); err != nil {
		return err
	}
	for i := range checks.Items {
		s.sees(&checks.Items[i])
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
			s.sees(&found[i])
		}
	}
	return nil
}

// sees notes an object that was read.
func (s *state) sees(obj client.Object) { s.seen = append(s.seen, version(obj)) }

// version is an object as it is.
func version(obj client.Object) string { return string(obj.GetUID()) + "/" + obj.GetResourceVersion() }

// inOrder is that of kinds by their names.
func inOrder(a, b schema.GroupKind) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Group, b.Group))
}
