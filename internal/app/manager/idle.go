// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

// groups are those whose kinds a provider acts on. Addresses and their claims
// are not among them: they are for IPAM providers, which are others' programs.
var groups = map[string][]schema.GroupVersion{
	controllers.Core:    {clusterv1.GroupVersion(), addonsv1.GroupVersion(), runtimev1.GroupVersion()},
	controllers.Kubeadm: {bootstrapv1.GroupVersion(), controlplanev1.GroupVersion()},
	controllers.Local:   {infrav1.GroupVersion()},
}

// read are the kinds without a controller of their own that those of other
// kinds act on: rules when Machines are drained, templates of bootstrap configs
// when MachineSets make Machines.
var read = []string{"MachineDrainRule", "KubeadmConfigTemplate"}

// idleWarnings tell who makes an object of a provider's kinds that no
// controller acts on.
func idleWarnings(scheme *runtime.Scheme, provider string) (all []webhook.Webhook) {
	for _, kind := range idleKinds(scheme, provider) {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		all = append(all, webhook.Warn(
			webhook.Target{Kind: kind, Resource: plural.Resource, When: map[string]string{"spec-changed": webhook.SpecChanged}},
			fmt.Sprintf("%s is not available in this version: the object is stored, but no controller acts on it", kind.Kind),
		))
	}
	return all
}

// idleKinds are the kinds of a provider's groups that no controller is named
// after and that are not read either.
func idleKinds(scheme *runtime.Scheme, provider string) (idle []schema.GroupVersionKind) {
	for _, group := range groups[provider] {
		known := scheme.KnownTypes(group)
		for _, kind := range slices.Sorted(maps.Keys(known)) {
			if _, isObject := known[kind+"List"]; isObject && !slices.Contains(read, kind) && !hasController(provider, kind) {
				idle = append(idle, group.WithKind(kind))
			}
		}
	}
	return idle
}

func hasController(provider, kind string) bool {
	return slices.ContainsFunc(controllers.All(), func(c controllers.Controller) bool {
		return c.Provider == provider && c.Name == strings.ToLower(kind)
	})
}
