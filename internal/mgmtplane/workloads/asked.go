// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/admission"
)

// NoEphemeral refuses containers that are added to a Pod that runs, as kubectl debug
// does: a plane that runs Pods itself would never start them, and kubectl would wait. Where it is false, others run Pods.
type NoEphemeral bool

// Handles implements admission.Interface.
func (n NoEphemeral) Handles(o admission.Operation) bool { return bool(n) && o == admission.Update }

// Validate implements admission.ValidationInterface.
func (NoEphemeral) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().Group != "" || a.GetResource().Resource != "pods" || a.GetSubresource() != "ephemeralcontainers" {
		return nil
	}
	return admission.NewForbidden(a, errors.New("spec.ephemeralContainers: a plane has no ephemeral containers: use kubectl exec, or kubectl debug with --copy-to, --share-processes=false and --profile=baseline"))
}
