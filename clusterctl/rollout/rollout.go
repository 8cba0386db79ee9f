// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/references"
)

// byField are the kinds that are paused by a field; others are by an annotation.
func byField(kind string) bool {
	return kind == clusterv1.ClusterKind || kind == "MachineDeployment"
}

func paused(obj *unstructured.Unstructured) bool {
	if byField(obj.GetKind()) {
		on, _, _ := unstructured.NestedBool(obj.Object, "spec", "paused")
		return on
	}
	_, on := obj.GetAnnotations()[clusterv1.PausedAnnotation]
	return on
}

// Pause stops the rollouts of an object.
func (c *Client) Pause(ctx context.Context, o Object) error {
	return c.change(ctx, o.GroupVersionKind(), o.ObjectKey, false, func(obj *unstructured.Unstructured) error {
		if paused(obj) {
			return fmt.Errorf("%s is paused already", o)
		}
		if byField(o.Kind) {
			return set(obj, true, "spec", "paused")
		}
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[clusterv1.PausedAnnotation] = "true"
		obj.SetAnnotations(annotations)
		return nil
	})
}

// Resume ends the pause of an object.
func (c *Client) Resume(ctx context.Context, o Object) error {
	return c.change(ctx, o.GroupVersionKind(), o.ObjectKey, false, func(obj *unstructured.Unstructured) error {
		if !paused(obj) {
			return fmt.Errorf("%s is not paused", o)
		}
		if byField(o.Kind) {
			unstructured.RemoveNestedField(obj.Object, "spec", "paused")
			return nil
		}
		annotations := obj.GetAnnotations()
		delete(annotations, clusterv1.PausedAnnotation)
		obj.SetAnnotations(annotations)
		return nil
	})
}

// Restart replaces all machines of an object that were created before now.
func (c *Client) Restart(ctx context.Context, o Object, now time.Time) error {
	return c.change(ctx, o.GroupVersionKind(), o.ObjectKey, false, func(obj *unstructured.Unstructured) error {
		if paused(obj) {
			return fmt.Errorf("%s is paused: resume it first", o)
		}
		if after := text(obj, "spec", "rollout", "after"); after != "" {
			at, err := time.Parse(time.RFC3339, after)
			if err != nil {
				return fmt.Errorf("%s: spec.rollout.after %q is no time: remove it first", o, after)
			}
			if at.After(now) {
				return fmt.Errorf("%s will be rolled out at %s (spec.rollout.after): remove that first, or wait for it", o, after)
			}
		}
		return set(obj, now.UTC().Format(time.RFC3339), "spec", "rollout", "after")
	})
}

// Status is the progress of an object toward its spec.
type Status struct {
	// Awaited is what is missing; empty when nothing is.
	Awaited string
	// Text is a summary for people.
	Text string
}

// Status returns the progress of an object.
func (c *Client) Status(ctx context.Context, o Object) (Status, error) {
	obj, err := c.get(ctx, o)
	if err != nil {
		return Status{}, err
	}
	replicas, _ := number(obj, "spec", "replicas")
	s := Status{Awaited: awaited(obj), Text: fmt.Sprintf("%s has rolled out: %d machines", o, replicas)}
	switch {
	case s.Awaited != "" && paused(obj):
		s.Text = fmt.Sprintf("%s is paused, and not rolled out: %s", o, s.Awaited)
	case s.Awaited != "":
		s.Text = fmt.Sprintf("%s is waiting for %s", o, s.Awaited)
	}
	return s, nil
}

// errPaused means that what is awaited cannot happen.
var errPaused = errors.New("it is paused: nothing continues until it is resumed")

// Wait returns when an object has all machines of its spec, up to date and available.
func (c *Client) Wait(ctx context.Context, o Object, progress func(string)) error {
	return c.wait(ctx, progress, func(watched *references.Watcher) (string, error) {
		follow(watched, o.GroupVersionKind(), o.ObjectKey)
		obj, err := c.get(ctx, o)
		if err != nil {
			return "", err
		}
		missing := awaited(obj)
		if missing != "" && paused(obj) {
			return "", errPaused
		}
		return missing, nil
	})
}

// awaited is what is missing of the machines of an object; empty if nothing is.
func awaited(obj *unstructured.Unstructured) string {
	if observed, _ := number(obj, "status", "observedGeneration"); observed < obj.GetGeneration() {
		return "its controller to reconcile it"
	}
	want, _ := number(obj, "spec", "replicas")
	for _, count := range []struct{ field, text string }{
		{"upToDateReplicas", "%d of %d machines to be up to date"},
		{"availableReplicas", "%d of %d machines to be available"},
	} {
		if n, ok := number(obj, "status", count.field); n < want && (ok || want > 0) {
			return fmt.Sprintf(count.text, want-n, want)
		}
	}
	if n, _ := number(obj, "status", "replicas"); n > want {
		return fmt.Sprintf("%d machines to be deleted", n-want)
	}
	return ""
}
