// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/definition"
	"github.com/capstan-dev/capstan/conformance/internal/objectchecks"
	"github.com/capstan-dev/capstan/conformance/internal/testnamespace"
	"github.com/capstan-dev/capstan/contract"
)

func controlPlane() *role {
	const machines = "spec.machineTemplate."
	const timeouts = machines + "spec.deletion."
	return &role{
		name: "ControlPlane", page: "controlplane.md", suffix: "ControlPlane", optional: true,
		of: func(c Config) *Subject { return c.ControlPlane },
		promises: []definition.Promise{
			{Path: "status.initialization.controlPlaneInitialized", Type: "boolean", Must: true, In: contract.V1Beta2},
			{Path: "status.initialized", Type: "boolean", Must: true, In: contract.V1Beta1},
			{Path: "spec.controlPlaneEndpoint", Type: "object"},
			{Path: "spec.replicas", Type: "integer"},
			{Path: "status.selector", Type: "string"},
			{Path: "status.replicas", Type: "integer"},
			{Path: "status.readyReplicas", Type: "integer"},
			{Path: "status.availableReplicas", Type: "integer", In: contract.V1Beta2},
			{Path: "status.upToDateReplicas", Type: "integer", In: contract.V1Beta2},
			{Path: "status.updatedReplicas", Type: "integer", In: contract.V1Beta1},
			{Path: "status.unavailableReplicas", Type: "integer", In: contract.V1Beta1},
			{Path: "spec.version", Type: "string"},
			{Path: "status.version", Type: "string"},
			{Path: "status.versions", Type: "array", In: contract.V1Beta2},
			{Path: "status.externalManagedControlPlane", Type: "boolean"},
			{Path: "spec.rollout.after", Type: "string", In: contract.V1Beta2},
			{Path: "spec.rolloutAfter", Type: "string", In: contract.V1Beta1},
			{Path: machines + "metadata", Type: "object"},
			{Path: machines + "spec.infrastructureRef", Type: "object", In: contract.V1Beta2},
			{Path: machines + "infrastructureRef", Type: "object", In: contract.V1Beta1},
			{Path: machines + "spec.readinessGates", Type: "array", In: contract.V1Beta2},
			{Path: machines + "readinessGates", Type: "array", In: contract.V1Beta1},
			{Path: machines + "spec.taints", Type: "array", In: contract.V1Beta2},
			{Path: machines + "taints", Type: "array", In: contract.V1Beta1},
			{Path: timeouts + "nodeDrainTimeoutSeconds", Type: "integer", In: contract.V1Beta2},
			{Path: timeouts + "nodeVolumeDetachTimeoutSeconds", Type: "integer", In: contract.V1Beta2},
			{Path: timeouts + "nodeDeletionTimeoutSeconds", Type: "integer", In: contract.V1Beta2},
			{Path: machines + "nodeDrainTimeout", Type: "string", In: contract.V1Beta1},
			{Path: machines + "nodeVolumeDetachTimeout", Type: "string", In: contract.V1Beta1},
			{Path: machines + "nodeDeletionTimeout", Type: "string", In: contract.V1Beta1},
		},
		done: func(version string) (contract.Field[bool], error) {
			c, err := contract.ControlPlaneFor(version)
			return c.Initialized, err
		},
		own: func(ctx context.Context, s *subject) error {
			return s.clusterOf(ctx, clusterKey.Name, map[string]any{"controlPlaneRef": refTo(s.Main)})
		},
		disown: func(ctx context.Context, s *subject) error { return s.World.Delete(ctx, clusterKey) },
		checks: controlPlaneChecks,
	}
}

