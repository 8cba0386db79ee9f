// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

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
	{kind: kindCluster, when: typePaused, says: "spec.paused", text: "resume the Cluster", command: "capstan rollout resume cluster/{name}{ns}"},
	{kind: kindDeployment, when: typePaused, says: "spec.paused", text: "resume the MachineDeployment", command: "capstan rollout resume machinedeployment/{name}{ns}"},
	{when: typePaused, text: "remove the annotation that pauses the object", command: "kubectl annotate {kind} {name}{ns} " + clusterv1.PausedAnnotation + "-"},
	{when: typeMissing, text: "create {object}, or correct {field} of {user}", command: "kubectl get {kind}{ns}"},
	{when: typeQuota, text: "raise the limit, or delete objects that it counts", command: "kubectl describe resourcequota {name}{ns}"},
	{when: typeHook, says: "annotation", text: "remove the annotation when what it waits for is done", command: "kubectl annotate {kind} {name}{ns} {hook}-"},
	{kind: kindMachine, when: typeDeleting, says: "Hook", text: "remove the annotation when what it waits for is done", command: "kubectl annotate {kind} {name}{ns} {hook}-"},
	{kind: kindMachine, when: typeDeleting, says: "disruption budget", text: "let the PodDisruptionBudget allow the eviction: add a replica, or change the budget",
		command: "capstan get kubeconfig {cluster}{ns} > {cluster}.kubeconfig && kubectl --kubeconfig {cluster}.kubeconfig get poddisruptionbudgets --all-namespaces"},
	{says: "VersionSkew", text: "upgrade the control plane first, or set a version that it allows", command: "capstan upgrade cluster {cluster}{ns} --kubernetes-version {version} --dry-run"},
	{says: "preflight check", text: "fix what the check reports; the annotation " + clusterv1.MachineSetSkipPreflightChecksAnnotation + " of the MachineSet skips checks by name"},
	{when: controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition, text: "restore the Secret that the message names from a backup"},
	{kind: kindExtension, text: "start the server of the extension, or delete the ExtensionConfig if nothing needs it", command: "kubectl describe extensionconfig {name}"},
	{kind: kindCheck, when: clusterv1.MachineHealthCheckRemediationAllowedCondition, text: "repair Machines by hand, or change spec.remediation of the MachineHealthCheck", command: "kubectl edit {kind} {name}{ns}"},
	{kind: kindCluster, when: clusterv1.ClusterRemoteConnectionProbeCondition, text: "check that the API server of the cluster runs and that the management cluster reaches it",
		command: "capstan get kubeconfig {cluster}{ns} > {cluster}.kubeconfig && kubectl --kubeconfig {cluster}.kubeconfig get --raw /readyz"},
	{kind: kindMachine, when: clusterv1.MachineNodeHealthyCondition, text: "check the kubelet of the node", command: "capstan get nodes {cluster}{ns}"},
	{command: "kubectl describe {kind} {name}{ns}"},
}

func (w *walk) remedy(n *node) *Remedy {
	for _, r := range remedies {
		if (r.kind == "" || r.kind == n.object.Kind) && (r.when == "" || r.when == n.Type) && (r.says == "" || says(n.finding, r.says)) {
			fill := w.filler(n)
			return &Remedy{Text: fill.Replace(r.text), Command: fill.Replace(r.command)}
		}
	}
	return nil
}

var version = regexp.MustCompile(`v[0-9]+\.[0-9]+\.[0-9]+[-+.0-9A-Za-z]*`)

func (w *walk) filler(n *node) *strings.Replacer {
	o := n.object
	kind := strings.ToLower(o.Kind)
	if o.Group != "" {
		kind += "." + o.Group
	}
	namespace, cluster, user, field, hook := "", "", "the object that refers to it", "the reference", ""
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
	for _, annotation := range o.Hooks {
		if hook == "" || strings.Contains(n.Message, annotation) {
			hook = annotation
		}
	}
	return strings.NewReplacer("{object}", o.String(), "{kind}", kind, "{name}", o.Name, "{ns}", namespace,
		"{cluster}", cluster, "{user}", user, "{field}", field, "{hook}", hook, "{version}", cmp.Or(version.FindString(n.Message), "VERSION"))
}

// Sentence is a cause in one line.
func (c *Cause) Sentence() string {
	l := &c.Chain[0]
	if l.Condition == typeMissing || l.Condition == typePaused {
		return l.Message
	}
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
	return fmt.Sprintf("%s: %s", l.Object, text)
}
