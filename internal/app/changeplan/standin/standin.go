// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/sim"
)

// Options configure an Outside.
type Options struct {
	Clock *sim.Clock
	// Objects are those of the management cluster.
	Objects []client.Object
	// Workloads are what was read from workload clusters. The Nodes of others are those
	// that their Machines report.
	Workloads map[client.ObjectKey]*Snapshot
	// Boot is how long a machine takes to become a Node.
	Boot time.Duration
	// Reads collect what is read of workload clusters.
	Reads *sim.Reads
	// Extensions call those whose answers decide; nil calls none.
	Extensions extensions.Poster
}

// Outside is everything outside a management cluster.
type Outside struct {
	workloads *workloads
	infra     *infrastructure
	reads     *sim.Reads
	hooks     *hooks
}

// New creates an Outside.
func New(ctx context.Context, o Options) (*Outside, error) {
	w := newWorkloads(o.Clock, o.Reads)
	out := &Outside{
		workloads: w, reads: o.Reads,
		infra: &infrastructure{workloads: w, boot: o.Boot, due: map[types.UID]time.Time{}},
		hooks: &hooks{clock: o.Clock, start: o.Clock.Now(), real: o.Extensions, update: max(o.Boot, leastUpdate), updates: map[types.UID]time.Time{}},
	}
	for key, from := range o.Workloads {
		if err := w.get(key).load(ctx, *from); err != nil {
			return nil, err
		}
	}
	for _, obj := range o.Objects {
		m, is := obj.(*clusterv1.Machine)
		if !is || !m.Status.NodeRef.IsDefined() {
			continue
		}
		key := client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}
		if err := w.get(key).represent(ctx, m); err != nil {
			return nil, err
		}
	}
	for _, obj := range o.Objects { // after Machines, which have the Nodes of some pools
		if p, is := obj.(*clusterv1.MachinePool); is {
			if err := w.get(client.ObjectKey{Namespace: p.Namespace, Name: p.Spec.ClusterName}).representPool(ctx, p); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Fill has the controllers of a world reach this instead of anything real.
func (out *Outside) Fill(o *sim.Options) {
	o.Workload = func(client.Client) workload.Clusters { return out.workloads }
	o.Etcd, o.CertificateExpiry = out.workloads, out.workloads.certificateExpiry
	o.Act = out.infra.act
	o.Calls = out.hooks
	o.Admit = Admission(o.Definitions, o.Objects)
	o.Reads = out.reads
	o.Namespaces = func(_ context.Context, name string) (map[string]string, error) {
		for _, obj := range o.Objects {
			if ns, is := obj.(*corev1.Namespace); is && ns.Name == name {
				return ns.Labels, nil
			}
		}
		return nil, nil
	}
	o.Runs = func(c controllers.Controller) bool {
		return (c.Provider == controllers.Core || c.Provider == controllers.Kubeadm) && !notRun[c.Name]
	}
}

// notRun are controllers of definitions and extensions, which stay as they are.
var notRun = map[string]bool{"crdmigrator-core": true, "crdmigrator-kubeadm": true, "extensionconfig": true}

// TooMany is an error if a copy would have more Machines than a plan can.
func (out *Outside) TooMany() error { return out.infra.tooMany }

// Busy reports whether a machine boots or is updated.
func (out *Outside) Busy() bool {
	for _, all := range []map[types.UID]time.Time{out.infra.due, out.hooks.updates} {
		for _, at := range all {
			if at.After(out.workloads.clock.Now()) {
				return true
			}
		}
	}
	return false
}

// UpdateTakes is how long an update of a Machine in place is assumed to take.
func (out *Outside) UpdateTakes() time.Duration { return out.hooks.update }

// Hooks are the calls of lifecycle hooks so far.
func (out *Outside) Hooks() []planv1.Hook { return out.hooks.calls }

// NotAsked names the first hook whose answer decides and that could not be called; ""
// if there is none.
func (out *Outside) NotAsked() string { return out.hooks.failed }
