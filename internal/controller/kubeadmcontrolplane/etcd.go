// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
	"github.com/capstan-dev/capstan/internal/pure/quorum"
)

const (
	// inspectionLasts is how long a good inspection of etcd holds. An alarm of
	// etcd shows nowhere else, so it has to be looked for now and then.
	inspectionLasts = 10 * time.Minute

	// inspectAgain is how soon etcd is asked again when it was not all good.
	inspectAgain = 3 * time.Second
)

// inspection is what etcd answered. The zero value is that nobody asked.
type inspection struct {
	of      string // what it depends on: a change of it calls for another one
	at      time.Time
	members []quorum.Member
	listErr error            // why there are no members
	nodeErr map[string]error // why the member of a node could not be asked
}

func (i inspection) asked() bool { return !i.at.IsZero() }

// member is the member of a node, nil if there is none. One that has never run
// is nobody's.
func (i inspection) member(node string) *quorum.Member {
	for j := range i.members {
		if node != "" && i.members[j].Name == node {
			return &i.members[j]
		}
	}
	return nil
}

func (i inspection) err(node string) error {
	if err := i.nodeErr[node]; err != nil {
		return err
	}
	return i.listErr
}

func (i inspection) good() bool {
	if !i.asked() || i.listErr != nil || len(i.nodeErr) > 0 {
		return false
	}
	voting, healthy := quorum.Votes(i.members)
	return voting == healthy && voting == len(i.members)
}

// inspectEtcd asks each member how it fares, unless it was asked and nothing
// has happened since: a connection goes through the API server to a Pod, which
// is too much to do each time.
func (r *Reconciler) inspectEtcd(ctx context.Context, s *state, pods map[string]*corev1.Pod, fresh bool) inspection {
	var nodes []string
	var of strings.Builder
	for _, m := range s.Machines {
		p := pods["etcd-"+m.Node()]
		fmt.Fprintf(&of, "%s %s %t %s\n", m.Name, m.Node(), m.Deleting(), stamp(p))
		if m.Node() != "" && p != nil && p.Status.Phase == corev1.PodRunning {
			nodes = append(nodes, m.Node())
		}
	}
	last := r.inspected.Get(s.ControlPlane)
	lasts := inspectAgain
	if last.good() {
		lasts = inspectionLasts
	}
	if !fresh && last.of == of.String() && s.Now.Sub(last.at) < lasts {
		s.due(last.at.Add(lasts))
		return last
	}
	if len(nodes) == 0 {
		return inspection{listErr: errors.New("no etcd Pod is running")} // its event wakes us
	}
	i := r.askAll(ctx, s, nodes)
	i.of, i.at = of.String(), s.Now
	r.inspected.Set(s.ControlPlane, i)
	if i.good() {
		s.due(s.Now.Add(inspectionLasts))
	} else {
		s.due(s.Now.Add(inspectAgain))
	}
	return i
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

// answer is what the member of one node said.
type answer struct {
	node    string
	status  etcd.Status
	members []etcd.Member
	err     error
}

// askAll asks the members of all nodes at once, so that one that hangs costs no
// more than itself.
func (r *Reconciler) askAll(ctx context.Context, s *state, nodes []string) inspection {
	answers := make([]answer, len(nodes))
	var asking sync.WaitGroup
	for n, node := range nodes {
		asking.Go(func() { answers[n] = r.ask(ctx, s, node) })
	}
	asking.Wait()
	return evaluate(answers)
}

func (r *Reconciler) ask(ctx context.Context, s *state, node string) (a answer) {
	a.node = node
	c, err := r.connectEtcd(ctx, s, node)
	if err != nil {
		a.err = err
		return a
	}
	defer func() { a.err = errors.Join(a.err, c.Close()) }()
	if a.status, a.err = c.Status(ctx); a.err != nil {
		return a
	}
	a.members, a.err = c.Members(ctx)
	return a
}

// evaluate puts the answers together: the members, each healthy if it answered,
// had nothing to complain of, and knows the same members as the others.
func evaluate(answers []answer) (i inspection) {
	i.nodeErr = map[string]error{}
	var errs []error
	for _, a := range answers {
		switch {
		case a.err != nil:
			i.nodeErr[a.node] = a.err
			errs = append(errs, a.err)
		case i.members == nil:
			for _, m := range a.members {
				member := quorum.Member{ID: m.ID, Name: m.Name, Learner: m.Learner}
				for _, alarm := range m.Alarms {
					member.Alarms = append(member.Alarms, string(alarm))
				}
				i.members = append(i.members, member)
			}
		case !slices.EqualFunc(i.members, a.members, func(x quorum.Member, y etcd.Member) bool { return x.ID == y.ID }):
			i.nodeErr[a.node] = fmt.Errorf("etcd member %s knows other members than the others do", a.node)
		}
	}
	if i.members == nil {
		i.listErr = errors.Join(errs...)
		return i
	}
	for _, a := range answers {
		m := i.member(a.node)
		if m == nil || i.nodeErr[a.node] != nil {
			continue
		}
		if len(a.status.Errors) > 0 && len(m.Alarms) == 0 {
			i.nodeErr[a.node] = fmt.Errorf("etcd member reports errors: %s", strings.Join(a.status.Errors, ", "))
			continue
		}
		m.Healthy = true
	}
	return i
}

func (r *Reconciler) connectEtcd(ctx context.Context, s *state, nodes ...string) (etcd.Client, error) {
	ca := s.pairs[certs.Etcd]
	if !ca.HasKey() {
		return nil, fmt.Errorf("the key of etcd's CA in Secret %s is not known, so etcd cannot be asked", certs.SecretName(s.Cluster.Name, certs.Etcd))
	}
	config, err := r.Workload.Config(s.key())
	if err != nil {
		return nil, err
	}
	return r.Etcd.Connect(ctx, etcd.Target{Cluster: s.key().String(), Config: config, CA: ca, Nodes: nodes})
}

// nodesBut are the nodes whose members can be asked, without that of one machine.
func nodesBut(s *state, leaving *kubeadmcontrolplane.Machine) (nodes []string) {
	for _, m := range s.Machines {
		if m == leaving || m.Node() == "" {
			continue
		}
		if member := s.etcd.member(m.Node()); member != nil && member.Healthy {
			nodes = append(nodes, m.Node())
		}
	}
	return nodes
}
