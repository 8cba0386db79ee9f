// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/evidence"
	"github.com/capstan-dev/capstan/internal/access/sandbox"
)

// isDone reports whether an object has come to what it is for.
func (s *subject) isDone(obj *unstructured.Unstructured) (bool, error) {
	field, err := s.role.done(s.kind.Contract)
	if err != nil {
		return false, err
	}
	done, _, err := field.Get(obj)
	if s.role.either != nil && !done && err == nil {
		return s.role.either(obj)
	}
	return done, err
}

// awaitDone waits until the main object has come to what it is for.
func (s *subject) awaitDone(ctx context.Context) error { return s.awaitDoneOf(ctx, s.main) }

func (s *subject) awaitDoneOf(ctx context.Context, t thing) error {
	field, err := s.role.done(s.kind.Contract)
	if err != nil {
		return err
	}
	return s.world.Await(ctx, func() error {
		obj := s.world.Latest(t)
		if obj == nil {
			return fmt.Errorf("there is no %s", t)
		}
		done, err := s.isDone(obj)
		if err == nil && !done {
			err = fmt.Errorf("%s of %s is not true; its status is %s", field, t, evidence.JSON(obj.Object["status"]))
		}
		return err
	})
}

// atDone are the versions of the main object from the first on that had come to
// what it is for.
func (s *subject) atDone() ([]*unstructured.Unstructured, error) {
	all, _ := s.world.History(s.main)
	for i, obj := range all {
		if done, err := s.isDone(obj); done || err != nil {
			return all[i:], err
		}
	}
	return nil, conformance.Skip("%s never got so far", s.main)
}

// now is the main object as it was seen last.
func (s *subject) now() (*unstructured.Unstructured, error) {
	if obj := s.world.Latest(s.main); obj != nil {
		return obj, nil
	}
	return nil, conformance.Skip("%s is not there", s.main)
}

func leftAlone(ctx context.Context, s *subject) error {
	obj, err := s.world.Make(ctx, s.example, s.main.Name)
	if err != nil {
		return s.broken(err)
	}
	return s.unchanged(ctx, s.main, evidence.Whole(obj), evidence.Whole)
}

// broken ends the run by what is not the provider's fault.
func (s *subject) broken(err error) error {
	s.fault = err
	return conformance.Skip("%w", err)
}

// pausedByAnnotation has the object owned while it is paused, so that all it
// waits for is the end of the pause.
func pausedByAnnotation(ctx context.Context, s *subject) error {
	if err := s.world.Change(ctx, s.main, func(obj *unstructured.Unstructured) {
		sandbox.Annotate(obj, clusterv1.PausedAnnotation, sandbox.BySuite)
	}); err != nil {
		return err
	}
	if err := s.role.own(ctx, s); err != nil {
		return s.broken(err)
	}
	if err := s.awaitOwner(ctx, s.main); err != nil {
		return s.broken(err)
	}
	return s.unreconciled(ctx, s.main)
}

// awaitOwner waits until Cluster API has taken an object over.
func (s *subject) awaitOwner(ctx context.Context, t thing) error {
	if err := s.owned(ctx, t); err != nil {
		return fmt.Errorf("%w: do the core controllers run on the management cluster, and may they write it?", err)
	}
	return nil
}

func (s *subject) owned(ctx context.Context, t thing) error {
	return s.world.Await(ctx, func() error {
		if obj := s.world.Latest(t); obj != nil && slices.ContainsFunc(obj.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
			return strings.HasPrefix(o.APIVersion, clusterv1.GroupVersion().Group+"/")
		}) {
			return nil
		}
		return fmt.Errorf("%s has no owner", t)
	})
}

// unreconciled looks that nothing is done for an object since the suite wrote it,
// whatever is noted in its metadata, and beside that it is paused.
func (s *subject) unreconciled(ctx context.Context, t thing) error {
	return s.unchanged(ctx, t, evidence.Substance(s.world.Wrote(t)), evidence.Substance)
}

// unchanged looks that nothing of an object changes in the quiet time, as far as
// part shows it.
func (s *subject) unchanged(ctx context.Context, t thing, before map[string]any, part func(*unstructured.Unstructured) map[string]any) error {
	return s.world.Quietly(ctx, func() error {
		obj := s.world.Latest(t)
		if obj == nil {
			return fmt.Errorf("%s is gone", t)
		}
		if now := part(obj); !reflect.DeepEqual(before, now) {
			return fmt.Errorf("%s was changed: %s", t, strings.Join(evidence.Differences(before, now, ""), ", "))
		}
		return nil
	})
}

func goesOn(ctx context.Context, s *subject) error {
	if err := s.world.Change(ctx, s.main, func(obj *unstructured.Unstructured) { sandbox.Annotate(obj, clusterv1.PausedAnnotation, "") }); err != nil {
		return err
	}
	return s.awaitDone(ctx)
}

func finalizerFirst(_ context.Context, s *subject) error {
	all, err := s.atDone()
	if err != nil {
		return err
	}
	if len(all[0].GetFinalizers()) == 0 {
		return fmt.Errorf("%s had no finalizer when it was done", s.main)
	}
	return nil
}

