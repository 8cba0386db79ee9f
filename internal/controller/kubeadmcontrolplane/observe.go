// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/v1beta1status"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// fieldOwner is the field manager of the controller's writes to Machines and the
// objects to which they refer.
const fieldOwner = metadata.KubeadmControlPlanes

// state has what one reconcile has read. observe reads the management cluster;
// phases add what they read.
type state struct {
	controlplane.Facts

	controlplane.Outcome

	owned     []*machine           // the Machines of Facts, with their pending writes
	workers   []string             // names of the Cluster's other machines
	orphans   []*clusterv1.Machine // of the control plane, which does not control them
	template  *provider.Object     // of infrastructure machines; nil if not found
	unwatched bool                 // no watch will report when the template can be used
	ca        certs.Pair           // of the cluster; without a key until it is found to exist
	etcdCA    certs.Pair           // the same of etcd
	client    client.Client        // of the workload cluster; nil while not connected
	untaken   bool                 // it is not being deleted, and its Cluster does not own it yet
	due       time.Time            // when the next report is due; zero if only after a change

	deprecated bool                      // machines are reported to clients of v1beta1 too
	notCreated v1beta1conditions.Failure // why a machine could not be created
}

// machine is a Machine of the control plane, with the write of its changes.
type machine struct {
	*controlplane.Machine
	commit patch.Commit // nil once it has been written
}

func (s *state) key() client.ObjectKey { return client.ObjectKeyFromObject(s.Cluster) }

func (r *Reconciler) observe(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) (*state, error) {
	s := &state{Facts: controlplane.Facts{ControlPlane: kcp, Now: r.Clock.Now()}, deprecated: r.Deprecated}
	s.Etcd.Err = workload.ErrNotConnected // until the first request
	var err error
	if s.Cluster, err = owner.Cluster(ctx, r.Mgmt, kcp); err != nil {
		return nil, err
	}
	if s.Cluster == nil && kcp.DeletionTimestamp.IsZero() {
		return nil, nil // its Cluster triggers a reconcile
	}
	if s.Cluster == nil {
		// It was deleted first, or never created. The deletion needs only its name.
		s.Cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: kcp.Namespace, Name: kcp.Labels[clusterv1.ClusterNameLabel]}}
	}
	if err := r.observeTemplate(ctx, s); err != nil {
		return nil, err
	}
	var list clusterv1.MachineList
	err = r.Mgmt.List(ctx, &list, client.InNamespace(kcp.Namespace), client.MatchingFields{index.ClusterName: s.Cluster.Name})
	if err != nil {
		return nil, fmt.Errorf("list Machines: %w", err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		switch {
		case metav1.IsControlledBy(m, kcp): // also one that has lost its label, which it gets back
			if err := r.observeMachine(ctx, s, m); err != nil {
				return nil, err
			}
		case isControlPlane(m):
			s.orphans = append(s.orphans, m)
		default:
			s.workers = append(s.workers, m.Name)
		}
	}
	controlplane.Sort(s.Machines)
	return s, nil
}

// observeTemplate distinguishes a template that is not found, or cannot exist, from
// a failure to read it.
func (r *Reconciler) observeTemplate(ctx context.Context, s *state) error {
	t := provider.Reference{
		Ref:   s.ControlPlane.Spec.MachineTemplate.Spec.InfrastructureRef,
		Role:  reference.MachineInfrastructure,
		Field: "spec.machineTemplate.spec.infrastructureRef",
	}
	err := r.Providers.LookTemplate(ctx, s.Cluster, &t, provider.Trigger{Controller: name, Watcher: r.watcher, List: &controlplanev1.KubeadmControlPlaneList{}})
	if _, unusable := errors.AsType[*provider.KindError](err); unusable {
		s.unwatched = true // CRDs are not watched
	} else if err != nil {
		return err
	}
	s.template, s.Template = t.Obj, t.Known().Problem()
	return nil
}

// observeMachine adds the objects from which a machine was created. Objects that
// are not found stay nil.
func (r *Reconciler) observeMachine(ctx context.Context, s *state, m *clusterv1.Machine) error {
	out := &controlplane.Machine{Machine: m, Reported: m.GetConditions(), Health: m.GetConditions()}
	s.Machines = append(s.Machines, out)
	s.owned = append(s.owned, &machine{out, patch.Snapshot(r.Mgmt, m, patch.Locked, patch.As(fieldOwner))})
	if ref := m.Spec.InfrastructureRef; ref.IsDefined() {
		infra, err := r.Providers.Get(ctx, m.Namespace, ref)
		_, unusable := errors.AsType[*provider.KindError](err)
		switch {
		case err == nil:
			out.Source = clonedFrom(infra)
		case !apierrors.IsNotFound(err) && !unusable:
			return err
		}
	}
	if ref := m.Spec.Bootstrap.ConfigRef; ref.IsDefined() {
		config := &bootstrapv1.KubeadmConfig{}
		key := client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}
		switch err := r.Mgmt.Get(ctx, key, config); {
		case err == nil:
			out.Config = config
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("get KubeadmConfig %s: %w", key, err)
		}
	}
	out.Comparison = controlplane.Compare(s.ControlPlane, out, s.Now)
	return nil
}

func clonedFrom(infra *provider.Object) *controlplane.Source {
	a := infra.GetAnnotations()
	from := controlplane.Source{Name: a[clusterv1.TemplateClonedFromNameAnnotation], GroupKind: a[clusterv1.TemplateClonedFromGroupKindAnnotation]}
	if from.Name == "" || from.GroupKind == "" {
		return nil
	}
	return &from
}

// report computes the status of the control plane, and the conditions of its
// machines.
func (s *state) report(failed error) {
	s.Failed = failed != nil
	s.ControlPlane.Status, s.due = controlplane.Report(s.Facts, s.Outcome)
	for _, m := range s.owned {
		s.reportMachine(m)
	}
}

func (s *state) reportMachine(m *machine) {
	all, write := controlplane.ReportMachine(s.Facts, s.Outcome, m.Machine)
	if !write {
		return
	}
	m.SetConditions(all)
	if s.deprecated {
		v1beta1status.ReportMachine(s.Facts, m.Machine)
	}
}

// reportDeprecated sets the fields of the control plane for clients of v1beta1.
func (s *state) reportDeprecated(error) {
	v1beta1status.Report(v1beta1status.Status{Facts: s.Facts, NotCreated: s.notCreated})
}

// commitMachines writes the changes of machines.
func (s *state) commitMachines(ctx context.Context) error {
	var errs []error
	for _, m := range s.owned {
		errs = append(errs, m.write(ctx))
	}
	return errors.Join(errs...)
}

// commitNow writes the changes of a machine before another action on it.
func (s *state) commitNow(ctx context.Context, of *controlplane.Machine) error {
	for _, m := range s.owned {
		if m.Machine == of {
			s.reportMachine(m)
			return m.write(ctx)
		}
	}
	return nil
}

func (m *machine) write(ctx context.Context) error {
	commit := m.commit
	if m.commit = nil; commit == nil {
		return nil
	}
	return commit(ctx)
}
