// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/bench/planes"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/extension/mutation"
	"github.com/capstan-dev/capstan/extension/server"
)

// newFile is what the workers get.
const newFile = "/etc/bench"

// updateInPlace registers an extension that changes files of machines in place
// and needs no time for it, gives the workers of all clusters a file, one at a
// time in each, and measures until all have it.
func (b *bench) updateInPlace(ctx context.Context, r *Result) error {
	if !b.scenario.InPlace {
		return nil
	}
	x, err := b.registerUpdater(ctx)
	if err != nil {
		return err
	}
	defer x.Close()
	for i := range b.scenario.Clusters {
		if err := b.template(ctx, fmt.Sprintf("bench-%04d-workers", i)); err != nil {
			return err
		}
	}
	before, err := b.settled(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	for i := range b.scenario.Clusters {
		md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("bench-%04d-workers", i)}}
		if err := b.merge(ctx, md, fmt.Sprintf(`{"spec":{"rollout":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}},
			"template":{"spec":{"bootstrap":{"configRef":{"name":"%s-2"}}}}}}`, md.Name)); err != nil {
			return err
		}
	}
	if err := b.until(ctx, func() (int, error) { return b.outdated(ctx) }); err != nil {
		return err
	}
	u := &r.InPlace
	u.Machines, u.Seconds = b.scenario.Clusters*int(b.scenario.Workers), round(time.Since(begin).Seconds())
	after, err := b.settled(ctx)
	if err != nil {
		return err
	}
	q, n := after.requests.Since(before.requests), float64(u.Machines)
	u.CPUSecondsPerMachine, u.RequestsPerMachine = round((after.cpu-before.cpu)/n), round(q.Sum(planes.Counted)/n)
	u.Conflicts, u.ByVerbAndResource = q.Sum(planes.IsConflict), q.Counts(planes.Counted)
	u.Replaced = int(q.Sum(func(q planes.Request) bool {
		return q.Verb == "POST" && q.Resource == "machines.cluster.x-k8s.io" && q.Code == "201"
	}))
	return nil
}

// registerUpdater serves the extension, and waits until it is discovered.
func (b *bench) registerUpdater(ctx context.Context) (*httptest.Server, error) {
	s, err := server.New(server.Options{})
	if err != nil {
		return nil, err
	}
	can := mutation.InPlace{Bootstrap: []string{"files"}}
	if err := errors.Join(
		server.Handle(s, hooksv1.CanUpdateMachine, can.CanUpdateMachine),
		server.Handle(s, hooksv1.CanUpdateMachineSet, can.CanUpdateMachineSet),
		server.Handle(s, hooksv1.UpdateMachine, func(context.Context, *hooksv1.UpdateMachineRequest, *hooksv1.UpdateMachineResponse) error { return nil }),
	); err != nil {
		return nil, err
	}
	x := httptest.NewTLSServer(s)
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "in-place"}}
	config.Spec.ClientConfig.URL = x.URL
	config.Spec.ClientConfig.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: x.Certificate().Raw})
	if err = b.mgmt.Create(ctx, config); err == nil {
		err = until(ctx, func() (bool, error) {
			err := b.mgmt.Get(ctx, client.ObjectKeyFromObject(config), config)
			return conditions.IsTrue(config, runtimev1.ExtensionConfigDiscoveredCondition), err
		})
	}
	if err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// template creates another template of bootstrap configs, with an additional
// file.
func (b *bench) template(ctx context.Context, name string) error {
	t := &unstructured.Unstructured{}
	t.SetGroupVersionKind(bootstrapv1.GroupVersion().WithKind("KubeadmConfigTemplate"))
	if err := b.mgmt.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, t); err != nil {
		return fmt.Errorf("get KubeadmConfigTemplate %s: %w", name, err)
	}
	next := &unstructured.Unstructured{Object: map[string]any{"spec": t.Object["spec"]}}
	next.SetGroupVersionKind(t.GroupVersionKind())
	next.SetNamespace(namespace)
	next.SetName(name + "-2")
	next.SetLabels(t.GetLabels())
	file := map[string]any{"path": newFile, "content": "new"}
	if err := unstructured.SetNestedSlice(next.Object, []any{file}, "spec", "template", "spec", "files"); err != nil {
		return err
	}
	return b.mgmt.Create(ctx, next)
}

// outdated counts the workers that are still to be updated, or are not ready.
func (b *bench) outdated(ctx context.Context) (int, error) {
	var deployments clusterv1.MachineDeploymentList
	err := b.mgmt.List(ctx, &deployments, client.InNamespace(namespace))
	lacking := b.scenario.Clusters * int(b.scenario.Workers)
	for _, d := range deployments.Items {
		if d.Status.ObservedGeneration == d.Generation && d.Status.UpToDateReplicas != nil && conditions.IsFalse(&d, clusterv1.RollingOutCondition) {
			lacking -= int(*d.Status.UpToDateReplicas)
		}
	}
	return lacking, err
}
