// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/clusterctl/move/plan"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// JournalName is the name of the ConfigMap in the namespace that moves, at both sides,
// that records a move until it is complete.
const JournalName = "capstan-move"

// Phase is the progress of a move.
type Phase string

// The phases of a move, in their order, and the separate ones.
const (
	// Copying: the source has all objects, paused; the target gets copies, paused.
	Copying Phase = "copying"
	// Deleting: the target has all objects, which were read back and compared; they are
	// being deleted at the source.
	Deleting Phase = "deleting"
	// Finishing: the source has none of them any longer; those of the target get their
	// original state, and their pause ends.
	Finishing Phase = "finishing"
	// RollingBack: the source gets back its objects, and the target loses its copies.
	RollingBack Phase = "rolling back"
	// Saving: the objects are paused while they are written to a directory.
	Saving Phase = "saving"
	// Restoring: the target gets the objects of a directory, paused.
	Restoring Phase = "restoring"
)

const (
	// A claim is renewed when half of it is over, and expires automatically: a process
	// that crashed, or lost its connection, blocks no other process.
	claimLasts = time.Minute
	// requestLasts is how long a request to write may take: less than what is left of a
	// claim that was checked before. A request that only reads may take longer.
	requestLasts = claimLasts / 4
	readLasts    = 2 * time.Minute
)

// Record is the content of a journal.
type Record struct {
	// Operation is a name that no other move has.
	Operation string `json:"operation"`
	// By names the process that moves, or moved last: user, host and process.
	By string `json:"by"`
	// Heard is when that process last renewed its claim; empty once it has stopped.
	Heard *metav1.Time `json:"heard,omitempty"`
	// Started is when the move started.
	Started metav1.Time `json:"started"`
	// From and To name the management clusters for people; FromID and ToID are the
	// UIDs of their namespaces kube-system.
	From   string `json:"from"`
	FromID string `json:"fromID,omitempty"`
	To     string `json:"to"`
	ToID   string `json:"toID,omitempty"`
	// Namespace is the one that moves.
	Namespace string `json:"namespace"`
	// Phase is the progress of the move, and Step the current step.
	Phase Phase  `json:"phase"`
	Step  string `json:"step"`
	// Intact means, while a move is rolled back, that it had deleted nothing at the
	// source.
	Intact bool `json:"intact,omitempty"`
}

// who names a move in an error.
func (r Record) who() string {
	return fmt.Sprintf("%s moves namespace %s from %s to %s since %s (operation %s, %s)", r.By, r.Namespace, r.From, r.To, r.Started.UTC().Format(time.RFC3339), r.Operation, r.Phase)
}

// journal is a record in a ConfigMap of one side. It is written only if unchanged since
// it was read: of two processes that run the same move, one gets a conflict and stops.
type journal struct {
	plane Plane
	clock clock.PassiveClock
	obj   *unstructured.Unstructured
	Record
	plan *plan.Plan
	// packed is the plan that obj has, so that a plan is packed only once.
	packed *plan.Plan
}

func journalKey(namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: JournalName}
}

// openJournal reads the journal of a side; nil if it does not exist.
func openJournal(ctx context.Context, p Plane, c clock.PassiveClock, namespace string) (*journal, error) {
	obj, err := p.Get(ctx, configMaps, journalKey(namespace))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	j := &journal{plane: p, clock: c, obj: obj}
	return j, j.read()
}

func (j *journal) read() error {
	text, _, _ := unstructured.NestedString(j.obj.Object, "data", "journal")
	packed, _, _ := unstructured.NestedString(j.obj.Object, "binaryData", "plan")
	record, err := sanitize.YAMLToJSON([]byte(text))
	if err == nil {
		err = json.Unmarshal(record, &j.Record)
	}
	if err == nil && j.Operation == "" {
		err = errors.New("it names no operation")
	}
	if err == nil {
		j.plan, err = plan.Unpack(packed)
	}
	if err != nil {
		return fmt.Errorf("%s: ConfigMap %s/%s is no journal of a move: %w: if no move is running, delete it", j.plane, j.obj.GetNamespace(), j.obj.GetName(), err)
	}
	j.packed = j.plan
	return nil
}

func (j *journal) fill() error {
	text, err := yaml.Marshal(j.Record)
	if err != nil {
		return err
	}
	j.obj.Object["data"] = map[string]any{"journal": string(text)}
	if j.packed == j.plan {
		return nil
	}
	packed, err := plan.Pack(j.plan)
	if err != nil {
		return err
	}
	j.obj.Object["binaryData"] = map[string]any{"plan": packed}
	j.packed = j.plan
	return nil
}

// create creates a journal. If one exists already, another process was faster.
func (j *journal) create(ctx context.Context) error {
	j.obj = &unstructured.Unstructured{Object: map[string]any{}}
	j.obj.SetGroupVersionKind(configMaps.GroupVersionKind)
	j.obj.SetNamespace(j.Namespace)
	j.obj.SetName(JournalName)
	if err := j.fill(); err != nil {
		return err
	}
	err := j.plane.Create(ctx, j.obj)
	if apierrors.IsAlreadyExists(err) {
		return j.lost(ctx, err)
	}
	return err
}

// write writes a change, unless another process has written meanwhile. A change that was
// not written leaves no trace: a claim that was not renewed is over.
func (j *journal) write(ctx context.Context, change func(*Record)) (err error) {
	was := j.Record
	if change != nil {
		change(&j.Record)
	}
	if err = j.fill(); err == nil {
		next := j.obj.DeepCopy()
		if err = j.plane.Update(ctx, next); err == nil {
			j.obj = next
		}
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		err = j.lost(ctx, err)
	}
	if err != nil {
		j.Record = was
	}
	return err
}

// lost reports which process has the move now. If that is this one, the previous write
// succeeded, and only the response was lost.
func (j *journal) lost(ctx context.Context, cause error) error {
	now, err := openJournal(ctx, j.plane, j.clock, j.Namespace)
	if err != nil || now == nil { // the cause is not wrapped: it is no response about an object that moves
		return fmt.Errorf("the journal of this move was taken away: %v", errors.Join(err, cause))
	}
	if !equality.Semantic.DeepEqual(now.obj.Object["data"], j.obj.Object["data"]) {
		return &BusyError{now.Record}
	}
	j.obj, j.packed = now.obj, nil // it may have another plan
	return nil
}

// hold ensures that the claim lasts for another request.
func (j *journal) hold(ctx context.Context) error {
	if now := j.clock.Now(); j.Heard == nil || now.Sub(j.Heard.Time) > claimLasts/2 {
		return j.write(ctx, func(r *Record) { r.Heard = &metav1.Time{Time: now} })
	}
	return nil
}

// remove deletes a journal. One that does not exist is no error.
func (j *journal) remove(ctx context.Context) error {
	err := j.plane.Delete(ctx, j.obj)
	if apierrors.IsConflict(err) {
		if err := j.lost(ctx, err); err != nil {
			return err
		}
		err = j.plane.Delete(ctx, j.obj)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// BusyError means that another process runs a move.
type BusyError struct{ Record Record }

func (e *BusyError) Error() string {
	if e.Record.Heard == nil {
		return e.Record.who() + ", and stopped: end that move first, by the same command again or with --rollback"
	}
	return fmt.Sprintf("%s, and was last heard of at %s: wait for the end of it; if that one is gone, its claim ends %s later", e.Record.who(), e.Record.Heard.UTC().Format(time.RFC3339), claimLasts)
}
