// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/kubeadmaddons"
	"github.com/capstan-dev/capstan/internal/access/podforward"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// initInterval is how often kubeadm's ConfigMap is read, between a first connection
// and the end of kubeadm init.
const initInterval = time.Second

// inspect reads the state of the machines' components in the workload cluster.
func (r *Reconciler) inspect(ctx context.Context, s *state) (reconciler.Next, error) {
	next, err := r.look(ctx, s)
	for _, m := range s.Machines {
		m.Health = controlplane.Assess(s.Facts, m)
	}
	return next, err
}

func (r *Reconciler) look(ctx context.Context, s *state) (reconciler.Next, error) {
	c, err := r.Workload.Client(ctx, s.key())
	health := r.Workload.Health(s.key())
	s.Workload.Why = health.Why()
	switch {
	case errors.Is(err, workload.ErrNotConnected):
		// If it is initialized, it has answered before, perhaps to an earlier
		// process.
		s.Workload.LastProbe, s.Workload.Since = health.LastProbeSuccess, health.GraceStarts(true)
		return reconciler.Continue(), nil
	case err != nil:
		return reconciler.Continue(), err
	}
	s.client, s.Workload.Connected = c, true
	if !controlplane.Initialized(s.ControlPlane) {
		if next, err := r.initialize(ctx, s); err != nil || !controlplane.Initialized(s.ControlPlane) {
			return next, err
		}
	}
	return reconciler.Continue(), r.inspectMachines(ctx, s)
}

// initialize latches that kubeadm init has finished.
func (r *Reconciler) initialize(ctx context.Context, s *state) (reconciler.Next, error) {
	if !controlplane.Starting(s.Machines) {
		return reconciler.Continue(), nil
	}
	err := s.client.Get(ctx, kubeadmaddons.KubeadmConfig, &corev1.ConfigMap{})
	if apierrors.IsNotFound(err) {
		return reconciler.RequeueAfter(initInterval), nil
	}
	if err != nil {
		return reconciler.Continue(), fmt.Errorf("get ConfigMap %s of the workload cluster: %w", kubeadmaddons.KubeadmConfig, err)
	}
	s.ControlPlane.Status.Initialization.ControlPlaneInitialized = new(true)
	ctrl.LoggerFrom(ctx).Info("Control plane is initialized")
	return reconciler.Continue(), nil
}

func (r *Reconciler) inspectMachines(ctx context.Context, s *state) error {
	var pods corev1.PodList
	if err := s.client.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"tier": "control-plane"}); err != nil {
		return fmt.Errorf("list control plane Pods of the workload cluster: %w", err)
	}
	byName, nodes := make(map[string]*corev1.Pod, len(pods.Items)), map[string]*corev1.Node{}
	for i := range pods.Items {
		byName[pods.Items[i].Name] = &pods.Items[i]
	}
	for _, m := range s.Machines {
		if m.Node() == "" {
			continue
		}
		var node corev1.Node
		switch err := s.client.Get(ctx, client.ObjectKey{Name: m.Node()}, &node); {
		case err == nil:
			nodes[m.Node()] = &node
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("get Node %s of the workload cluster: %w", m.Node(), err)
		}
	}
	s.Workload.Inspected, s.Workload.Nodes, s.Workload.Pods = true, nodes, byName
	if controlplane.ManagesEtcd(s.ControlPlane) {
		s.Etcd = r.inspectEtcd(ctx, s)
	}
	return nil
}

// unreadable are API servers whose certificates could not be read, or are as
// recorded, and when to check them again; zero for never.
type unreadable map[shown]time.Time

// shown is an API server, by the UID of its Pod, with the recorded expiry of its
// certificate; empty if there is none.
type shown struct {
	pod  types.UID
	ends string
}

// renewals checks certificates that expire soon again, before their machine is
// replaced for it: an administrator may have renewed them on the machine. The new
// expiry is then copied to the Machine, which triggers a reconcile.
func (r *Reconciler) renewals(ctx context.Context, s *state) (reconciler.Next, error) {
	ending := controlplane.Ending(s.Facts)
	before := apiServersOf(s, ending)
	next, err := r.observeCertificates(ctx, s, ending)
	if !slices.Equal(before, apiServersOf(s, ending)) {
		return reconciler.Wait(0), err
	}
	return next, err
}

