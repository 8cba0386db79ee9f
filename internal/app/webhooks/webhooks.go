// SPDX-License-Identifier: Apache-2.0

// Package webhooks is the one list of admission webhooks: which there are, and
// which belong to the providers that run.
package webhooks

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/host"
	"github.com/capstan-dev/capstan/internal/admission/addons"
	"github.com/capstan-dev/capstan/internal/admission/core"
	"github.com/capstan-dev/capstan/internal/admission/extensions"
	"github.com/capstan-dev/capstan/internal/admission/ipam"
	"github.com/capstan-dev/capstan/internal/admission/kubeadm"
	"github.com/capstan-dev/capstan/internal/admission/local"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

// Of returns the webhooks of providers: core, kubeadm and local. c reads what
// few of them need to know beyond the object itself; backends are those of the
// local provider.
func Of(c client.Reader, backends host.Backends, providers ...string) []webhook.Webhook {
	var all []webhook.Webhook
	if slices.Contains(providers, "core") {
		all = slices.Concat(all, core.Webhooks(), addons.Webhooks(), ipam.Webhooks(c), extensions.Webhooks(catalog.Default()))
	}
	if slices.Contains(providers, "kubeadm") {
		all = slices.Concat(all, kubeadm.Webhooks(c))
	}
	if slices.Contains(providers, "local") {
		all = slices.Concat(all, local.Webhooks(backends))
	}
	return all
}
