// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
)

const upgradeCluster = "capstan upgrade cluster {cluster}{ns} --kubernetes-version {version} --dry-run"

// remedies are tried in order; the first that matches applies.
var remedies = []struct {
	kind string // "" is any
	when string // type of the finding; "" is any
	says string // part of its reason or message; "" is any
	// text and command are templates: {kind}, {name} and {ns} (the flag) are those of the
	// object, {cluster} is the name of the Cluster, {user} and {field} are the object that
	// refers to a missing one and the field in which it does, {hook} is an annotation,
	// {version} the version that the message names first.
	text, command string
}{
	{when: typePaused, says: "by the move", text: "run the same capstan move again: it completes the move, or ends the pause; --dry-run shows how", command: "kubectl get configmap capstan-move{ns} -o yaml"},
	{kind: kindCluster, when: typePaused, says: "spec.paused", text: "resume the Cluster", command: "capstan rollout resume cluster/{name}{ns}"},
	{kind: kindDeployment, when: typePaused, says: "spec.paused", text: "resume the MachineDeployment", command: "capstan rollout resume machinedeployment/{name}{ns}"},
	{kind: kindController, when: typePaused, says: "spec.paused", text: "resume the Deployment", command: "kubectl rollout resume deployment/{name}{ns}"},
	{when: typePaused, says: "annotation ", text: "remove the annotation that pauses the object", command: "kubectl annotate {kind} {name}{ns} " + clusterv1.PausedAnnotation + "-"},
	{when: planv1.PlanHeldCondition, says: planv1.NotInPlanReason, text: "wait until the plan has been carried out, or end it", command: "capstan apply --release cluster/{name}{ns}"},
	{when: planv1.PlanHeldCondition, text: "make a plan that has what the message names, and carry it out", command: "capstan plan --help"},
	{when: typeMissing, text: "create {object}, or correct {field} of {user}", command: "kubectl get {kind}{ns}"},
	{when: typeQuota, text: "raise the limit, or delete objects that it counts", command: "kubectl describe resourcequota {name}{ns}"},
	{when: typeHook, says: "annotation", text: "remove the annotation when what it waits for is done", command: "kubectl annotate {kind} {name}{ns} {hook}-"},
	{when: typeHook, text: "the extension that serves the hook blocks it: do what its message requests", command: "kubectl get extensionconfigs"},
	{kind: kindMachine, when: typeDeleting, says: "Hook", text: "remove the annotation when what it waits for is done", command: "kubectl annotate {kind} {name}{ns} {hook}-"},
	{kind: kindMachine, when: typeDeleting, says: kcpCleanup, text: "let the control plane remove the etcd member; the annotation " + kcpCleanup + " protects etcd, so do not remove it", command: "kubectl describe {kind} {name}{ns}"},
	{kind: kindMachine, when: typeDeleting, says: "VolumeDetach", text: "let the storage driver detach the volumes; the annotation " + clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation + " of the Machine skips the wait",
		command: "capstan get kubeconfig {cluster}{ns} > {cluster}.kubeconfig && kubectl --kubeconfig {cluster}.kubeconfig get volumeattachments"},
	{kind: kindMachine, when: typeDeleting, says: "disruption budget", text: "let the PodDisruptionBudget allow the eviction: add a replica, or change the budget",
		command: "capstan get kubeconfig {cluster}{ns} > {cluster}.kubeconfig && kubectl --kubeconfig {cluster}.kubeconfig get poddisruptionbudgets --all-namespaces"},
	{kind: kindMachine, when: controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition, says: "NOSPACE", text: "free space in etcd: compact and defragment it, or raise its quota, then disarm the alarm with etcdctl alarm disarm",
		command: "capstan get kubeconfig {cluster}{ns} > {cluster}.kubeconfig && kubectl --kubeconfig {cluster}.kubeconfig get pods -n kube-system -l component=etcd"},
	{when: typeContract, says: "NoLabel", text: "install the CRDs of the provider with their labels", command: "kubectl get crds --show-labels"},
	{when: typeProvider, says: "ManagedExternally", text: "let the system that manages the object set the fields of its contract", command: "kubectl describe {kind} {name}{ns}"},
	{when: typeContract, text: "let the provider set the field: its contract requires it", command: "kubectl describe {kind} {name}{ns}"},
	{when: typeProvider, says: "no Deployment has", text: "install the provider, or start its controller", command: "capstan init --help"},
	{kind: kindController, says: "NoReplicas", text: "start the controller", command: "kubectl scale deployment/{name}{ns} --replicas=1"},
	{kind: kindPod, says: "CrashLoopBackOff", text: "read why the container exits", command: "kubectl logs --previous {name}{ns}"},
	{kind: kindPod, says: "Image", text: "correct the image in the Deployment, or let the host pull it", command: "kubectl describe pod {name}{ns}"},
	{says: " is above ", text: "upgrade the control plane first, or set a version that it allows", command: upgradeCluster},
	{says: " is higher than ", text: "upgrade the control plane first, or set a version that it allows", command: upgradeCluster}, // of upstream
	{says: "VersionSkew", text: "set a version of the machines that the control plane allows", command: "kubectl describe {kind} {name}{ns}"},
	{says: "preflight check", text: "fix what the check reports; the annotation " + clusterv1.MachineSetSkipPreflightChecksAnnotation + " of the MachineSet skips checks by name", command: "kubectl describe {kind} {name}{ns}"},
	{when: controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition, text: "restore the Secret that the message names from a backup", command: "kubectl get secrets -l " + clusterv1.ClusterNameLabel + "={cluster}{ns}"},
	{kind: kindExtension, text: "start the server of the extension, or delete the ExtensionConfig if nothing needs it", command: "kubectl describe extensionconfig {name}"},
	{kind: kindCheck, when: clusterv1.MachineHealthCheckRemediationAllowedCondition, text: "repair Machines by hand, or change spec.remediation of the MachineHealthCheck", command: "kubectl edit {kind} {name}{ns}"},
	{kind: kindCluster, when: clusterv1.ClusterRemoteConnectionProbeCondition, text: "check that the API server of the cluster runs and that the management cluster reaches it",
		command: "capstan get kubeconfig {cluster}{ns} > {cluster}.kubeconfig && kubectl --kubeconfig {cluster}.kubeconfig get --raw /readyz"},
	{kind: kindMachine, when: clusterv1.MachineNodeHealthyCondition, text: "check the kubelet of the node", command: "capstan get nodes {cluster}{ns}"},
	{when: typeDeleting, says: "; finalizers: ", text: "let the controllers of the finalizers end their work, or remove the finalizers", command: "kubectl edit {kind} {name}{ns}"},
	{command: "kubectl describe {kind} {name}{ns}"},
}

