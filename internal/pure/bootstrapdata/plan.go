// SPDX-License-Identifier: Apache-2.0

package bootstrapdata

import (
	"fmt"

	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// planner is a plan in the making.
type planner struct {
	Facts
	*questions.Asker[Question, Answer]
	plan Plan
}

// plan is the policy. Data that was made is not made again; its token is kept
// alive until its machine has a node. Data is made once the infrastructure of
// the Cluster is there: for kubeadm init on one machine of the control plane,
// while it is not initialised, and for kubeadm join on every machine after that.
func plan(f Facts, asker *questions.Asker[Question, Answer]) (Plan, error) {
	p := &planner{Facts: f, Asker: asker}
	switch {
	case f.Made || f.Machine.DataSecretName != "":
		p.keep()
	case !f.Cluster.Provisioned:
		p.await("Waiting for the infrastructure of Cluster %s to be provisioned", f.Cluster.Name)
	case f.Machine.Version == "":
		p.refuse("%s has no spec.version: set the version of Kubernetes", f.Machine)
	case f.Cluster.Initialized:
		p.join(!f.Discovery.File && !f.Discovery.Token)
	case !f.Machine.ControlPlane:
		p.await("Waiting for the control plane of Cluster %s to be initialized", f.Cluster.Name)
	default:
		p.init()
	}
	return p.plan, nil
}

func (p *planner) await(format string, args ...any) {
	p.plan.Waiting = fmt.Sprintf(format, args...)
}

func (p *planner) refuse(format string, args ...any) {
	p.plan.Refused = fmt.Sprintf(format, args...)
}

// init has the first machine of the control plane initialise it. Whatever may
// fail or wait comes before the lock is taken, which keeps all others waiting.
// Where no control plane object makes the certificates, this machine does.
func (p *planner) init() {
	if !p.certificates(!p.Cluster.ControlPlane) {
		return
	}
	if _, done := p.Ask(Question{Kind: DoPrepare, Init: true}); !done || !p.lock() {
		return
	}
	p.Ask(Question{Kind: DoStore, Init: true})
}

// join has any other machine join, with a new token where there is none or the
// one that is there ends. The lock has served its purpose by then.
func (p *planner) join(newToken bool) {
	if _, done := p.Ask(Question{Kind: DoReleaseLock}); !done || !p.certificates(false) {
		return
	}
	if _, done := p.Ask(Question{Kind: DoPrepare}); !done {
		return
	}
	if d := p.Discovery; !p.Cluster.Endpoint && (d.File || !d.Endpoint) {
		p.await("Waiting for Cluster %s to have a spec.controlPlaneEndpoint", p.Cluster.Name)
		return
	}
	found, done := p.Ask(Question{Kind: DoDiscover, NewToken: newToken})
	if !done {
		return
	}
	if found.Disconnected {
		p.await("Waiting for the connection to the workload cluster of Cluster %s", p.Cluster.Name)
		return
	}
	if _, done := p.Ask(Question{Kind: DoStore}); done && !p.Discovery.File {
		p.plan.Look = p.TTL / 3
	}
}

// certificates reports whether those that the machine needs are there.
func (p *planner) certificates(generate bool) bool {
	found, done := p.Ask(Question{Kind: DoFindCertificates, Generate: generate})
	if found.Missing != "" {
		p.plan.Secret = true
		p.await("Waiting for Secret %s with certificates of the cluster", found.Missing)
	}
	return done && found.Missing == ""
}

// lock reports whether the machine has the lock. It takes that of a Machine
// that has gone.
func (p *planner) lock() bool {
	taken, done := p.Ask(Question{Kind: DoTakeLock})
	if !done || !taken.Held {
		return done
	}
	holder := HolderOf(taken.Lock)
	switch holder {
	case p.Machine.Name:
		return true
	case "":
		p.refuse("the init lock, ConfigMap %s/%s, does not say in its key %s who holds it: delete it", p.Machine.Namespace, LockName(p.Cluster.Name), LockKey)
		return false
	}
	lives, done := p.Ask(Question{Kind: Holder, Name: holder})
	if !done {
		return false
	}
	if lives.Exists {
		p.await("Waiting for Machine %s/%s to initialize the control plane", p.Machine.Namespace, holder)
		return false
	}
	_, done = p.Ask(Question{Kind: DoReplaceLock, Name: holder})
	return done
}

// keep looks after data that was made: it belongs to the config, which tells of
// it also after a move to another management cluster, and its token lasts. That
// of a pool is made again when the spec changes: for the machines to come.
func (p *planner) keep() {
	if !p.Made {
		if _, done := p.Ask(Question{Kind: DoTakeOver}); !done {
			return
		}
	}
	if _, done := p.Ask(Question{Kind: DoOwn}); !done {
		return
	}
	if renewed, done := p.token(); done && !renewed && p.Machine.Pool && p.Stale {
		p.renew()
	}
}

// renew makes the data of a pool again. It needs another token only if there is
// none; else the token that there is must be looked at when it had to be.
func (p *planner) renew() {
	if newToken := !p.Discovery.File && !p.Discovery.Token; newToken {
		p.plan.Forget = false
		p.join(true)
		return
	}
	look, again := p.plan.Look, p.plan.Again
	p.join(false)
	p.plan.Look, p.plan.Again = look, again
}

// token extends the token of a machine without a node before it ends. A
// MachinePool's machines may come at any time, so its token is replaced before
// it ends, with the data, and made again when it is gone: the data is renewed then.
func (p *planner) token() (renewed, done bool) {
	m := p.Machine
	if p.Discovery.TokenID == "" || p.Discovery.File || m.HasNodes && !m.Pool {
		p.plan.Forget = true // no token of ours, or nobody needs it any more
		return false, true
	}
	if left := p.LookAt.Sub(p.Now); left > 0 {
		p.plan.Again = left
		return false, true
	}
	token, done := p.Ask(Question{Kind: Token})
	switch {
	case !done:
		return false, false
	case token.Disconnected:
		p.plan.Again = p.TTL / 6 // the token goes on ending meanwhile
	case token.Gone && m.Pool:
		p.rotate()
		return true, true
	case token.Gone: // its machine has used it, or never will
	case m.Pool && m.HasNodes && !token.Expires.IsZero() && token.Expires.Sub(p.Now) < p.TTL/2:
		p.rotate()
		return true, true
	default:
		extend, look := kubeadm.TokenUpkeep(p.Now, token.Expires, p.TTL)
		if extend && !(m.Pool && m.HasNodes) {
			if _, done := p.Ask(Question{Kind: DoExtend}); !done {
				return false, false
			}
		}
		p.plan.Look = look
	}
	return false, true
}

// rotate gives a MachinePool a new token, and data with it. While that has to
// wait the old one stays, which the data has: so it is tried again.
func (p *planner) rotate() {
	p.join(true)
	if p.plan.Waiting != "" {
		p.plan.Secret, p.plan.Again = false, p.TTL/6
	}
}
