// SPDX-License-Identifier: Apache-2.0

package bootstrapdata

import (
	"fmt"

	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// planner builds one plan.
type planner struct {
	Facts
	*questions.Asker[Question, Answer]
	plan Plan
}

// plan is the policy. Data that exists is not created again; its token is extended until
// its machine has a node. Data is created once the infrastructure of the Cluster is
// provisioned: for kubeadm init on one control plane machine while the control plane is
// not initialized, and for kubeadm join on every machine after that.
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

// init lets the first control plane machine initialize the control plane. Every step
// that can fail or wait precedes the lock, which blocks all other machines. Without a
// control plane object to create the certificates, this machine creates them.
func (p *planner) init() {
	if !p.certificates(!p.Cluster.ControlPlane) {
		return
	}
	if _, done := p.Ask(Question{Kind: DoPrepare, Init: true}); !done || !p.lock() {
		return
	}
	p.Ask(Question{Kind: DoStore, Init: true})
}

// join plans kubeadm join for all other machines, with a new token if there is none or
// if the current one expires. The lock is not needed any longer.
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

// certificates reports whether the certificates that the machine needs exist.
func (p *planner) certificates(generate bool) bool {
	found, done := p.Ask(Question{Kind: DoFindCertificates, Generate: generate})
	if found.Missing != "" {
		p.plan.Secret = true
		p.await("Waiting for Secret %s with certificates of the cluster", found.Missing)
	}
	return done && found.Missing == ""
}

// lock reports whether the machine has the lock. It takes over the lock of a deleted
// Machine.
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

// keep maintains data that exists: the config owns it and reports it, also after a move
// to another management cluster, and its token is extended. The data of a pool is
// created again when the spec changes, for future machines.
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

// renew creates the data of a pool again. It needs a new token only if there is none;
// otherwise the current token is checked at the time that was already planned.
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

// token extends the token of a machine without a node before it expires. The machines of
// a MachinePool can start at any time, so its token is replaced before it expires,
// together with the data, and created again if it was deleted. In both cases the data is
// renewed.
func (p *planner) token() (renewed, done bool) {
	m := p.Machine
	if p.Discovery.TokenID == "" || p.Discovery.File || m.HasNodes && !m.Pool {
		p.plan.Forget = true // not a token of this controller, or no machine needs it any longer
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
		p.plan.Again = p.TTL / 6 // the token continues to expire meanwhile
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

// rotate creates a new token for a MachinePool, and data with it. While that waits, the
// data keeps the old token, so rotate is retried.
func (p *planner) rotate() {
	p.join(true)
	if p.plan.Waiting != "" {
		p.plan.Secret, p.plan.Again = false, p.TTL/6
	}
}
