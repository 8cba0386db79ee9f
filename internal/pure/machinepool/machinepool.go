// SPDX-License-Identifier: Apache-2.0

// Package machinepool decides about the machines of a MachinePool, which its provider creates
// and deletes.
//
//   - The report of a provider counts while it says that the pool is provisioned. An
//     inconsistent report is shown in the status, and nothing is deleted because of it.
//   - For a provider with an infrastructure machine for each replica, each of these gets
//     a Machine. Such a Machine manages its Node, and is deleted with its infrastructure
//     machine.
//   - The Nodes of other pools are identified by their provider IDs. A Node whose ID is
//     no longer in the list of a complete report has lost its infrastructure, and is
//     deleted.
//   - A Node that belongs to another Machine or pool is never changed.
package machinepool

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/machinetemplate"
)

// Limits of the list of provider IDs, from the API.
const (
	maxProviderIDs = 10000
	maxProviderID  = 512
)

// Report is the infrastructure's report about the machines of a pool.
type Report struct {
	Believed    bool     // the infrastructure reports that it is provisioned
	News        bool     // it became provisioned just now
	Whole       bool     // there is a provider ID for each replica
	MachineKind string   // of its infrastructure machines; "" if it has none
	Problems    []string // inconsistencies in it, as sentences
}

// TakeInfrastructure copies the infrastructure's report to the pool.
func TakeInfrastructure(p *clusterv1.MachinePool, obj *unstructured.Unstructured, contractVersion string) (r Report, err error) {
	c, err := contract.InfraMachinePoolFor(contractVersion)
	if err != nil {
		return r, err
	}
	if r.MachineKind, _, err = c.MachineKind.Get(obj); err != nil {
		return r, err
	}
	if r.Believed, err = c.IsProvisioned(obj); err != nil || !r.Believed {
		return r, err
	}
	reported, _, err := c.ProviderIDList.Get(obj)
	if err != nil {
		return r, err
	}
	replicas, counted, uncounted := c.Replicas.Get(obj)
	ids := r.distinct(reported, obj)
	if !counted {
		replicas = int32(len(ids))
	}
	r.Whole = r.Whole && int(replicas) <= len(ids) && uncounted == nil
	switch by := obj.GetKind() + " " + obj.GetName(); {
	case int(replicas) > len(ids):
		r.Problems = append(r.Problems, fmt.Sprintf("%s lists the provider IDs of %d of its %d replicas", by, len(ids), replicas))
	case int(replicas) < len(ids) && uncounted == nil:
		r.Problems = append(r.Problems, fmt.Sprintf("%s lists %d provider IDs and counts %d replicas", by, len(ids), replicas))
	}
	if !sameElements(p.Spec.ProviderIDList, ids) {
		p.Spec.ProviderIDList = ids
	}
	if uncounted == nil {
		p.Status.Replicas = &replicas
	}
	r.News = !ptr.Deref(p.Status.Initialization.InfrastructureProvisioned, false)
	p.Status.Initialization.InfrastructureProvisioned = new(true)
	return r, uncounted
}

// distinct returns each provider ID once, without invalid ones, and notes in Whole whether
// it returns all.
func (r *Report) distinct(reported []string, obj *unstructured.Unstructured) (out []string) {
	by, times := obj.GetKind()+" "+obj.GetName(), make(map[string]int, len(reported))
	for _, id := range reported {
		if times[id]++; id != "" && len(id) <= maxProviderID && times[id] == 1 {
			out = append(out, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(times)) {
		switch n := times[id]; {
		case id == "":
			r.Problems = append(r.Problems, by+" lists an empty provider ID")
		case len(id) > maxProviderID:
			r.Problems = append(r.Problems, fmt.Sprintf("%s lists a provider ID of more than %d bytes: %s", by, maxProviderID, sanitize.Line(id, 64)))
		case n > 1:
			r.Problems = append(r.Problems, fmt.Sprintf("%s lists provider ID %s %d times", by, sanitize.Line(id, 64), n))
		}
	}
	if r.Whole = len(out) <= maxProviderIDs; !r.Whole {
		r.Problems = append(r.Problems, fmt.Sprintf("%s lists %d provider IDs, of which %d can be looked after", by, len(out), maxProviderIDs))
		out = out[:maxProviderIDs]
	}
	return out
}

func sameElements(a, b []string) bool {
	return len(a) == len(b) && slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// TakeData records the Secret with bootstrap data, once the bootstrap config has created
// it. While the successor of a config is not complete, the data of the previous one
// stays: machines that start meanwhile need it. lacks is the field that the config has
// not set although it reports completion.
func TakeData(p *clusterv1.MachinePool, obj *unstructured.Unstructured, contractVersion string) (lacks string, err error) {
	m := &clusterv1.Machine{}
	taken, err := machinestatus.TakeData(m, obj, contractVersion)
	if m.Spec.Bootstrap.DataSecretName != nil {
		p.Spec.Template.Spec.Bootstrap.DataSecretName = m.Spec.Bootstrap.DataSecretName
		p.Status.Initialization.BootstrapDataSecretCreated = new(true)
	}
	return taken.Lacks, err
}

// NameLabel is the value of the label that names the pool of a Machine, and of the
// objects created for it.
func NameLabel(p *clusterv1.MachinePool) string { return fieldvalidation.AsLabelValue(p.Name) }

// MachineTemplate is the template of a pool's Machines. Their bootstrap data is the
// responsibility of the provider.
func MachineTemplate(p *clusterv1.MachinePool) machinetemplate.Template {
	spec := p.Spec.Template.Spec
	t := machinetemplate.Template{
		Maker:     owner(p),
		Namespace: p.Namespace,
		Labels: map[string]string{
			clusterv1.ClusterNameLabel: p.Spec.ClusterName, clusterv1.MachinePoolNameLabel: NameLabel(p),
		},
		Annotations: p.Spec.Template.Annotations,
		Spec: clusterv1.MachineSpec{
			ClusterName: p.Spec.ClusterName, Version: spec.Version, Bootstrap: clusterv1.Bootstrap{DataSecretName: new("")},
			Deletion: spec.Deletion, MinReadySeconds: spec.MinReadySeconds, ReadinessGates: spec.ReadinessGates,
		},
	}
	for key, value := range p.Spec.Template.Labels {
		if _, ours := t.Labels[key]; !ours {
			t.Labels[key] = value
		}
	}
	return t
}

func owner(p *clusterv1.MachinePool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachinePool", Name: p.Name, UID: p.UID}
}

// FollowKubelet records on a Machine of a pool which version its provider gave it: that
// can differ from the version in the pool's spec.
func FollowKubelet(m *clusterv1.Machine) {
	version := m.Status.NodeInfo.KubeletVersion
	if len(fieldvalidation.Version(nil, version)) == 0 && version != "" {
		m.Spec.Version = version
	}
}

// UpToDate reports whether a Machine of a pool runs the version of the pool. A newer one
// is the choice of a provider that upgrades automatically.
func UpToDate(p *clusterv1.MachinePool, m *clusterv1.Machine) metav1.Condition {
	const target = clusterv1.MachineUpToDateCondition
	want := p.Spec.Template.Spec.Version
	if info := m.Status.NodeInfo; info != nil && older(info.KubeletVersion, want) {
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineNotUpToDateReason,
			fmt.Sprintf("* Kubelet version %s, %s required", sanitize.Line(info.KubeletVersion, 64), want))
	}
	return conditions.New(target, metav1.ConditionTrue, clusterv1.MachineUpToDateReason, "")
}