func (w *walk) remedy(n *node) *Remedy {
	for _, r := range remedies {
		if strings.Contains(r.command, "{hook}") && n.hook() == "" {
			continue
		}
		if (r.kind == "" || r.kind == n.object.Kind) && (r.when == "" || r.when == n.Type) && (r.says == "" || says(n.finding, r.says)) {
			fill := w.filler(n)
			return &Remedy{Text: fill.Replace(r.text), Command: fill.Replace(r.command)}
		}
	}
	return nil
}

// hook is the annotation of the object that the message names and that a user can remove, or "".
func (n *node) hook() string {
	for _, annotation := range n.object.Hooks {
		if strings.Contains(n.Message, annotation) && !strings.HasSuffix(annotation, "/"+kcpCleanup) {
			return annotation
		}
	}
	return ""
}

var version = regexp.MustCompile(`v[0-9]+\.[0-9]+\.[0-9]+[-+.0-9A-Za-z]*`)

func (w *walk) filler(n *node) *strings.Replacer {
	o := n.object
	kind := strings.ToLower(o.Kind)
	if o.Group != "" {
		kind += "." + o.Group
	}
	namespace, cluster, user, field := "", "", "the object that refers to it", "the reference"
	if o.Namespace != "" {
		namespace = " -n " + o.Namespace
	}
	if w.cluster != nil {
		cluster = w.cluster.Name
	}
	if n.parent != nil {
		for _, ref := range n.parent.object.Refs {
			if ref.To == o.Key {
				user, field = n.parent.object.String(), ref.Field
			}
		}
	}
	return strings.NewReplacer("{object}", o.String(), "{kind}", kind, "{name}", o.Name, "{ns}", namespace,
		"{cluster}", cluster, "{user}", user, "{field}", field, "{hook}", n.hook(), "{version}", cmp.Or(version.FindString(n.Message), "VERSION"))
}

// Sentence is a cause in one line.
func (c *Cause) Sentence() string {
	l := &c.Chain[0]
	text := ""
	for part := range strings.Lines(cmp.Or(l.Message, l.Reason)) {
		part = strings.TrimPrefix(strings.TrimSpace(part), "* ")
		switch {
		case text == "":
			text = part
		case strings.HasSuffix(text, ":"):
			text += " " + part
		default:
			text += "; " + part
		}
	}
	if l.Condition == typeMissing || l.Condition == typePaused {
		return text
	}
	return fmt.Sprintf("%s: %s", l.Object, text)
}
