// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/claim"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
)

// fieldOwner signs what the controller writes on Machines and what they refer to.
const fieldOwner = "capi-kubeadmcontrolplane"

// state is what one reconcile knows. observe reads the management cluster;
// phases add what they find.
type state struct {
	kubeadmcontrolplane.Facts

	workers  []string                               // names of the Cluster's other machines
	orphans  []*clusterv1.Machine                   // of the control plane, controlled by nobody
	commits  map[string]func(context.Context) error // of machines, by name
	before   map[string]*clusterv1.MachineStatus    // of machines, as they were read
	template *provider.Object                       // of infrastructure machines; nil if it is not there
	problem  string                                 // with the template
	pairs    map[certs.Purpose]certs.Pair           // certificates; nil until they are known to be there
	certsErr error                                  // why they are not
	health   workload.Health                        // of the connection
	client   client.Client                          // of the workload cluster; nil while not connected
	etcd     inspection                             // of etcd; zero where nobody asked
	action   kubeadmcontrolplane.Action             // planned
	blocked  []string                               // what stands in the way of it
	held     []string                               // which machines may not terminate yet, and why
	deleting deleting                               // how far the deletion is
	wake     time.Time                              // when something is due that no watch will tell
	pending  map[string]bool                        // machines whose conditions are not to be written yet
}

// deleting says how far the deletion of the control plane is.
type deleting struct{ reason, message string }

func (s *state) key() client.ObjectKey { return client.ObjectKeyFromObject(s.Cluster) }

// due asks for a reconcile at a time, for what no watch will tell.
func (s *state) due(at time.Time) {
	if !at.IsZero() && (s.wake.IsZero() || at.Before(s.wake)) {
		s.wake = at
	}
}

func (s *state) wakeFor(res ctrl.Result) ctrl.Result {
	if s.wake.IsZero() {
		return res
	}
	after := max(s.wake.Sub(s.Now), time.Millisecond)
	if res.RequeueAfter == 0 || after < res.RequeueAfter {
		res.RequeueAfter = after
	}
	return res
}

func (r *Reconciler) observe(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) (*state, error) {
	s := &state{Facts: kubeadmcontrolplane.Facts{ControlPlane: kcp, Now: r.Clock.Now()}, commits: map[string]func(context.Context) error{}, before: map[string]*clusterv1.MachineStatus{}, pending: map[string]bool{}}
	var err error
	if s.Cluster, err = owner.Cluster(ctx, r.Mgmt, kcp); err != nil {
		return s, err
	}
	if s.Cluster == nil && kcp.DeletionTimestamp.IsZero() {
		return s, nil
	}
	if s.Cluster == nil {
		// It has gone first, or never came. Its name is all that is needed to end.
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
		if !isControlPlane(m) {
			s.workers = append(s.workers, m.Name)
			continue
		}
		switch keeper := metav1.GetControllerOfNoCopy(m); {
		case keeper == nil:
			s.orphans = append(s.orphans, m)
		case metav1.IsControlledBy(m, kcp):
			if err := r.observeMachine(ctx, s, m); err != nil {
				return nil, err
			}
		}
	}
	kubeadmcontrolplane.Sort(s.Machines)
	return s, nil
}

// observeTemplate tells a template that is not there, or cannot be, from a
// failure to read it.
func (r *Reconciler) observeTemplate(ctx context.Context, s *state) error {
	ref := s.ControlPlane.Spec.MachineTemplate.Spec.InfrastructureRef
	err := r.Providers.Watch(ctx, ref, provider.Wake{Controller: name, Watcher: r.watcher, List: &controlplanev1.KubeadmControlPlaneList{}})
	var t *provider.Object
	if err == nil {
		t, err = r.Providers.Template(ctx, s.Cluster, ref, claim.MachineInfrastructure)
	}
	_, unusable := errors.AsType[*provider.KindError](err)
	switch {
	case err == nil:
		s.template = t
	case apierrors.IsNotFound(err):
		s.problem = fmt.Sprintf("%s %s, named by spec.machineTemplate.spec.infrastructureRef, does not exist: create it or correct the reference", ref.Kind, ref.Name)
	case provider.Refused(err):
		s.problem = "spec.machineTemplate.spec.infrastructureRef: " + err.Error()
	case unusable:
		s.problem = "spec.machineTemplate.spec.infrastructureRef: " + err.Error()
		s.due(s.Now.Add(repairInterval)) // CRDs are not watched
	default:
		return err
	}
	return nil
}

// observeMachine adds what a machine was made from. What is not there stays nil.
func (r *Reconciler) observeMachine(ctx context.Context, s *state, m *clusterv1.Machine) error {
	s.commits[m.Name] = patch.Remember(r.Mgmt, m, patch.Locked, patch.As(fieldOwner))
	s.before[m.Name] = m.Status.DeepCopy()
	out := &kubeadmcontrolplane.Machine{Machine: m}
	s.Machines = append(s.Machines, out)
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
	return nil
}

func clonedFrom(infra *provider.Object) *kubeadmcontrolplane.Source {
	a := infra.GetAnnotations()
	from := kubeadmcontrolplane.Source{Name: a[clusterv1.TemplateClonedFromNameAnnotation], GroupKind: a[clusterv1.TemplateClonedFromGroupKindAnnotation]}
	if from.Name == "" || from.GroupKind == "" {
		return nil
	}
	return &from
}

// commitMachines writes what changed on machines. Of those whose report is not
// complete yet, the status has to wait.
func (r *Reconciler) commitMachines(ctx context.Context, s *state) error {
	var errs []error
	for _, m := range s.Machines {
		commit := s.commits[m.Name]
		if commit == nil {
			continue // made just now
		}
		if s.pending[m.Name] {
			m.Status = *s.before[m.Name]
		}
		errs = append(errs, commit(ctx))
	}
	return errors.Join(errs...)
}

// commitNow writes what changed on a machine before something else is done to it.
func (s *state) commitNow(ctx context.Context, m *kubeadmcontrolplane.Machine) error {
	commit := s.commits[m.Name]
	delete(s.commits, m.Name)
	if commit == nil || s.pending[m.Name] {
		return nil
	}
	return commit(ctx)
}