func controlPlaneChecks(r *role) []check {
	return slices.Concat(r.definitions(), []check{
		r.say("An X with replicas can be scaled as other things are.",
			"Its definition has the subresource scale, with spec.replicas, status.replicas and status.selector. A kind without spec.replicas needs none.",
			check{remedy: "Add the marker kubebuilder:subresource:scale.", test: defined((*definition.Kind).Scalable)}),
	}, r.beginning("Cluster", "initialized"), []check{
		r.finalizer("initialized"),
		r.say("The Cluster of an initialized X has an endpoint.",
			"spec.controlPlaneEndpoint of the Cluster, by the InfraCluster or by spec.controlPlaneEndpoint of the X.",
			check{remedy: "Write spec.controlPlaneEndpoint if the infrastructure has none.", live: true, test: clusterHasEndpoint}),
		r.say("The kubeconfig of the Cluster of an X is in a Secret that is named after the Cluster.",
			"<cluster>-kubeconfig, of the type cluster.x-k8s.io/secret, with the label cluster.x-k8s.io/cluster-name, and a kubeconfig in the key value.",
			check{remedy: "Create the Secret when the endpoint and the certificates are known.", live: true, test: kubeconfigKept}),
		r.say("The client certificate in the kubeconfig of an X is not valid for more than a year.",
			"It is renewed in time. A kubeconfig without a client certificate is out of scope.",
			check{remedy: "Sign client certificates for a year, and renew them after half of it.", live: true, test: certificateShort}),
		r.say("The certificates of the Cluster of an X are in Secrets that are named after the Cluster.",
			"Those of <cluster>-ca, <cluster>-etcd, <cluster>-proxy and <cluster>-sa that are there have the type cluster.x-k8s.io/secret and the label cluster.x-k8s.io/cluster-name.",
			check{remedy: "Give the Secrets type and label when they are created.", live: true, test: certificatesKept}),
		r.say("An X with a version reports which versions run.",
			"In status.versions, or in status.version, which is the lowest. One without spec.version need not.",
			check{remedy: "Report the versions of the machines, or of what runs instead.", live: true, test: versionReported}),
		r.say("An X with replicas counts them.",
			"In status.replicas, readyReplicas, availableReplicas and upToDateReplicas; under v1beta1 in updatedReplicas and unavailableReplicas. All come to be spec.replicas. One without spec.replicas need not.",
			check{remedy: "Count at each reconcile, and report zeros too.", live: true, test: replicasCounted}),
		r.say("The selector of an X selects its Machines.",
			"status.selector selects all Machines that it controls, and no others in the namespace.",
			check{remedy: "Report the labels that its Machines are given as a selector in text.", live: true, test: selectorSelects}),
		r.say("The Machines of an X are labelled as those of a control plane.",
			"With cluster.x-k8s.io/control-plane and with cluster.x-k8s.io/cluster-name. A control plane without Machines has nothing to label.",
			check{remedy: "Set the labels when a Machine is created.", live: true, test: machinesLabelled}),
		r.say("The Machines of an X say whether they are up to date.",
			"By the condition UpToDate, which it sets.",
			check{Check: advice, remedy: "Compare each Machine with the spec at each reconcile, and set the condition.", live: true, test: machinesUpToDate}),
		r.say("Labels and annotations of an X for its Machines reach those that are there.",
			"Additions to spec.machineTemplate.metadata appear on its Machines, and no Machine is replaced for them.",
			check{Check: advice, remedy: "Write metadata to the Machines in place.", live: true, test: metadataReaches}),
		r.say("Timeouts of an X for Nodes reach the Machines that are there.",
			"A nodeDrainTimeoutSeconds in spec.machineTemplate.spec.deletion, or a nodeDrainTimeout in spec.machineTemplate under v1beta1, appears on its Machines, and no Machine is replaced for it. An X whose definition has no such field need not.",
			check{Check: advice, remedy: "Write timeouts of Nodes to the Machines in place.", live: true, test: timeoutsReach}),
		r.say("The Machines of an X are spread over the failure domains for control planes.",
			"Each is in one of the failure domains of the Cluster with controlPlane, and none of these has two more than another. It can be seen with an InfraCluster in the config that reports such failure domains.",
			check{Check: advice, remedy: "Choose the failure domain with the fewest Machines for each that is made.", live: true, test: machinesSpread}),
		r.say("An X without Machines says whether it is managed externally.",
			"By status.externalManagedControlPlane, as its Nodes are not to be looked for.",
			check{Check: advice, remedy: "Set status.externalManagedControlPlane to true if the control plane has no Nodes in the cluster, and to false if it has.", live: true, test: externalSaid}),
	}, r.middle(contract.AvailableCondition), r.end("Cluster"))
}

