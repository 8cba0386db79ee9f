// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/bootstrap"
)

// How long kubeadm waits by default: timeouts.discovery, timeouts.etcdAPICall
// and timeouts.controlPlaneComponentHealthCheck or timeouts.tlsBootstrap.
const (
	discoveryTimeout = 5 * time.Minute
	etcdTimeout      = 2 * time.Minute
	healthTimeout    = 4 * time.Minute
)

// waiting means that a step may work later, and when it gives up.
type waiting struct {
	err   error
	limit time.Duration
}

func (w *waiting) Error() string { return w.err.Error() }
func (w *waiting) Unwrap() error { return w.err }

// broken is an error of the simulation itself, which is no result of the machine's
// user data: the step is retried at the next call.
type broken struct{ err error }

func (b *broken) Error() string { return b.err.Error() }
func (b *broken) Unwrap() error { return b.err }

// advance lets a machine do the steps that are due, and reports whether it
// proceeded.
func (c *cluster) advance(m *machine) (moved bool, err error) {
	for !m.finished() {
		if m.off() || m.next() == stepBoot && (m.has(infrav1.MachineFaultNeverBoots) || c.has(infrav1.ClusterFaultMachinesNeverBoot)) {
			m.sleep()
			return moved, nil
		}
		now := c.b.clock.Now()
		if m.Due.IsZero() {
			m.Due = now.Add(c.delay(m))
			m.dirty = m.dirty || m.Due.After(now)
		}
		if now.Before(m.Due) {
			if m.timer == nil {
				c.setTimer(m, m.Due)
			}
			return moved, nil
		}
		m.sleep()
		step := m.next()
		// A panic fails the machine, as an error of its step: it does not do it again.
		err := recovery.Call(c.b.ctx, func() error { return c.do(m, step) })
		var w *waiting
		var b *broken
		switch {
		case err == nil:
			m.Steps++
			m.Due, m.Until, m.Waiting = time.Time{}, time.Time{}, ""
		case errors.As(err, &b):
			return moved, b.err
		case errors.As(err, &w) && c.patient(m, w, now):
			return moved, nil
		default:
			m.Failure, m.Waiting = err.Error(), ""
		}
		moved, m.dirty = true, true
		if m.finished() {
			m.BootstrapData, m.run = nil, nil
		}
		err = c.refresh()
		if step == stepKubeadm {
			// What has passed kubeadm's checks must not be checked again after a
			// restart, when traces of the machine itself may fail them. All later
			// steps can be done twice.
			err = errors.Join(err, c.note(), c.noteMachine(m, false))
		}
		if err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// patient records what a machine waits for, and reports whether it continues to
// wait.
func (c *cluster) patient(m *machine, w *waiting, now time.Time) bool {
	if m.Until.IsZero() {
		m.Until = now.Add(w.limit)
	}
	if !now.Before(m.Until) {
		return false
	}
	m.Waiting = w.Error()
	c.setTimer(m, m.Until)
	return true
}

// delay is how long the next step takes.
func (c *cluster) delay(m *machine) time.Duration {
	var s infrav1.SimulatedStage
	switch m.next() {
	case stepBoot:
		s = m.VM
	case stepNode:
		s = m.Node
	case stepEtcd:
		s = m.Etcd
	case stepAPIServer:
		s = m.APIServer
	}
	if s.StartupMilliseconds == nil {
		return 0
	}
	d := time.Duration(*s.StartupMilliseconds) * time.Millisecond
	if s.JitterPercent != nil {
		d += time.Duration(c.b.random() * float64(d) * float64(*s.JitterPercent) / 100)
	}
	return d
}

func (c *cluster) do(m *machine, step Stage) error {
	if step != stepBoot && m.run == nil {
		run, err := bootstrap.Read(m.BootstrapData, m.BootstrapFormat, m.Name)
		if err != nil {
			return err
		}
		m.run = run
	}
	switch step {
	case stepKubeadm:
		if m.run.IsInit() {
			return c.init(m)
		}
		return c.join(m)
	case stepEtcd:
		return c.startEtcd(m)
	case stepAPIServer:
		return c.startAPIServer(m)
	case stepNode:
		return c.register(m)
	}
	return nil
}

// init is kubeadm init up to where it starts things.
func (c *cluster) init(m *machine) error {
	now := c.b.clock.Now()
	if err := m.run.CheckInit(c.place.addr.String()); err != nil {
		return err
	}
	pki, err := m.run.PKI(now, m.run.ExternalEtcd())
	if err != nil {
		return err
	}
	if err := c.found(m, pki); err != nil {
		return err
	}
	m.Version = cmp.Or(m.Version, m.run.KubernetesVersion())
	m.Role, m.NodeName, m.Port = founder, m.run.NodeName(), m.run.APIServerPort()
	m.CertificatesEnd = now.Add(m.run.CertificateValidity())
	return nil
}

// join is kubeadm join up to where it starts things.
func (c *cluster) join(m *machine) error {
	// At another cluster's address it would find an API server, or none, but
	// never this one: no use in waiting.
	if bootstrap.SameEndpoint(m.run.JoinEndpoint(), c.place.addr.String()) {
		if err := c.answers(); err != nil {
			return &waiting{fmt.Errorf("kubeadm join: error execution phase preflight: couldn't validate the identity of the API Server: "+
				"failed to request the cluster-info ConfigMap: %w", err), discoveryTimeout}
		}
	}
	docs, err := m.run.Discover(bootstrap.Cluster{
		Endpoint: c.place.addr.String(), CA: c.record.PKI.CA.Cert, Objects: c.server.Store(), Now: skewed{c.b.clock, &c.skew}.Now(),
	})
	if err != nil {
		return err
	}
	role := worker
	if m.run.IsControlPlane() {
		role = joiner
		pki, err := m.run.PKI(c.b.clock.Now(), c.record.External)
		if err != nil {
			return err
		}
		if err := pki.Matches(c.record.PKI); err != nil {
			return err
		}
	}
	for _, o := range c.machines {
		if o != m && o.NodeName == m.run.NodeName() {
			return fmt.Errorf("kubeadm join: error execution phase kubelet-start: machine %s has the node name %q already", o.Name, o.NodeName)
		}
	}
	m.Version = cmp.Or(m.Version, docs.Data.KubernetesVersion)
	m.Role, m.NodeName, m.Port = role, m.run.NodeName(), m.run.APIServerPort()
	if role == joiner {
		m.CertificatesEnd = c.b.clock.Now().Add(bootstrap.CertificateValidity(docs))
	}
	return nil
}

// startEtcd adds the machine's etcd as a member.
func (c *cluster) startEtcd(m *machine) error {
	e := c.members.Load()
	if e == nil {
		return nil // it is external
	}
	peer, client := bootstrap.PeerURL(m.Address), bootstrap.ClientURL(m.Address)
	if m.Role == founder {
		if err := e.Bootstrap(m.NodeName, peer, client); err != nil {
			return fmt.Errorf("kubeadm init: error execution phase etcd/local: %w", err)
		}
	} else {
		id, err := e.AddLearner(peer)
		if err == nil {
			err = e.Start(id, m.NodeName, client)
		}
		if err == nil {
			err = e.Promote(id)
		}
		if err != nil {
			return &waiting{fmt.Errorf("kubeadm join: error execution phase control-plane-join/etcd: error creating local etcd static pod manifest file: %w", err), etcdTimeout}
		}
	}
	c.syncEtcd(m)
	return c.syncPods(m)
}

func (c *cluster) startAPIServer(m *machine) error {
	if m.Role == founder {
		if err := c.populate(m); err != nil {
			return err
		}
	}
	// The step counts as done from here on: its pods report it.
	m.Steps++
	defer func() { m.Steps-- }()
	return c.syncPods(m)
}

// register is the kubelet's start: TLS bootstrap and the Node.
func (c *cluster) register(m *machine) error {
	if err := c.answers(); err != nil {
		phase := "kubeadm join: error execution phase kubelet-start"
		if m.Role == founder {
			phase = "kubeadm init: error execution phase wait-control-plane"
		}
		return &waiting{fmt.Errorf("%s: %w", phase, err), healthTimeout}
	}
	now := c.b.clock.Now()
	node := m.run.Node(bootstrap.Host{
		Name: m.Name, UID: string(m.UID), Address: m.Address, ProviderID: m.ProviderID, Version: m.Version, Zone: m.FailureDomain, Now: now,
	})
	m.NodeProviderID = node.Spec.ProviderID
	if m.has(infrav1.MachineFaultNodeNotReady) {
		bootstrap.SetReady(node, corev1.ConditionFalse, now)
	}
	err := c.server.Store().Add(node)
	if apierrors.IsAlreadyExists(err) {
		// One that is left of a machine of that name, or of this step before
		// the process ended: the kubelet takes it over.
		status, spec := node.Status, node.Spec
		err = objects.Modify(c.server.Store(), node, func(n *corev1.Node) error {
			n.Status, n.Spec = status, spec
			return nil
		})
	}
	if err != nil {
		return &broken{fmt.Errorf("create Node %s: %w", m.NodeName, err)}
	}
	m.Steps++ // as in startAPIServer
	defer func() { m.Steps-- }()
	return c.syncPods(m)
}

// clusterConfig is what kubeadm would read in the cluster now.
func (c *cluster) clusterConfig() (*kubeadm.Documents, error) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"}}
	if err := c.server.Store().Load(cm); err != nil {
		if apierrors.IsNotFound(err) {
			return &kubeadm.Documents{}, nil
		}
		return nil, err
	}
	docs, err := kubeadm.Parse([]byte(cm.Data["ClusterConfiguration"]))
	if err != nil {
		return nil, fmt.Errorf("ConfigMap kube-system/kubeadm-config: %w", err)
	}
	return docs, nil
}

// components are the static pods of a machine whose processes have started.
func (c *cluster) components(m *machine) []string {
	if !m.did(stepNode) {
		return nil // no kubelet could report them yet
	}
	all := bootstrap.Components(c.record.External)
	return slices.DeleteFunc(all, func(component string) bool {
		return !m.did(stepAPIServer) && (component != "etcd" || !m.did(stepEtcd))
	})
}
