// SPDX-License-Identifier: Apache-2.0

package machinestatus

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
)

// Taken tells what came of taking over what an object says.
type Taken struct {
	News  bool   // it is done now, and was not before
	Lacks string // the field that it has not set, though it says that it is done; empty for none
}

// BroughtData notes that there are bootstrap data: a user brought them, or they
// were taken over before. It reports whether there are.
func BroughtData(m *clusterv1.Machine) bool {
	if m.Spec.Bootstrap.DataSecretName == nil {
		return false
	}
	m.Status.Initialization.BootstrapDataSecretCreated = new(true)
	return true
}

// TakeData notes the Secret with bootstrap data, when the bootstrap config has
// made it.
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
		return Taken{Lacks: c.DataSecretName.String()}, nil // its provider sets it, which wakes us
	}
	m.Spec.Bootstrap.DataSecretName = &secret
	return Taken{News: BroughtData(m)}, nil
}

// TakeHost copies what the infrastructure machine says about the host, when that
// is provisioned. What is known of a host that was once stays.
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
		return Taken{Lacks: c.ProviderID.String()}, nil // its provider sets it, which wakes us
	}
	news := !before && m.Spec.ProviderID != id // the status may be written later than the spec
	m.Spec.ProviderID = id
	m.Status.Initialization.InfrastructureProvisioned = new(true)
	return Taken{News: news}, copyHost(m, obj, c)
}

// copyHost copies what no other controller needs to continue: a value that cannot be
// read leaves out itself.
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

// TakeCertificatesExpiry notes when the certificates of a control plane machine
// expire: an annotation of the Machine wins over one of its bootstrap config,
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

// ProviderID is what leads to the Node; empty while nothing does. A Machine takes
// it over from obj, its infrastructure machine, when its host is provisioned; one
// that is deleted before may have joined all the same.
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

// BeforeNode is what is waited for before a Node can be looked for; nothing if it
// can. id is the provider ID, host the infrastructure machine for messages.
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