func conditionsWellFormed(_ context.Context, s *subject) error {
	all, _ := s.world.History(s.main)
	any := false
	for _, obj := range all {
		list, err := evidence.Conditions(obj)
		if err != nil {
			return err
		}
		any = any || len(list) > 0
		if err := evidence.WellFormed(list); err != nil {
			return fmt.Errorf("%s in version %s: %w", s.main, obj.GetResourceVersion(), err)
		}
	}
	if !any {
		return conformance.Skip("%s has no conditions", s.main)
	}
	return nil
}

// reports waits for a condition to have any status.
func reports(name string) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		return s.world.Within(ctx, s.world.Limits.Soon, func() error {
			obj := s.world.Latest(s.main)
			if obj == nil || evidence.Condition(obj, name) == "" {
				return fmt.Errorf("%s has no condition %s", s.main, name)
			}
			return nil
		})
	}
}

// resting looks that an object comes to rest soon: a quiet time without a write.
func resting(ctx context.Context, s *subject) error {
	for deadline := time.Now().Add(s.world.Limits.Soon); ; {
		before, _ := s.world.History(s.main)
		err := s.world.Quietly(ctx, func() error {
			now, _ := s.world.History(s.main)
			if len(now) == len(before) {
				return nil
			}
			return fmt.Errorf("%s is written again and again, %d times by now; the last time %s", s.main, len(now),
				strings.Join(evidence.Differences(evidence.Whole(now[len(now)-2]), evidence.Whole(now[len(now)-1]), ""), ", "))
		})
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
}

// thing is an object that was made.
type thing = sandbox.Thing

// clusterKey is the Cluster of the main object.
var clusterKey = thing{GroupKind: clusterv1.GroupVersion().WithKind("Cluster").GroupKind(), Name: "conformance"}

// pausedByCluster takes the status away while the Cluster is paused: who
// reconciled it would put it back.
func pausedByCluster(ctx context.Context, s *subject) error {
	if err := s.world.Change(ctx, clusterKey, func(obj *unstructured.Unstructured) { set(obj, true, "spec", "paused") }); err != nil {
		return err
	}
	// Who says by a condition that it has seen a pause says so of this one.
	errQuiet := errors.New("it says nothing")
	limit := s.world.Limits.Quiet
	if s.saidPaused() {
		limit = s.world.Limits.Soon
	}
	if err := s.world.Within(ctx, limit, func() error {
		if obj := s.world.Latest(s.main); obj != nil && evidence.Condition(obj, clusterv1.PausedCondition) == "True" {
			return nil
		}
		return errQuiet
	}); err != nil && !errors.Is(err, errQuiet) {
		return err
	}
	all, _ := s.world.History(s.main)
	s.mark = len(all)
	if err := s.world.ChangeStatus(ctx, s.main, func(obj *unstructured.Unstructured) { delete(obj.Object, "status") }); err != nil {
		return err
	}
	return s.unreconciled(ctx, s.main)
}

func restored(ctx context.Context, s *subject) error {
	if err := s.world.Change(ctx, clusterKey, func(obj *unstructured.Unstructured) {
		unstructured.RemoveNestedField(obj.Object, "spec", "paused")
	}); err != nil {
		return err
	}
	return s.awaitDone(ctx)
}

func pauseSaid(ctx context.Context, s *subject) error { return s.awaitPaused(ctx, "True") }

func resumeSaid(ctx context.Context, s *subject) error {
	if !s.saidPaused() {
		return conformance.Skip("%s never said that it is paused", s.main)
	}
	return s.awaitPaused(ctx, "False")
}

func (s *subject) awaitPaused(ctx context.Context, want string) error {
	return s.world.Within(ctx, s.world.Limits.Soon, func() error {
		if obj := s.world.Latest(s.main); obj == nil || evidence.Condition(obj, clusterv1.PausedCondition) != want {
			return fmt.Errorf("the condition Paused of %s is not %s", s.main, want)
		}
		return nil
	})
}

// saidPaused reports whether the main object has ever said that it is paused.
func (s *subject) saidPaused() bool {
	all, _ := s.world.History(s.main)
	return slices.ContainsFunc(all, func(obj *unstructured.Unstructured) bool {
		return evidence.Condition(obj, clusterv1.PausedCondition) == "True"
	})
}

func neverBack(_ context.Context, s *subject) error {
	all, _ := s.world.History(s.main)
	before := false
	for i, obj := range all {
		if status, _ := obj.Object["status"].(map[string]any); i >= s.mark && s.mark > 0 && len(status) == 0 {
			before = false // the suite took it away
			continue
		}
		done, err := s.isDone(obj)
		if err != nil {
			return err
		}
		if before && !done {
			return fmt.Errorf("%s was done, and is not in version %s", s.main, obj.GetResourceVersion())
		}
		before = done
	}
	return nil
}

func goesAway(ctx context.Context, s *subject) error {
	if err := s.role.disown(ctx, s); err != nil {
		return err
	}
	return s.awaitGone(ctx, s.main)
}

func (s *subject) awaitGone(ctx context.Context, t thing) error {
	return s.world.Await(ctx, func() error {
		if obj := s.world.Latest(t); obj != nil {
			return fmt.Errorf("%s is still there, with finalizers %s", t, strings.Join(obj.GetFinalizers(), ", "))
		}
		return nil
	})
}
