// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/pure/podstatus"
)

const (
	// managerContainer is the name that the contract gives the container of a
	// provider's controllers.
	managerContainer = "manager"
	// lookPeriod is the time between two reads of Deployments: they are few, and become
	// ready within seconds.
	lookPeriod = 100 * time.Millisecond
	// lastLook is how long reading Pods may take after the wait has ended.
	lastLook = 5 * time.Second
)

// Deployments returns the Deployments among objects.
func Deployments(objects []*unstructured.Unstructured) (all []*unstructured.Unstructured) {
	for _, obj := range objects {
		if is(obj, deploymentKind()) {
			all = append(all, obj)
		}
	}
	return all
}

// Managers returns those of objects that are Deployments of controllers.
func Managers(objects []*unstructured.Unstructured) (managers []*unstructured.Unstructured) {
	for _, obj := range Deployments(objects) {
		containers, _, _ := contract.At[[]any]("spec.template.spec.containers").Get(obj)
		for _, container := range containers {
			if m, ok := container.(map[string]any); ok && m["name"] == managerContainer {
				managers = append(managers, obj)
				break
			}
		}
	}
	return managers
}

// WaitAvailable returns when all of the Deployments are Available. It ends with ctx; the
// error then names what is awaited, and the problems that the Pods report.
func (c *Cluster) WaitAvailable(ctx context.Context, deployments []*unstructured.Unstructured) error {
	err := c.wait(ctx, deployments, func(live *unstructured.Unstructured, found bool) (waitsFor string) {
		if !found {
			return "it is not there"
		}
		all, _ := conditions.FromUnstructured(live) // conditions that cannot be read are ignored
		switch {
		case conditions.IsTrue(all, "Available"):
			return ""
		case conditions.Has(all, "Available"):
			return conditions.Message(all, "Available")
		}
		return "no controller of Deployments has observed it"
	})
	if err == nil || ctx.Err() == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	return errors.Join(err, c.troubles(ctx, deployments))
}

// troubles returns the problems that the Pods of Deployments that are not ready report.
// It adds to an error: what cannot be read is left out.
func (c *Cluster) troubles(ctx context.Context, deployments []*unstructured.Unstructured) error {
	var all []error
	for _, d := range deployments {
		labels, _, _ := unstructured.NestedStringMap(d.Object, "spec", "selector", "matchLabels")
		list := &corev1.PodList{}
		if len(labels) == 0 || c.mgmt.List(ctx, list, client.InNamespace(d.GetNamespace()), client.MatchingLabels(labels)) != nil {
			continue
		}
		for i := range list.Items {
			if trouble := podstatus.Trouble(&list.Items[i]); trouble != "" {
				all = append(all, fmt.Errorf("Pod %s/%s: %s", list.Items[i].Namespace, list.Items[i].Name, trouble))
			}
		}
	}
	return errors.Join(all...)
}

// Stop scales Deployments to zero and returns when none of their Pods is left.
func (c *Cluster) Stop(ctx context.Context, deployments []*unstructured.Unstructured) error {
	for _, d := range deployments {
		scaled := d.DeepCopy()
		err := c.patiently(ctx, func() error {
			return c.mgmt.Patch(ctx, scaled, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`)), client.FieldOwner(fieldOwner))
		})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("scale %s to 0: %w", Name(d), err)
		}
	}
	return c.wait(ctx, deployments, func(live *unstructured.Unstructured, found bool) (waitsFor string) {
		running, _, _ := contract.At[int64]("status.replicas").Get(live)
		if !found || running == 0 {
			return ""
		}
		return fmt.Sprintf("%d Pods still run", running)
	})
}

// wait reads Deployments until none waits for anything.
func (c *Cluster) wait(ctx context.Context, deployments []*unstructured.Unstructured, waitsFor func(live *unstructured.Unstructured, found bool) string) error {
	var awaited []string
	for {
		var now []string
		for _, d := range deployments {
			live := d.DeepCopy()
			err := c.mgmt.Get(ctx, client.ObjectKeyFromObject(d), live)
			if ctx.Err() != nil {
				return tooLong(ctx, awaited)
			}
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("get %s: %w", Name(d), err)
			}
			if text := waitsFor(live, !apierrors.IsNotFound(err)); text != "" {
				now = append(now, Name(d)+": "+text)
			}
		}
		if awaited = now; len(awaited) == 0 {
			return nil
		}
		if lifecycle.Sleep(ctx, lookPeriod) != nil {
			return tooLong(ctx, awaited)
		}
	}
}

func tooLong(ctx context.Context, awaited []string) error {
	return errors.Join(context.Cause(ctx), errors.New("still waiting for:\n* "+strings.Join(awaited, "\n* ")))
}
