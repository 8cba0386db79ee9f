// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"slices"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Fields of the contract.
const (
	fieldEndpoint   = "spec.controlPlaneEndpoint"
	fieldProviderID = "spec.providerID"
	fieldSecret     = "status.dataSecretName"
	fieldDone       = "status.initialization" // that of the role
	// FieldLabel is the label of the CRD that lists the API versions that follow the contract.
	FieldLabel = "label cluster.x-k8s.io/v1beta2"
)

// done are the fields with which the objects of a role report completion.
var done = map[string]string{roleInfrastructure: ".provisioned", roleBootstrap: ".dataSecretCreated", roleControlPlane: ".controlPlaneInitialized"}

// builtIn are the providers whose controllers run in Capstan's processes.
var builtIn = []string{"control-plane-kubeadm", "bootstrap-kubeadm", "infrastructure-local"}

// providing are the facts about an object that its provider has not served.
func (w *walk) providing(o *Object) (all []*finding) {
	for _, field := range o.Unset {
		role := w.role(o)
		used := slices.ContainsFunc(w.users[o.Key], func(user *Object) bool {
			switch field {
			case fieldEndpoint:
				return role == roleInfrastructure && user.Kind == kindCluster && slices.Contains(user.Unset, field)
			case fieldProviderID:
				return role == roleInfrastructure && user.Kind == kindMachine
			}
			return done[role] != ""
		})
		switch {
		case used && field == FieldLabel:
			all = append(all, fact(typeContract, "NoLabel", "the CRD of "+o.String()+" has no "+field+" that lists the API versions that follow the contract"))
		case used && field == fieldDone:
			all = append(all, fact(typeContract, "NotSet", o.String()+" is ready, but "+field+done[role]+" is not true"))
		case used:
			all = append(all, fact(typeContract, "NotSet", o.String()+" is provisioned, but "+field+" is not set, or not as the contract requires"))
		}
	}
	switch deployments := serving(w, o); {
	case o.Manager != "":
		all = append(all, fact(typeProvider, "ManagedExternally", o.String()+" is managed externally, by "+o.Manager+", and is not provisioned"))
	case o.Provider == "" || o.Kind == kindController:
	case len(deployments) > 0 && !slices.ContainsFunc(deployments, func(d *Object) bool { return d.Available() }):
		all = append(all, fact(typeProvider, "NotAvailable", "no Deployment of provider "+o.Provider+" is available, and "+o.String()+" waits for its controller"))
	case len(deployments) == 0 && o.Untouched && !slices.Contains(builtIn, o.Provider):
		all = append(all, fact(typeProvider, "NotInstalled", "no controller has written to "+o.String()+", and no Deployment has the label "+clusterv1.ProviderNameLabel+": "+o.Provider))
	}
	return all
}

// serving are the Deployments of the provider of an object.
func serving(w *walk, o *Object) []*Object {
	return slices.DeleteFunc(slices.Clone(w.kinds[kindController]), func(d *Object) bool { return d.Provider != o.Provider })
}
