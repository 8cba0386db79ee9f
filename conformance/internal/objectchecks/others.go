// SPDX-License-Identifier: Apache-2.0

package objectchecks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/testnamespace"
)

// own are the finalizers of an object that are not the suite's.
func own(obj *unstructured.Unstructured) []string {
	return slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == testnamespace.Kept })
}

// OwnersKept checks the fields that the suite wrote to Clusters, Machines and
// MachinePools: the core adds fields, and changes none of them.
func (o *Object) OwnersKept(_ context.Context) error {
	for _, kind := range []string{"Cluster", "Machine", "MachinePool"} {
		for _, obj := range o.World.All(clusterv1.GroupVersion().WithKind(kind).GroupKind()) {
			wanted := o.World.Wanted(testnamespace.ThingOf(obj))
			if wanted == nil {
				continue
			}
			if changed := Changed(written(wanted), written(obj), ""); len(changed) > 0 {
				return fmt.Errorf("%s was changed: %s", testnamespace.ThingOf(obj), strings.Join(changed, ", "))
			}
		}
	}
	return nil
}

// written is the part of an object that only clients other than its controller write.
func written(obj *unstructured.Unstructured) map[string]any {
	meta, _ := obj.Object["metadata"].(map[string]any)
	return map[string]any{"spec": obj.Object["spec"], "metadata": map[string]any{"labels": orEmpty(meta["labels"]), "annotations": orEmpty(meta["annotations"])}}
}

func orEmpty(v any) any {
	if v == nil {
		return map[string]any{}
	}
	return v
}

// KeptInPause deletes the main object itself while it is paused, in both ways, as a move
// does after copying it.
func (o *Object) KeptInPause(ctx context.Context) error {
	obj, err := o.Now()
	if err != nil {
		return err
	}
	if len(own(obj)) == 0 {
		return conformance.Skip("%s has no finalizer", o.Main)
	}
	if err := o.pauseCluster(ctx); err != nil {
		return err
	}
	if err := o.World.Change(ctx, o.Main, func(obj *unstructured.Unstructured) {
		testnamespace.Annotate(obj, clusterv1.PausedAnnotation, testnamespace.BySuite)
	}); err != nil {
		return err
	}
	if err := o.awaitSeen(ctx); err != nil {
		return err
	}
	if err := o.World.Delete(ctx, o.Main); err != nil {
		return err
	}
	return o.World.Quietly(ctx, func() error {
		now := o.World.Latest(o.Main)
		if now == nil {
			return fmt.Errorf("%s is gone", o.Main)
		}
		for _, f := range own(obj) {
			if !slices.Contains(now.GetFinalizers(), f) {
				return fmt.Errorf("%s has lost the finalizer %s", o.Main, f)
			}
		}
		return nil
	})
}

// OthersKept checks all versions of the main object from its creation by the suite until
// the suite removed its finalizer.
func (o *Object) OthersKept(_ context.Context) error {
	all, gone := o.World.History(o.Main)
	owned := false
	for _, obj := range all {
		in := "version " + obj.GetResourceVersion()
		if !slices.Contains(obj.GetFinalizers(), testnamespace.Kept) && !o.freed {
			return fmt.Errorf("%s has lost the finalizer %s in %s", o.Main, testnamespace.Kept, in)
		}
		if obj.GetAnnotations()[testnamespace.Kept] == "" || obj.GetLabels()[testnamespace.Kept] == "" {
			return fmt.Errorf("%s has lost the annotation or the label %s in %s", o.Main, testnamespace.Kept, in)
		}
		if owned && len(obj.GetOwnerReferences()) == 0 {
			return fmt.Errorf("%s has lost its owner in %s", o.Main, in)
		}
		owned = len(obj.GetOwnerReferences()) > 0
	}
	if gone && !o.freed {
		return errors.New("it was deleted with the finalizer " + testnamespace.Kept + " on it, which another client removed")
	}
	return nil
}
