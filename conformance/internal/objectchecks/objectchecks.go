// SPDX-License-Identifier: Apache-2.0

// Package objectchecks has the checks of an object's lifecycle, for all roles of a provider: the
// object is created, owned, paused and resumed, loses its status, gets it back, and is
// deleted. Its checks are run in this order.
//
// It compares the observed states of objects, and reads their common fields.
package objectchecks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/testnamespace"
	"github.com/capstan-dev/capstan/contract"
)

// Object is the object that is checked, in a separate World.
type Object struct {
	World   *testnamespace.World // nil without an example
	Example *unstructured.Unstructured
	Main    testnamespace.Thing // created from the example
	Cluster testnamespace.Thing // of Main

	Contract string // its version

	// Field is the field that reports that an object has reached its goal. Either, if
	// set, reports it with the fields of any version of the contract.
	Field  func() (contract.Field[bool], error)
	Either func(obj *unstructured.Unstructured) (bool, error)

	// Own creates the owner of Main, and Disown deletes it.
	Own, Disown func(context.Context) error

	// Fault, once set, is the reason why no further check can be run, and is not the
	// provider's fault.
	Fault error

	mark  int  // number of versions of Main when its status was removed
	hasty bool // Main continued during its first pause
	freed bool // the suite removed its finalizer from Main
}

// IsDone reports whether an object has reached its goal.
func (o *Object) IsDone(obj *unstructured.Unstructured) (bool, error) {
	field, err := o.Field()
	if err != nil {
		return false, err
	}
	done, _, err := field.Get(obj)
	if o.Either != nil && !done && err == nil {
		return o.Either(obj)
	}
	return done, err
}

// AwaitDone waits until the main object has reached its goal.
func (o *Object) AwaitDone(ctx context.Context) error { return o.AwaitDoneOf(ctx, o.Main) }

// AwaitDoneOf waits until another object of the kind has reached its goal.
func (o *Object) AwaitDoneOf(ctx context.Context, t testnamespace.Thing) error {
	field, err := o.Field()
	if err != nil {
		return err
	}
	return o.World.Await(ctx, func() error {
		obj := o.World.Latest(t)
		if obj == nil {
			return fmt.Errorf("there is no %s", t)
		}
		done, err := o.IsDone(obj)
		if err == nil && !done {
			err = fmt.Errorf("%s of %s is not true; its status is %s", field, t, JSON(obj.Object["status"]))
		}
		return err
	})
}

// AtDone returns the versions of the main object from the first on that had reached its
// goal.
func (o *Object) AtDone() ([]*unstructured.Unstructured, error) {
	all, _ := o.World.History(o.Main)
	for i, obj := range all {
		if done, err := o.IsDone(obj); done || err != nil {
			return all[i:], err
		}
	}
	return nil, conformance.Skip("%s never got so far", o.Main)
}

// Now is the last observed version of the main object.
func (o *Object) Now() (*unstructured.Unstructured, error) {
	if obj := o.World.Latest(o.Main); obj != nil {
		return obj, nil
	}
	return nil, conformance.Skip("%s is not there", o.Main)
}

// LeftAlone creates the object without an owner.
func (o *Object) LeftAlone(ctx context.Context) error {
	obj, err := o.World.Make(ctx, o.Example, o.Main.Name, func(obj *unstructured.Unstructured) {
		obj.SetFinalizers(append(obj.GetFinalizers(), testnamespace.Kept))
		testnamespace.Annotate(obj, testnamespace.Kept, testnamespace.BySuite)
	})
	if err != nil {
		return o.Broken(err)
	}
	return o.unchanged(ctx, o.Main, Done(obj), Done)
}

// Broken ends the run with an error that is not the provider's fault.
func (o *Object) Broken(err error) error {
	o.Fault = err
	return conformance.Skip("%w", err)
}

// PausedByAnnotation sets the object's owner while it is paused, so that it waits only
// for the end of the pause.
func (o *Object) PausedByAnnotation(ctx context.Context) error {
	if err := o.World.Change(ctx, o.Main, func(obj *unstructured.Unstructured) {
		testnamespace.Annotate(obj, clusterv1.PausedAnnotation, testnamespace.BySuite)
	}); err != nil {
		return err
	}
	if err := o.Own(ctx); err != nil {
		return o.Broken(err)
	}
	if err := o.AwaitOwner(ctx, o.Main); err != nil {
		return o.Broken(err)
	}
	err := o.Unreconciled(ctx, o.Main)
	o.hasty = err != nil
	return err
}

// AwaitOwner waits until Cluster API has set the owner of an object.
func (o *Object) AwaitOwner(ctx context.Context, t testnamespace.Thing) error {
	if err := o.owned(ctx, t); err != nil {
		return fmt.Errorf("%w: do the core controllers run on the management cluster, and may they write it?", err)
	}
	return nil
}

