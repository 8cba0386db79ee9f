// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/phase"
)

// bootstrap takes over the bootstrap config and, when that has made its data,
// notes the Secret.
func (r *Reconciler) bootstrap(ctx context.Context, s *state) (phase.Next, error) {
	m := s.machine
	if !m.Spec.Bootstrap.ConfigRef.IsDefined() { // the user brings the Secret, or no data is needed
		if m.Spec.Bootstrap.DataSecretName != nil {
			m.Status.Initialization.BootstrapDataSecretCreated = new(true)
		}
		return phase.Continue(), nil
	}
	ref := &s.bootstrapConfig
	if err := r.look(ctx, s, ref); err != nil || ref.Missing {
		return phase.Continue(), err
	}
	if err := r.take(ctx, s, ref); err != nil || ref.Held() {
		return phase.Continue(), err
	}
	if m.Spec.Bootstrap.DataSecretName != nil {
		m.Status.Initialization.BootstrapDataSecretCreated = new(true)
		return phase.Continue(), nil
	}
	c, err := contract.BootstrapConfigFor(ref.Obj.Contract)
	if err != nil {
		return phase.Continue(), err
	}
	created, _, err := c.DataSecretCreated.Get(ref.Obj.Unstructured)
	if err != nil || !created {
		return phase.Continue(), err
	}
	secret, ok, err := c.DataSecretName.Get(ref.Obj.Unstructured)
	switch {
	case err != nil:
		return phase.Continue(), err
	case !ok || secret == "":
		s.dataLacks = c.DataSecretName.String() // its provider sets it, which wakes us
		return phase.Continue(), nil
	}
	m.Spec.Bootstrap.DataSecretName = &secret
	m.Status.Initialization.BootstrapDataSecretCreated = new(true)
	ctrl.LoggerFrom(ctx).Info("Handing over bootstrap data", "Secret", secret)
	return phase.Continue(), nil
}

// certificates notes when the certificates of a control plane machine expire:
// an annotation of the Machine wins over one of its bootstrap config.
func (r *Reconciler) certificates(_ context.Context, s *state) (phase.Next, error) {
	m := s.machine
	if _, ok := m.Labels[clusterv1.MachineControlPlaneLabel]; !ok {
		return phase.Continue(), nil
	}
	text, where := m.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation], "the Machine"
	if text == "" && s.bootstrapConfig.Obj != nil {
		text, where = s.bootstrapConfig.Obj.GetAnnotations()[clusterv1.MachineCertificatesExpiryDateAnnotation], s.bootstrapConfig.String()
	}
	if text == "" {
		m.Status.CertificatesExpiryDate = metav1.Time{}
		return phase.Continue(), nil
	}
	expiry, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return phase.Continue(), fmt.Errorf("annotation %s of %s must be a time as RFC 3339 has it: %w", clusterv1.MachineCertificatesExpiryDateAnnotation, where, err)
	}
	m.Status.CertificatesExpiryDate = metav1.NewTime(expiry)
	return phase.Continue(), nil
}
