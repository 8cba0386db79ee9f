// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/secrets"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmconfig/bootstrapdata"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// facts returns the facts for the plan.
func (r *Reconciler) facts(s *state) bootstrapdata.Facts {
	c, d := s.cluster, s.config.Spec.JoinConfiguration.Discovery
	f := bootstrapdata.Facts{
		Cluster: bootstrapdata.Cluster{
			Name:        c.Name,
			Provisioned: ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false),
			Initialized: ptr.Deref(c.Status.Initialization.ControlPlaneInitialized, false),
			Endpoint:    c.Spec.ControlPlaneEndpoint.IsValid(), ControlPlane: c.Spec.ControlPlaneRef.IsDefined(),
		},
		Machine: *s.machine, Made: s.made(), Stale: r.rendered.Get(s.config) != s.source(),
		Discovery: bootstrapdata.Discovery{File: d.File.KubeConfigPath != "", Endpoint: d.BootstrapToken.APIServerEndpoint != "", Token: d.BootstrapToken.Token != ""},
		Now:       s.now, TTL: r.tokenTTL(), LookAt: r.upkeep.Get(s.config),
	}
	if token, err := bootstrapv1.NewBootstrapTokenString(d.BootstrapToken.Token); err == nil {
		f.Discovery.TokenID = token.ID
	}
	return f
}

// made reports whether the status records existing data.
func (s *state) made() bool {
	return ptr.Deref(s.config.Status.Initialization.DataSecretCreated, false)
}

// source identifies the input of data: a generation of the spec, and a version.
func (s *state) source() string { return fmt.Sprintf("%d %s", s.specGeneration, s.machine.Version) }

// keep maintains existing data. Without data the next phase runs.
func (r *Reconciler) keep(ctx context.Context, s *state) (reconciler.Next, error) {
	if !s.made() && s.machine.DataSecretName == "" {
		return reconciler.Continue(), nil
	}
	return r.carryOut(ctx, s)
}

// carryOut computes the plan, and answers its questions.
func (r *Reconciler) carryOut(ctx context.Context, s *state) (reconciler.Next, error) {
	record, err := decisions.Make(ctx, bootstrapdata.Planner, r.facts(s), func(q bootstrapdata.Question) (bootstrapdata.Answer, error) { return r.answer(ctx, s, q) })
	p := record.Plan
	s.waiting = p.Waiting
	switch {
	case err != nil:
		s.restoreToken()
		return reconciler.Continue(), err
	case p.Refused != "":
		return reconciler.Continue(), s.refuse("%s", p.Refused)
	case p.Secret: // a watch shows a labeled Secret, and a periodic reconcile any other
		return reconciler.Wait(secrets.Interval), nil
	case p.Forget:
		r.upkeep.Forget(client.ObjectKeyFromObject(s.config))
	case p.Look > 0:
		r.upkeep.Set(s.config, s.now.Add(p.Look))
		return reconciler.Wait(p.Look), nil
	}
	return reconciler.Wait(p.Again), nil
}

// answer reads, or executes, what the plan requests.
func (r *Reconciler) answer(ctx context.Context, s *state, q bootstrapdata.Question) (a bootstrapdata.Answer, err error) {
	switch q.Kind {
	case bootstrapdata.DoTakeOver:
		s.takeOver(ctx)
	case bootstrapdata.DoOwn:
		err = r.ownSecret(ctx, s, s.config.Status.DataSecretName)
	case bootstrapdata.Token:
		return r.findToken(ctx, s)
	case bootstrapdata.DoExtend:
		err = r.extend(ctx, s)
	case bootstrapdata.DoFindCertificates:
		a.Missing, err = r.certificates(ctx, s, q.Generate)
	case bootstrapdata.DoPrepare:
		err = r.prepare(ctx, s, q.Init)
	case bootstrapdata.DoTakeLock:
		return r.takeLock(ctx, s)
	case bootstrapdata.Holder:
		a.Exists, err = r.machineExists(ctx, s, q.Name)
	case bootstrapdata.DoReplaceLock:
		err = r.replaceLock(ctx, s, q.Name)
	case bootstrapdata.DoReleaseLock:
		err = r.unlock(ctx, s)
	case bootstrapdata.DoDiscover:
		a.Disconnected, err = r.discover(ctx, s, q.NewToken)
	case bootstrapdata.DoStore:
		if err = r.storeData(ctx, s, q.Init); err == nil && s.machine.Pool {
			r.rendered.Set(s.config, s.source())
		}
	default:
		err = fmt.Errorf("nothing answers the plan's question %q", q.Kind)
	}
	return a, err
}