func (o *Object) owned(ctx context.Context, t testnamespace.Thing) error {
	return o.World.Await(ctx, func() error {
		if obj := o.World.Latest(t); obj != nil && slices.ContainsFunc(obj.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
			return strings.HasPrefix(o.APIVersion, clusterv1.GroupVersion().Group+"/")
		}) {
			return nil
		}
		return fmt.Errorf("%s has no owner", t)
	})
}

// Unreconciled checks that an object has not been reconciled since the suite wrote it,
// except for its metadata, and the condition that it is paused.
func (o *Object) Unreconciled(ctx context.Context, t testnamespace.Thing) error {
	return o.unchanged(ctx, t, Substance(o.World.Wrote(t)), Substance)
}

// unchanged checks that an object does not change in the quiet time, in the fields that
// part returns.
func (o *Object) unchanged(ctx context.Context, t testnamespace.Thing, before map[string]any, part func(*unstructured.Unstructured) map[string]any) error {
	return o.World.Quietly(ctx, func() error {
		obj := o.World.Latest(t)
		if obj == nil {
			return fmt.Errorf("%s is gone", t)
		}
		if now := part(obj); !reflect.DeepEqual(before, now) {
			return fmt.Errorf("%s was changed: %s", t, strings.Join(Differences(before, now, ""), ", "))
		}
		return nil
	})
}

// Filtered removes the label of the watch filter.
func (o *Object) Filtered(ctx context.Context) error {
	if o.World.Labels[clusterv1.WatchLabel] == "" {
		return conformance.Skip("the config has no watchFilter")
	}
	if o.hasty {
		return conformance.Skip("%s is reconciled already, in spite of the pause", o.Main)
	}
	if err := o.World.Change(ctx, o.Main, func(obj *unstructured.Unstructured) {
		unstructured.RemoveNestedField(obj.Object, "metadata", "labels", clusterv1.WatchLabel)
		testnamespace.Annotate(obj, clusterv1.PausedAnnotation, "")
	}); err != nil {
		return err
	}
	return o.Unreconciled(ctx, o.Main)
}

// Unblock removes everything that the object waits for.
func (o *Object) Unblock(ctx context.Context) error {
	if err := o.World.Change(ctx, o.Main, func(obj *unstructured.Unstructured) {
		testnamespace.Annotate(obj, clusterv1.PausedAnnotation, "")
		labels := maps.Clone(o.World.Labels)
		maps.Copy(labels, obj.GetLabels())
		obj.SetLabels(labels)
	}); err != nil {
		return err
	}
	return o.AwaitDone(ctx)
}

// FinalizerFirst checks the object when it has reached its goal.
func (o *Object) FinalizerFirst(_ context.Context) error {
	all, err := o.AtDone()
	if err != nil {
		return err
	}
	if len(own(all[0])) == 0 {
		return fmt.Errorf("%s had no finalizer when it was done", o.Main)
	}
	return nil
}

// ConditionsWellFormed checks all versions of the object.
func (o *Object) ConditionsWellFormed(_ context.Context) error {
	all, _ := o.World.History(o.Main)
	any := false
	for _, obj := range all {
		list, err := Conditions(obj)
		if err != nil {
			return err
		}
		any = any || len(list) > 0
		if err := WellFormed(list); err != nil {
			return fmt.Errorf("%s in version %s: %w", o.Main, obj.GetResourceVersion(), err)
		}
	}
	if !any {
		return conformance.Skip("%s has no conditions", o.Main)
	}
	return nil
}

// Reports waits for a condition to have any status.
func Reports(name string) func(*Object, context.Context) error {
	return func(o *Object, ctx context.Context) error {
		return o.World.Within(ctx, o.World.Limits.Soon, func() error {
			obj := o.World.Latest(o.Main)
			if obj == nil || Condition(obj, name) == "" {
				return fmt.Errorf("%s has no condition %s", o.Main, name)
			}
			return nil
		})
	}
}

