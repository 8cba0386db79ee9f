// SPDX-License-Identifier: Apache-2.0

package machinestatus

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
)

// Taken is the result of copying the status of a provider's object.
type Taken struct {
	News  bool   // it has become complete just now
	Lacks string // the field that it has not set although it reports completion; empty for none
}

// BroughtData records that bootstrap data exists: a user provided it, or it was copied
// before. It reports whether it exists.
func BroughtData(m *clusterv1.Machine) bool {
	if m.Spec.Bootstrap.DataSecretName == nil {
		return false
	}
	m.Status.Initialization.BootstrapDataSecretCreated = new(true)
	return true
}

// TakeData records the Secret with bootstrap data, once the bootstrap config has created
// it.
func TakeData(m *clusterv1.Machine, obj *unstructured.Unstructured, contractVersion string) (t Taken, err error) {
	c, err := contract.BootstrapConfigFor(contractVersion)
	if err != nil {
		return t, err
	}
	created, _, err := c.DataSecretCreated.Get(obj)
	if err != nil || !created {
		return t, err
	}
	secret, _, err := c.DataSecretName.Get(obj)
	if err != nil {
		return t, err
	}
	if secret == "" {
		return Taken{Lacks: c.DataSecretName.String()}, nil // its provider sets it, which triggers a reconcile
	}
	m.Spec.Bootstrap.DataSecretName = &secret
	return Taken{News: BroughtData(m)}, nil
}

// TakeHost copies the status of the infrastructure machine, once that is provisioned.
// The last values of an infrastructure machine that was provisioned before stay.
func TakeHost(m *clusterv1.Machine, obj *unstructured.Unstructured, contractVersion string) (t Taken, err error) {
	c, err := contract.InfraMachineFor(contractVersion)
	if err != nil {
		return t, err
	}
	before := ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false)
	provisioned, _, err := c.Provisioned.Get(obj)
	if err != nil || (!provisioned && !before) {
		return t, err
	}
	id, _, err := c.ProviderID.Get(obj)
	switch {
	case err != nil:
		return t, err
	case id == "" && before:
		return t, nil
	case id == "":
		return Taken{Lacks: c.ProviderID.String()}, nil // its provider sets it, which triggers a reconcile
	}
	news := !before && m.Spec.ProviderID != id // the status may be written later than the spec
	m.Spec.ProviderID = id
	m.Status.Initialization.InfrastructureProvisioned = new(true)
	return Taken{News: news}, copyHost(m, obj, c)
}

// copyHost copies the fields that no other controller depends on: a field that cannot be
// read does not prevent the others.
func copyHost(m *clusterv1.Machine, obj *unstructured.Unstructured, c contract.InfraMachine) error {
	addresses, ok, unread := c.Addresses.Get(obj)
	if ok {
		m.Status.Addresses = addresses
	}
	wanted, _, err := c.WantedFailureDomain.Get(obj)
	if wanted != "" {
		m.Spec.FailureDomain = wanted
	}
	unread = errors.Join(unread, err)
	actual, ok, err := c.FailureDomain.Get(obj)
	if ok {
		m.Status.FailureDomain = actual
	}
	return errors.Join(unread, err)
}

// TakeCertificatesExpiry records when the certificates of a control plane machine
// expire: an annotation of the Machine has precedence over one of its bootstrap config,
// which may be nil.
func TakeCertificatesExpiry(m *clusterv1.Machine, config *unstructured.Unstructured) error {
	if _, ok := m.Labels[clusterv1.MachineControlPlaneLabel]; !ok {
		return nil
	}
	const annotation = clusterv1.MachineCertificatesExpiryDateAnnotation
	text, where := m.Annotations[annotation], "the Machine"
	if text == "" && config != nil {
		text, where = config.GetAnnotations()[annotation], config.GetKind()+" "+config.GetName()
	}
	if text == "" {
		m.Status.CertificatesExpiryDate = metav1.Time{}
		return nil
	}
	expiry, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("annotation %s of %s must be a time as RFC 3339 has it: %w", annotation, where, err)
	}
	m.Status.CertificatesExpiryDate = metav1.NewTime(expiry)
	return nil
}

// ProviderID identifies the Node; empty until it is known. A Machine copies it from obj,
// its infrastructure machine, once that is provisioned; a machine that is deleted before
// may have joined anyway.
func ProviderID(m *clusterv1.Machine, obj *unstructured.Unstructured, contractVersion string) (string, error) {
	if m.Spec.ProviderID != "" || m.DeletionTimestamp.IsZero() {
		return m.Spec.ProviderID, nil
	}
	c, err := contract.InfraMachineFor(contractVersion)
	if err != nil {
		return "", err
	}
	id, _, err := c.ProviderID.Get(obj)
	return id, err
}

// NodeName is the name by which the Node of a Machine is looked up if no Node has its
// provider ID; empty for none. A Node that was registered again has no ID at first, and
// must be drained with its Machine.
func NodeName(m *clusterv1.Machine, id string) string {
	if id != "" && m.DeletionTimestamp.IsZero() {
		return ""
	}
	return m.Status.NodeRef.Name
}

// ByName returns a Node that was found by its name, or nil if it is of another machine.
func ByName(node *corev1.Node, id string) *corev1.Node {
	if id != "" && node.Spec.ProviderID != "" {
		return nil
	}
	return node
}

// BeforeNode is what must happen before a Node can be looked up; empty if it can be. id
// is the provider ID, host the infrastructure machine for messages.
func BeforeNode(m *clusterv1.Machine, cluster *clusterv1.Cluster, id, host string) string {
	switch {
	case cluster == nil:
		return fmt.Sprintf("Waiting for Cluster %s to exist", m.Spec.ClusterName)
	case !ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false):
		return fmt.Sprintf("Waiting for the infrastructure of Cluster %s to be provisioned", cluster.Name)
	case id == "" && !m.Status.NodeRef.IsDefined():
		return fmt.Sprintf("Waiting for %s to report spec.providerID", host)
	}
	return ""
}
