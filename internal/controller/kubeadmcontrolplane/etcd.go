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
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
	"github.com/capstan-dev/capstan/internal/pure/quorum"
)

// inspection is what etcd answered last. The zero value is that nobody asked.
type inspection struct {
	of string // what it depends on: a change of it calls for another one
	kubeadmcontrolplane.Etcd
}

// inspectEtcd asks each member how it fares, unless it was asked and nothing
// has happened since: a connection goes through the API server to a Pod, which
// is too much to do each time.
func (r *Reconciler) inspectEtcd(ctx context.Context, s *state) kubeadmcontrolplane.Etcd {
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
		return kubeadmcontrolplane.Etcd{Err: errors.New("no etcd Pod is running")} // its event wakes us
	}
	fresh := inspection{of.String(), r.askAll(ctx, s, nodes)}
	r.inspected.Set(s.ControlPlane, fresh)
	return fresh.Etcd
}

// stamp changes whenever the Pod of a member does something worth a look.
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

// askAll asks the members of all nodes at once, so that one that hangs costs no
// more than itself.
func (r *Reconciler) askAll(ctx context.Context, s *state, nodes []string) kubeadmcontrolplane.Etcd {
	answers := make([]kubeadmcontrolplane.Answer, len(nodes))
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
	return kubeadmcontrolplane.Evaluate(s.Now, answers)
}

func (r *Reconciler) ask(ctx context.Context, s *state, node string) (a kubeadmcontrolplane.Answer) {
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

// listMembers lists the members as one of them knows them.
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
