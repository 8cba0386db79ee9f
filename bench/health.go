// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/bench/planes"
	"github.com/capstan-dev/capstan/conditions"
)

// held blocks the deletion of a Machine, so that the cost of the decision is not counted
// together with that of a new Machine.
const held = clusterv1.PreDrainDeleteHookAnnotationPrefix + "/bench"

// watchOver creates a MachineHealthCheck for the workers of each cluster, and waits until
// all of them are found healthy.
func (b *bench) watchOver(ctx context.Context, _ *Result) error {
	if b.scenario.HealthTimeoutSeconds == 0 {
		return nil
	}
	for i := range b.scenario.Clusters {
		name := fmt.Sprintf("bench-%04d", i)
		check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		check.Spec.ClusterName = name
		check.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: name + "-workers"}
		check.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: new(int32(b.scenario.HealthTimeoutSeconds))}}
		if err := b.mgmt.Create(ctx, check); err != nil {
			return err
		}
	}
	return b.until(ctx, func() (int, error) {
		var checks clusterv1.MachineHealthCheckList
		err := b.mgmt.List(ctx, &checks, client.InNamespace(namespace))
		lacking := b.scenario.Clusters * int(b.scenario.Workers)
		for _, c := range checks.Items {
			if c.Status.CurrentHealthy != nil {
				lacking -= int(*c.Status.CurrentHealthy)
			}
		}
		return lacking, err
	})
}

// fail makes Nodes of each cluster unready, all together, and measures the delay until
// each Machine is found unhealthy, and the requests to the API server until all of them
// are being deleted.
func (b *bench) fail(ctx context.Context, r *Result) error {
	if b.scenario.Unhealthy == 0 {
		return nil
	}
	chosen, err := b.choose(ctx)
	if err != nil {
		return err
	}
	decided, err := b.mgmt.Watch(ctx, &clusterv1.MachineList{}, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watch Machines: %w", err)
	}
	defer decided.Stop()
	for _, m := range chosen {
		if err := b.merge(ctx, m, `{"metadata":{"annotations":{"`+held+`":""}}}`); err != nil {
			return err
		}
	}
	before, err := b.settled(ctx)
	if err != nil {
		return err
	}
	for _, m := range chosen {
		host := &unstructured.Unstructured{}
		host.SetAPIVersion(m.Spec.InfrastructureRef.APIGroup + "/v1beta2")
		host.SetKind(m.Spec.InfrastructureRef.Kind)
		host.SetNamespace(namespace)
		host.SetName(m.Spec.InfrastructureRef.Name)
		if err := b.merge(ctx, host, `{"spec":{"simulated":{"faults":["NodeNotReady"]}}}`); err != nil {
			return err
		}
	}
	h, seen, going := &r.Health, map[string]bool{}, map[string]bool{}
	for len(seen) < len(chosen) || len(going) < len(chosen) {
		select {
		case e := <-decided.ResultChan():
			m, ok := e.Object.(*clusterv1.Machine)
			if !ok || chosen[m.Name] == nil {
				continue
			}
			if !m.DeletionTimestamp.IsZero() {
				going[m.Name] = true
			}
			if found := conditions.Get(m, clusterv1.MachineHealthCheckSucceededCondition); !seen[m.Name] && found != nil && found.Status == metav1.ConditionFalse {
				late, err := b.late(found.Message)
				if err != nil {
					return err
				}
				seen[m.Name], h.LateSeconds = true, max(h.LateSeconds, round(late.Seconds()))
			}
		case <-ctx.Done():
			return fmt.Errorf("%d of %d Machines are found unhealthy, and %d are being deleted: %w", len(seen), len(chosen), len(going), ctx.Err())
		}
	}
	after, err := b.settled(ctx)
	if err != nil {
		return err
	}
	q := after.requests.Since(before.requests)
	h.Machines, h.ByVerbAndResource = len(chosen), q.Counts(planes.Counted)
	h.RequestsPerMachine = round(q.Sum(planes.Counted)/float64(len(chosen)) - 1) // without the patch that made it fail
	return b.removeHooks(ctx, chosen)
}

// choose selects the configured number of workers of each cluster.
func (b *bench) choose(ctx context.Context) (map[string]*clusterv1.Machine, error) {
	var machines clusterv1.MachineList
	if err := b.mgmt.List(ctx, &machines, client.InNamespace(namespace), client.HasLabels{clusterv1.MachineDeploymentNameLabel}); err != nil {
		return nil, fmt.Errorf("list Machines: %w", err)
	}
	chosen, of := map[string]*clusterv1.Machine{}, map[string]int{}
	for i := range machines.Items {
		if m := &machines.Items[i]; of[m.Spec.ClusterName] < b.scenario.Unhealthy {
			chosen[m.Name] = m
			of[m.Spec.ClusterName]++
		}
	}
	return chosen, nil
}

// late is how long after its deadline a Machine is found unhealthy. The message contains
// since when the Node has been unready.
func (b *bench) late(message string) (time.Duration, error) {
	_, rest, _ := strings.Cut(message, " since ")
	since, err := time.Parse(time.RFC3339, strings.SplitN(rest, ",", 2)[0])
	if err != nil {
		return 0, fmt.Errorf("read since when a Node is unready in %q: %w", message, err)
	}
	return time.Since(since.Add(seconds(b.scenario.HealthTimeoutSeconds))), nil
}

// removeHooks removes the hook from the Machines, and waits for their replacements.
func (b *bench) removeHooks(ctx context.Context, chosen map[string]*clusterv1.Machine) error {
	for _, m := range chosen {
		if err := b.merge(ctx, m, `{"metadata":{"annotations":{"`+held+`":null}}}`); err != nil {
			return err
		}
	}
	return b.until(ctx, func() (int, error) {
		var machines clusterv1.MachineList
		err := b.mgmt.List(ctx, &machines, client.InNamespace(namespace), client.HasLabels{clusterv1.MachineDeploymentNameLabel})
		lacking := b.scenario.Clusters * int(b.scenario.Workers)
		for i := range machines.Items {
			if m := &machines.Items[i]; chosen[m.Name] == nil && conditions.IsTrue(m, clusterv1.ReadyCondition) {
				lacking--
			}
		}
		return lacking, err
	})
}

func (b *bench) merge(ctx context.Context, obj client.Object, patch string) error {
	if err := b.mgmt.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("patch %s: %w", obj.GetName(), err)
	}
	return nil
}

// until polls each second how many are missing, until none is.
func (b *bench) until(ctx context.Context, lacking func() (int, error)) error {
	for {
		n, err := lacking()
		if err == nil && n <= 0 {
			return nil
		}
		if waited := planes.Pause(ctx, time.Second); waited != nil {
			return errors.Join(fmt.Errorf("%d are lacking: %w", n, waited), err)
		}
	}
}
