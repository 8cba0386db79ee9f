// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
)

// Warn makes a validating webhook that lets every object pass, and has its
// author told something.
func Warn(target Target, text string) Webhook {
	return Webhook{Target: target, warns: true, admit: func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{text}}
	}}
}