func clusterHasEndpoint(ctx context.Context, s *subject) error {
	return s.World.Await(ctx, func() error {
		port, _, _ := unstructured.NestedInt64(objectOf(s.World.Latest(clusterKey)), "spec", "controlPlaneEndpoint", "port")
		if objectchecks.Text(s.World.Latest(clusterKey), "spec", "controlPlaneEndpoint", "host") == "" || port == 0 {
			return errors.New("spec.controlPlaneEndpoint of the Cluster is not set")
		}
		return nil
	})
}

// clusterSecret reads a Secret that is named after the Cluster.
func (s *subject) clusterSecret(ctx context.Context, purpose string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := s.World.Client.Get(ctx, client.ObjectKey{Namespace: s.World.Namespace, Name: clusterKey.Name + "-" + purpose}, secret)
	return secret, err
}

func typedAndLabelled(s *subject, secret *corev1.Secret) error {
	if secret.Type != clusterv1.ClusterSecretType {
		return fmt.Errorf("Secret %s is of type %s, want %s", secret.Name, secret.Type, clusterv1.ClusterSecretType)
	}
	return dataLabelled(s, secret)
}

func kubeconfigKept(ctx context.Context, s *subject) error {
	secret, err := s.clusterSecret(ctx, "kubeconfig")
	if err != nil {
		return err
	}
	if _, err := clientcmd.Load(secret.Data["value"]); err != nil || len(secret.Data["value"]) == 0 {
		return fmt.Errorf("the key value of Secret %s is no kubeconfig", secret.Name) // its value must not be shown
	}
	return typedAndLabelled(s, secret)
}

