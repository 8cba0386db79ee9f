// SPDX-License-Identifier: Apache-2.0

package kubecontrollers

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
)

// unrun are the kinds for which no controller creates Pods here, by their plural.
var unrun = map[schema.GroupResource]string{
	{Group: "apps", Resource: "daemonsets"}:                      "DaemonSets",
	{Group: "apps", Resource: "statefulsets"}:                    "StatefulSets",
	{Group: "batch", Resource: "jobs"}:                           "Jobs",
	{Group: "batch", Resource: "cronjobs"}:                       "CronJobs",
	{Resource: "replicationcontrollers"}:                         "ReplicationControllers",
	{Resource: "persistentvolumeclaims"}:                         "PersistentVolumeClaims",
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: "HorizontalPodAutoscalers",
}

// networkPolicies are not enforced: all Pods of a plane reach each other.
var networkPolicies = schema.GroupResource{Group: "networking.k8s.io", Resource: "networkpolicies"}

// Asked refuses, or warns of, requests for features that a plane that runs Pods
// itself does not have. If it is false, Pods run outside the plane, and nothing is
// checked.
//
// Containers that are added to a running Pod, as kubectl debug does, are refused:
// they would not be started, and kubectl would wait. For an object without any
// effect the client gets a warning: components of a provider may have some, and be
// useful without them.
type Asked bool

// Handles implements admission.Interface.
func (n Asked) Handles(o admission.Operation) bool {
	return bool(n) && (o == admission.Create || o == admission.Update)
}

// Validate implements admission.ValidationInterface.
func (Asked) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	kind := a.GetResource().GroupResource()
	switch {
	case kind == schema.GroupResource{Resource: "pods"} && a.GetSubresource() == "ephemeralcontainers":
		return admission.NewForbidden(a, errors.New("spec.ephemeralContainers: a plane has no ephemeral containers: use kubectl exec, or kubectl debug with --copy-to, --share-processes=false and --profile=baseline"))
	case unrun[kind] != "" && a.GetSubresource() == "" && a.GetOperation() == admission.Create:
		warning.AddWarning(ctx, "", fmt.Sprintf("a plane has no controller of %s: nothing will come of %s/%s; Deployments are run, others belong in a cluster", unrun[kind], a.GetNamespace(), a.GetName()))
	case kind == networkPolicies && a.GetSubresource() == "":
		warning.AddWarning(ctx, "", fmt.Sprintf("a plane does not enforce NetworkPolicies: Pods of all namespaces reach the Pods that %s/%s selects; run Pods that must be kept apart in another plane or cluster", a.GetNamespace(), a.GetName()))
	}
	return nil
}
