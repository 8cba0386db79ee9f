// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
)

// HealthChecks lists the MachineHealthChecks of a Cluster. They are shared with the cache and
// must not be changed.
func HealthChecks(ctx context.Context, mgmt client.Reader, namespace, cluster string) ([]*clusterv1.MachineHealthCheck, error) {
	var list clusterv1.MachineHealthCheckList
	if err := mgmt.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{index.ClusterName: cluster}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list MachineHealthChecks: %w", err)
	}
	return metadata.Pointers(list.Items), nil
}

// HeldForRemediation returns the names of the Machines of a Cluster that were found unhealthy but
// must not be replaced now, and until when. If no Machine is marked for
// remediation, it reads nothing.
func HeldForRemediation(ctx context.Context, mgmt client.Reader, clusters workload.Clusters, o healthcheck.Orders, machines []*clusterv1.Machine) (names []string, until time.Time, err error) {
	if !slices.ContainsFunc(machines, healthcheck.MarkedForRemediation) {
		return nil, until, nil
	}
	if o.Checks, err = HealthChecks(ctx, mgmt, o.Cluster.Namespace, o.Cluster.Name); err != nil {
		return nil, until, err
	}
	o.Answering = clusters.Health(client.ObjectKeyFromObject(o.Cluster)).Answering
	names, until = o.Held(machines)
	return names, until, nil
}