func certificateShort(ctx context.Context, s *subject) error {
	secret, err := s.clusterSecret(ctx, "kubeconfig")
	if err != nil {
		return conformance.Skip("%w", err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		return conformance.Skip("the kubeconfig cannot be read")
	}
	block, _ := pem.Decode(cfg.CertData)
	if block == nil {
		return conformance.Skip("the kubeconfig has no client certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("parse the client certificate in Secret %s: %w", secret.Name, err)
	}
	const year = 366 * 24 * time.Hour // with a day for clocks that differ
	if valid := cert.NotAfter.Sub(cert.NotBefore); valid > year {
		return fmt.Errorf("it is valid for %d days", int(valid.Hours()/24))
	}
	return nil
}

func certificatesKept(ctx context.Context, s *subject) error {
	found := 0
	for _, purpose := range []string{"ca", "etcd", "proxy", "sa"} {
		secret, err := s.clusterSecret(ctx, purpose)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = typedAndLabelled(s, secret)
		}
		if err != nil {
			return err
		}
		found++
	}
	if found == 0 {
		return conformance.Skip("there are none")
	}
	return nil
}

func versionReported(ctx context.Context, s *subject) error {
	c, err := contract.ControlPlaneFor(s.kind.Contract)
	if err != nil {
		return err
	}
	if objectchecks.Text(s.Example, "spec", "version") == "" {
		return conformance.Skip("the example has no spec.version")
	}
	return s.awaitNot(ctx, c.IsProvisioning, "%s reports no version; its status is %s")
}

func replicasCounted(ctx context.Context, s *subject) error {
	c, err := contract.ControlPlaneFor(s.kind.Contract)
	if err != nil {
		return err
	}
	if _, ok, _ := unstructured.NestedInt64(s.Example.Object, "spec", "replicas"); !ok {
		return conformance.Skip("the example has no spec.replicas")
	}
	return s.awaitNot(ctx, c.IsScaling, "not all replicas of %s are counted; its status is %s")
}

// awaitNot waits until is is false of the main object; problem is the error until then,
// with the object and its status.
func (s *subject) awaitNot(ctx context.Context, is func(*unstructured.Unstructured) (bool, error), problem string) error {
	return s.World.Await(ctx, func() error {
		obj := s.World.Latest(s.Main)
		if obj == nil {
			return fmt.Errorf("%s is gone", s.Main)
		}
		if yes, err := is(obj); err != nil || yes {
			return errors.Join(err, fmt.Errorf(problem, s.Main, objectchecks.JSON(obj.Object["status"])))
		}
		return nil
	})
}

// machines returns the Machines that the main object controls. They are read from the
// API: a watch of them may lag behind that of the main object.
func (s *subject) machines(ctx context.Context) (mine, others []*unstructured.Unstructured, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion().WithKind("MachineList"))
	if err := s.World.Client.List(ctx, list, client.InNamespace(s.World.Namespace)); err != nil {
		return nil, nil, fmt.Errorf("list Machines: %w", err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		if o := metav1.GetControllerOf(m); o != nil && o.Kind == s.Main.Kind && o.Name == s.Main.Name {
			mine = append(mine, m)
		} else {
			others = append(others, m)
		}
	}
	if len(mine) == 0 {
		err = conformance.Skip("%s has no Machines", s.Main)
	}
	return mine, others, err
}

func selectorSelects(ctx context.Context, s *subject) error {
	mine, others, err := s.machines(ctx)
	if err != nil {
		return err
	}
	selector := objectchecks.Text(s.World.Latest(s.Main), "status", "selector")
	if selector == "" {
		return fmt.Errorf("%s has no status.selector", s.Main)
	}
	matches, err := labels.Parse(selector)
	if err != nil {
		return fmt.Errorf("status.selector of %s: %w", s.Main, err)
	}
	for _, m := range append(mine, others...) {
		if want := slices.Contains(mine, m); matches.Matches(labels.Set(m.GetLabels())) != want {
			return fmt.Errorf("that status.selector %q selects Machine %s is %t, want %t", selector, m.GetName(), !want, want)
		}
	}
	return nil
}

func machinesLabelled(ctx context.Context, s *subject) error {
	mine, _, err := s.machines(ctx)
	if err != nil {
		return err
	}
	for _, m := range mine {
		if _, ok := m.GetLabels()[clusterv1.MachineControlPlaneLabel]; !ok || m.GetLabels()[clusterv1.ClusterNameLabel] != clusterKey.Name {
			return fmt.Errorf("Machine %s has the labels %s", m.GetName(), objectchecks.JSON(m.GetLabels()))
		}
	}
	return nil
}

func machinesUpToDate(ctx context.Context, s *subject) error {
	if _, _, err := s.machines(ctx); err != nil {
		return err
	}
	return s.World.Within(ctx, s.World.Limits.Soon, func() error {
		mine, _, err := s.machines(ctx)
		for _, m := range mine {
			if objectchecks.Condition(m, clusterv1.MachineUpToDateCondition) == "" {
				return fmt.Errorf("Machine %s has no condition UpToDate", m.GetName())
			}
		}
		return err
	})
}

func metadataReaches(ctx context.Context, s *subject) error {
	const key = "conformance.capstan.dev/reached"
	return s.reachesMachines(ctx, func(obj *unstructured.Unstructured) {
		set(obj, testnamespace.BySuite, "spec", "machineTemplate", "metadata", "labels", key)
		set(obj, testnamespace.BySuite, "spec", "machineTemplate", "metadata", "annotations", key)
	}, func(m *unstructured.Unstructured) error {
		if m.GetLabels()[key] == "" {
			return fmt.Errorf("Machine %s does not have the label %s", m.GetName(), key)
		}
		if m.GetAnnotations()[key] == "" {
			return fmt.Errorf("Machine %s does not have the annotation %s", m.GetName(), key)
		}
		return nil
	})
}

func timeoutsReach(ctx context.Context, s *subject) error {
	const seconds = int32(3600)
	c, err := contract.ControlPlaneFor(s.kind.Contract)
	if err != nil {
		return err
	}
	field := c.MachineTemplate.NodeDrainSeconds
	if !s.kind.Has(field.String()) {
		return conformance.Skip("it has no %s", field)
	}
	var failed error
	err = s.reachesMachines(ctx, func(obj *unstructured.Unstructured) {
		failed = field.Set(obj, seconds)
	}, func(m *unstructured.Unstructured) error {
		const at = "nodeDrainTimeoutSeconds"
		if now, _, _ := unstructured.NestedInt64(m.Object, "spec", "deletion", at); now != int64(seconds) {
			return fmt.Errorf("spec.deletion.%s of Machine %s is %d, want %d", at, m.GetName(), now, seconds)
		}
		return nil
	})
	return errors.Join(failed, err)
}

// reachesMachines changes the main object and waits until each of its Machines
// has the change, which must be those that were there before.
func (s *subject) reachesMachines(ctx context.Context, change func(*unstructured.Unstructured), has func(*unstructured.Unstructured) error) error {
	before, _, err := s.machines(ctx)
	if err != nil {
		return err
	}
	if err := s.World.Change(ctx, s.Main, change); err != nil {
		return err
	}
	return s.World.Await(ctx, func() error {
		now, _, err := s.machines(ctx)
		if err != nil {
			return err
		}
		for _, m := range now {
			if !slices.ContainsFunc(before, func(old *unstructured.Unstructured) bool { return old.GetName() == m.GetName() }) {
				return fmt.Errorf("Machine %s was made for it", m.GetName())
			}
			if err := has(m); err != nil {
				return err
			}
		}
		return nil
	})
}

func machinesSpread(ctx context.Context, s *subject) error {
	in := map[string]int{}
	domains, _, _ := unstructured.NestedSlice(objectOf(s.World.Latest(clusterKey)), "status", "failureDomains")
	for _, d := range domains {
		if d, _ := d.(map[string]any); d["controlPlane"] == true {
			name, _ := d["name"].(string)
			in[name] = 0
		}
	}
	if len(in) == 0 {
		return conformance.Skip("the Cluster has no failure domains for control planes")
	}
	mine, _, err := s.machines(ctx)
	if err != nil {
		return err
	}
	for _, m := range mine {
		domain := objectchecks.Text(m, "spec", "failureDomain")
		if _, ok := in[domain]; !ok {
			return fmt.Errorf("Machine %s is in failure domain %q; those for control planes are %s", m.GetName(), domain, strings.Join(slices.Sorted(maps.Keys(in)), ", "))
		}
		in[domain]++
	}
	if counts := slices.Sorted(maps.Values(in)); counts[len(counts)-1] > counts[0]+1 {
		return fmt.Errorf("the failure domains have Machines %v", in)
	}
	return nil
}

func externalSaid(ctx context.Context, s *subject) error {
	if mine, _, _ := s.machines(ctx); len(mine) > 0 {
		return conformance.Skip("%s has Machines", s.Main)
	}
	return s.World.Within(ctx, s.World.Limits.Soon, func() error {
		if _, ok, err := unstructured.NestedBool(objectOf(s.World.Latest(s.Main)), "status", "externalManagedControlPlane"); err != nil || !ok {
			return errors.Join(err, fmt.Errorf("%s has no Machines, and no status.externalManagedControlPlane", s.Main))
		}
		return nil
	})
}
