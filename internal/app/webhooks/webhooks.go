// SPDX-License-Identifier: Apache-2.0

// Package webhooks is the one list of admission webhooks: which there are, and
// which belong to the providers that run. It also has the one list of conversions
// between the versions of Capstan's kinds.
package webhooks

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/admission/core"
	"github.com/capstan-dev/capstan/internal/admission/kubeadm"
	"github.com/capstan-dev/capstan/internal/admission/local"
	"github.com/capstan-dev/capstan/internal/admission/plans"
	"github.com/capstan-dev/capstan/internal/admission/topology"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

// Clients read what a few of the webhooks need in addition to the object itself.
type Clients struct {
	Live     client.Client
	Cache    client.Reader // with indexes, of what is read often
	Workload workload.Clients
}

// Of returns the webhooks of providers: core, kubeadm and local. backends are those
// of the local provider.
func Of(clients Clients, backends localinfra.Backends, gates controllers.Gates, providers ...string) []webhook.Webhook {
	all := refusals(gates, providers)
	c := clients.Live
	if slices.Contains(providers, "core") {
		class := topology.Reads{Cache: clients.Cache, Providers: provider.New(c, nil), Workload: clients.Workload}
		all = slices.Concat(all, core.Webhooks(), topology.Webhooks(class), core.AddonWebhooks(), core.IPAMWebhooks(c), plans.Webhooks(c), core.ExtensionWebhooks(catalog.Default()))
	}
	if slices.Contains(providers, "kubeadm") {
		all = slices.Concat(all, kubeadm.Webhooks(c))
	}
	if slices.Contains(providers, "local") {
		all = slices.Concat(all, local.Webhooks(backends))
	}
	return all
}