// expiries records when the certificates of the machines expire, on the
// KubeadmConfigs of the machines. From there it is copied to the Machines, where
// the rollout reads it.
func (r *Reconciler) expiries(ctx context.Context, s *state) (reconciler.Next, error) {
	return r.observeCertificates(ctx, s, controlplane.Undated(s.Facts))
}

// observeCertificates records when the certificates of some machines expire. An API
// server that presents none is no failure of the control plane: it is checked again
// after a while.
func (r *Reconciler) observeCertificates(ctx context.Context, s *state, machines []*controlplane.Machine) (reconciler.Next, error) {
	var ask []*controlplane.Machine
	last, known, next := r.unreadable.Get(s.ControlPlane), unreadable{}, reconciler.Continue()
	for _, server := range apiServersOf(s, s.Machines) {
		if again, tried := last[server]; tried {
			known[server] = again
		}
	}
	for _, m := range machines {
		again, tried := known[apiServerOf(s, m)]
		switch {
		case !tried || !again.IsZero() && !s.Now.Before(again):
			ask = append(ask, m)
		case !again.IsZero():
			next = reconciler.RequeueAfter(again.Sub(s.Now))
		}
	}
	if len(ask) == 0 {
		return next, nil
	}
	config, err := r.Workload.Config(s.key())
	if err != nil {
		return reconciler.Continue(), nil // it was connected a moment ago; the lost connection triggers a reconcile
	}
	found, failed := make([]time.Time, len(ask)), make([]error, len(ask))
	var asking sync.WaitGroup // concurrently, so that one that hangs does not delay the others
	for n, m := range ask {
		t := podforward.Target{
			Cluster: s.key().String(), Config: config, CA: s.ca.Cert,
			Node: m.Node(), Port: controlplane.APIServerPort(m.Config.Spec),
		}
		asking.Go(func() {
			failed[n] = recovery.Call(ctx, func() (err error) {
				found[n], err = r.CertificateExpiry(ctx, t)
				return err
			})
		})
	}
	asking.Wait()
	var errs []error
	for n, m := range ask {
		server := apiServerOf(s, m)
		switch err := failed[n]; {
		case err == nil:
			if errs = append(errs, r.date(ctx, m, found[n])); server == apiServerOf(s, m) {
				known[server] = time.Time{}
			}
			continue
		case errors.Is(err, podforward.ErrForeign):
			known[server] = time.Time{}
		default:
			known[server], next = s.Now.Add(repairInterval), reconciler.RequeueAfter(repairInterval)
		}
		ctrl.LoggerFrom(ctx).V(2).Info("Not knowing when the certificates of a machine end", "Machine", m.Name, "reason", failed[n].Error())
	}
	r.unreadable.Set(s.ControlPlane, known)
	return next, errors.Join(errs...)
}

// apiServerOf returns the API server of a machine.
func apiServerOf(s *state, m *controlplane.Machine) (server shown) {
	if p := s.Workload.Pods["kube-apiserver-"+m.Node()]; p != nil && m.Config != nil {
		server = shown{p.UID, m.Config.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation]}
	}
	return server
}

func apiServersOf(s *state, machines []*controlplane.Machine) (all []shown) {
	for _, m := range machines {
		all = append(all, apiServerOf(s, m))
	}
	return all
}

// date writes the annotation. It does not use the field manager of the template's
// annotations: their synchronization would remove it.
func (r *Reconciler) date(ctx context.Context, m *controlplane.Machine, end time.Time) error {
	commit := patch.Snapshot(r.Mgmt, m.Config)
	metav1.SetMetaDataAnnotation(&m.Config.ObjectMeta, clusterv1.MachineCertificatesExpiryDateAnnotation, end.UTC().Format(time.RFC3339))
	if err := commit(ctx); err != nil {
		return fmt.Errorf("note when the certificates of Machine %s end: %w", m.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Noted when the certificates of a machine end", "Machine", m.Name, "end", end.UTC())
	return nil
}
