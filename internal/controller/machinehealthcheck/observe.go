// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/machines"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
)

// state has what one reconcile has read. observe and the phases fill it; report
// reads nothing else.
type state struct {
	healthcheck.Facts

	templateObj *provider.Object // nil: not found, not needed, or not usable
	templateErr error            // why it could not be read
	decided     bool             // decision is from this reconcile
	decision    healthcheck.Decision
}

// observe reads from the management cluster's cache.
func (r *Reconciler) observe(ctx context.Context, check *clusterv1.MachineHealthCheck) (*state, error) {
	s := &state{Facts: healthcheck.Facts{Check: check, Now: r.Clock.Now(), Observed: map[string]healthcheck.Observed{}}}
	var err error
	if s.Cluster, err = owner.ClusterByName(ctx, r.Mgmt, check.Namespace, check.Spec.ClusterName); err != nil || s.Cluster == nil {
		return s, err
	}
	// Only copies of these objects are changed.
	var list clusterv1.MachineList
	if err := r.Mgmt.List(ctx, &list, client.InNamespace(check.Namespace), client.MatchingFields{index.ClusterName: check.Spec.ClusterName}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Machines: %w", err)
	}
	checks, err := machines.HealthChecks(ctx, r.Mgmt, check.Namespace, check.Spec.ClusterName)
	if err != nil {
		return nil, err
	}
	s.Selection, err = healthcheck.Select(check, metadata.Pointers(list.Items), checks)
	return s, err
}

// nodes reads the Nodes of the targets, if their cluster answers.
func (r *Reconciler) nodes(ctx context.Context, s *state) (reconciler.Next, error) {
	key := client.ObjectKeyFromObject(s.Cluster)
	health := r.Workload.Health(key)
	s.Connection = healthcheck.Connection{Answering: health.Answering}
	if after := health.Untried(s.Now); after > 0 {
		s.Connection.Untried = s.Now.Add(after)
	}
	if health.Answering.IsZero() {
		return reconciler.Continue(), nil // the Source triggers a reconcile
	}
	workloadClient, err := r.Workload.Client(ctx, key)
	if errors.Is(err, workload.ErrNotConnected) {
		s.Connection.Answering = time.Time{}
		return reconciler.Continue(), nil
	}
	if err != nil {
		return reconciler.Continue(), err
	}
	for _, m := range s.Selection.Targets {
		if !m.Status.NodeRef.IsDefined() || !m.DeletionTimestamp.IsZero() {
			continue
		}
		node, err := findNode(ctx, workloadClient, m)
		if err != nil {
			return reconciler.Continue(), err
		}
		s.Observed[m.Name] = healthcheck.Observed{Node: node}
	}
	return reconciler.Continue(), nil
}

// findNode returns the Node of a Machine, nil if there is none. A Node that is not
// in the cache is read from the API server, to be certain; a Node that was found to
// be deleted is not read again: if it returned, the cache would have it.
func findNode(ctx context.Context, workloadClient client.Client, m *clusterv1.Machine) (*corev1.Node, error) {
	if m.Spec.ProviderID != "" && conditions.Reason(m, clusterv1.MachineHealthCheckSucceededCondition) == clusterv1.MachineHealthCheckNodeDeletedReason {
		var nodes corev1.NodeList
		if err := workloadClient.List(ctx, &nodes, client.MatchingFields{workload.NodeByProviderID: m.Spec.ProviderID}); err != nil {
			return nil, fmt.Errorf("list Nodes by spec.providerID %s: %w", m.Spec.ProviderID, err)
		}
		for i := range nodes.Items {
			if nodes.Items[i].Name == m.Status.NodeRef.Name {
				return &nodes.Items[i], nil
			}
		}
		return nil, nil
	}
	node := &corev1.Node{}
	err := workloadClient.Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get Node %s: %w", m.Status.NodeRef.Name, err)
	}
	return node, nil
}