// Resting checks that an object soon reaches steady state: a quiet time without a write.
func (o *Object) Resting(ctx context.Context) error {
	for deadline := time.Now().Add(o.World.Limits.Soon); ; {
		before, _ := o.World.History(o.Main)
		err := o.World.Quietly(ctx, func() error {
			now, _ := o.World.History(o.Main)
			if len(now) == len(before) {
				return nil
			}
			return fmt.Errorf("%s is written again and again, %d times by now; the last time %s", o.Main, len(now),
				strings.Join(Differences(Whole(now[len(now)-2]), Whole(now[len(now)-1]), ""), ", "))
		})
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
}

// PausedByCluster removes the status while the Cluster is paused: a reconcile would write
// it again.
func (o *Object) PausedByCluster(ctx context.Context) error {
	if err := o.pauseCluster(ctx); err != nil {
		return err
	}
	if err := o.awaitSeen(ctx); err != nil {
		return err
	}
	// A provider with an outdated cache writes it again; endless writes are found below.
	if err := o.Resting(ctx); ctx.Err() != nil {
		return err
	}
	all, _ := o.World.History(o.Main)
	o.mark = len(all)
	if err := o.World.ChangeStatus(ctx, o.Main, func(obj *unstructured.Unstructured) { delete(obj.Object, "status") }); err != nil {
		return err
	}
	return o.Unreconciled(ctx, o.Main)
}

// awaitSeen waits until the provider has observed a pause: a provider that reported one
// pause reports the next.
func (o *Object) awaitSeen(ctx context.Context) error {
	errQuiet := errors.New("it says nothing")
	limit := o.World.Limits.Quiet
	if o.saidPaused() {
		limit = o.World.Limits.Soon
	}
	err := o.World.Within(ctx, limit, func() error {
		if obj := o.World.Latest(o.Main); obj != nil && Condition(obj, clusterv1.PausedCondition) == "True" {
			return nil
		}
		return errQuiet
	})
	if errors.Is(err, errQuiet) {
		return nil
	}
	return err
}

func (o *Object) pauseCluster(ctx context.Context) error {
	return o.World.Change(ctx, o.Cluster, func(obj *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(obj.Object, true, "spec", "paused") // spec is an object
	})
}

func (o *Object) resumeCluster(ctx context.Context) error {
	return o.World.Change(ctx, o.Cluster, func(obj *unstructured.Unstructured) {
		unstructured.RemoveNestedField(obj.Object, "spec", "paused")
	})
}

// Restored ends the pause of the Cluster.
func (o *Object) Restored(ctx context.Context) error {
	if err := o.resumeCluster(ctx); err != nil {
		return err
	}
	return o.AwaitDone(ctx)
}

// PauseSaid checks the condition while the object is paused.
func (o *Object) PauseSaid(ctx context.Context) error { return o.awaitPaused(ctx, "True") }

// ResumeSaid checks the condition when the object is no longer paused.
func (o *Object) ResumeSaid(ctx context.Context) error {
	if !o.saidPaused() {
		return conformance.Skip("%s never said that it is paused", o.Main)
	}
	return o.awaitPaused(ctx, "False")
}

func (o *Object) awaitPaused(ctx context.Context, want string) error {
	return o.World.Within(ctx, o.World.Limits.Soon, func() error {
		if obj := o.World.Latest(o.Main); obj == nil || Condition(obj, clusterv1.PausedCondition) != want {
			return fmt.Errorf("the condition Paused of %s is not %s", o.Main, want)
		}
		return nil
	})
}

// saidPaused reports whether the main object has ever reported that it is paused.
func (o *Object) saidPaused() bool {
	all, _ := o.World.History(o.Main)
	return slices.ContainsFunc(all, func(obj *unstructured.Unstructured) bool {
		return Condition(obj, clusterv1.PausedCondition) == "True"
	})
}

// NeverBack checks all versions of the object.
func (o *Object) NeverBack(_ context.Context) error {
	if o.Contract == contract.V1Beta1 {
		return conformance.Skip("under the contract %s it may be", contract.V1Beta1)
	}
	all, _ := o.World.History(o.Main)
	before := false
	for i, obj := range all {
		if status, _ := obj.Object["status"].(map[string]any); i >= o.mark && o.mark > 0 && len(status) == 0 {
			before = false // the suite removed it
			continue
		}
		done, err := o.IsDone(obj)
		if err != nil {
			return err
		}
		if before && !done {
			return fmt.Errorf("%s was done, and is not in version %s", o.Main, obj.GetResourceVersion())
		}
		before = done
	}
	return nil
}

// GoesAway ends all pauses and has the owner deleted.
func (o *Object) GoesAway(ctx context.Context) error {
	if o.World.Latest(o.Main) != nil {
		if err := o.World.Change(ctx, o.Main, func(obj *unstructured.Unstructured) { testnamespace.Annotate(obj, clusterv1.PausedAnnotation, "") }); err != nil {
			return err
		}
	}
	if err := errors.Join(o.resumeCluster(ctx), o.Disown(ctx)); err != nil {
		return err
	}
	if err := o.World.Await(ctx, func() error {
		switch obj := o.World.Latest(o.Main); {
		case obj == nil:
			return nil
		case obj.GetDeletionTimestamp().IsZero():
			return fmt.Errorf("%s was not deleted by Cluster API yet", o.Main)
		case len(own(obj)) > 0:
			return fmt.Errorf("%s is still there, with finalizers %s", o.Main, strings.Join(own(obj), ", "))
		}
		return nil
	}); err != nil {
		return err
	}
	if o.World.Latest(o.Main) == nil {
		return nil // OthersKept reports it
	}
	o.freed = true
	if err := o.World.Change(ctx, o.Main, testnamespace.Release); err != nil {
		return err
	}
	return o.AwaitGone(ctx, o.Main)
}

// AwaitGone waits until an object is deleted.
func (o *Object) AwaitGone(ctx context.Context, t testnamespace.Thing) error {
	return o.World.Await(ctx, func() error {
		if obj := o.World.Latest(t); obj != nil {
			return fmt.Errorf("%s is still there, with finalizers %s", t, strings.Join(obj.GetFinalizers(), ", "))
		}
		return nil
	})
}
