// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// inspection is the last answer of etcd. The zero value means that there was no
// request.
type inspection struct {
	of string // its inputs: after a change of them another inspection is needed
	controlplane.Etcd
}

// inspectEtcd requests the state of each member, unless that was done and no event
// has occurred since: a connection is forwarded by the API server to a Pod, which
// is too expensive for each reconcile.
func (r *Reconciler) inspectEtcd(ctx context.Context, s *state) controlplane.Etcd {
	var nodes []string
	var of strings.Builder
	for _, m := range s.Machines {
		p := s.Workload.Pods["etcd-"+m.Node()]
		fmt.Fprintf(&of, "%s %s %t %s\n", m.Name, m.Node(), m.Deleting(), stamp(p))
		if m.Node() != "" && p != nil && p.Status.Phase == corev1.PodRunning {
			nodes = append(nodes, m.Node())
		}
	}
	if last := r.inspected.Get(s.ControlPlane); last.of == of.String() && s.Now.Before(last.Expires()) {
		return last.Etcd
	}
	if len(nodes) == 0 {
		return controlplane.Etcd{Err: errors.New("no etcd Pod is running")} // its event triggers a reconcile
	}
	fresh := inspection{of.String(), r.askAll(ctx, s, nodes)}
	r.inspected.Set(s.ControlPlane, fresh)
	return fresh.Etcd
}

// stamp changes whenever the Pod of a member has a change that may affect etcd.
func stamp(p *corev1.Pod) string {
	if p == nil {
		return "-"
	}
	restarts := int32(0)
	for _, c := range p.Status.ContainerStatuses {
		restarts += c.RestartCount
	}
	ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	return fmt.Sprintf("%s %s %t %d", p.UID, p.Status.Phase, ready, restarts)
}

// askAll connects to the members of all nodes concurrently, so that one that hangs
// does not delay the others.
func (r *Reconciler) askAll(ctx context.Context, s *state, nodes []string) controlplane.Etcd {
	answers := make([]controlplane.Answer, len(nodes))
	var asking sync.WaitGroup
	for n, node := range nodes {
		asking.Go(func() {
			answers[n].Err = recovery.Call(ctx, func() error {
				answers[n] = r.ask(ctx, s, node)
				return answers[n].Err
			})
		})
	}
	asking.Wait()
	return controlplane.Evaluate(s.Now, answers)
}

func (r *Reconciler) ask(ctx context.Context, s *state, node string) (a controlplane.Answer) {
	a.Node = node
	c, err := r.connectEtcd(ctx, s, node)
	if err != nil {
		a.Err = err
		return a
	}
	defer func() { a.Err = errors.Join(a.Err, c.Close()) }()
	status, err := c.Status(ctx)
	if err != nil {
		a.Err = err
		return a
	}
	a.Errors = status.Errors
	a.Members, a.Err = listMembers(ctx, c)
	return a
}

// listMembers lists the members according to one of them.
func listMembers(ctx context.Context, c etcd.Client) ([]quorum.Member, error) {
	list, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	members := make([]quorum.Member, 0, len(list))
	for _, m := range list {
		member := quorum.Member{ID: m.ID, Name: m.Name, Learner: m.Learner}
		for _, alarm := range m.Alarms {
			member.Alarms = append(member.Alarms, string(alarm))
		}
		members = append(members, member)
	}
	return members, nil
}

func (r *Reconciler) connectEtcd(ctx context.Context, s *state, nodes ...string) (etcd.Client, error) {
	if !s.etcdCA.HasKey() {
		return nil, fmt.Errorf("the key of etcd's CA in Secret %s is not known, so etcd cannot be asked", certs.SecretName(s.Cluster.Name, certs.Etcd))
	}
	config, err := r.Workload.Config(s.key())
	if err != nil {
		return nil, err
	}
	return r.Etcd.Connect(ctx, etcd.Target{Cluster: s.key().String(), Config: config, CA: s.etcdCA, Nodes: nodes})
}
