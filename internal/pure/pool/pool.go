// SPDX-License-Identifier: Apache-2.0

// Package pool decides about the machines of a MachinePool, which its provider
// makes and takes away.
//
//   - What a provider reports is believed while it says that the pool is
//     provisioned. What does not agree with itself is told of, and nothing is
//     deleted because of it.
//   - A provider that has an infrastructure machine for each replica gets a
//     Machine for each of those. Such a Machine looks after its Node, and goes
//     with its host.
//   - The Nodes of other pools are known by their provider IDs. One that leaves
//     the list of a whole report has lost its host, and is deleted.
//   - A Node that another Machine or pool has is never touched.
package pool

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
	"github.com/capstan-dev/capstan/internal/kit/plaintext"
	"github.com/capstan-dev/capstan/internal/pure/fieldrules"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/machinetemplate"
)

// Bounds of the list of provider IDs; they are the API's.
const (
	maxProviderIDs = 10000
	maxProviderID  = 512
)

// Report is what the infrastructure of a pool reports of its machines.
type Report struct {
	Believed    bool     // the infrastructure says that it is provisioned
	News        bool     // it does so for the first time
	Whole       bool     // there is a provider ID for each replica
	MachineKind string   // of its infrastructure machines; "" if it has none
	Problems    []string // what does not fit together in it, as sentences
}

// TakeInfrastructure copies what the infrastructure reports to the pool.
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
	r.Whole = int(replicas) <= len(ids) && uncounted == nil
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

// distinct returns each provider ID once, without what can be none.
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
			r.Problems = append(r.Problems, fmt.Sprintf("%s lists a provider ID of more than %d bytes: %s", by, maxProviderID, plaintext.Line(id, 64)))
		case n > 1:
			r.Problems = append(r.Problems, fmt.Sprintf("%s lists provider ID %s %d times", by, plaintext.Line(id, 64), n))
		}
	}
	if len(out) > maxProviderIDs {
		r.Problems = append(r.Problems, fmt.Sprintf("%s lists %d provider IDs, of which %d can be looked after", by, len(out), maxProviderIDs))
		out = out[:maxProviderIDs]
	}
	return out
}

func sameElements(a, b []string) bool {
	return len(a) == len(b) && slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// TakeData notes the Secret with bootstrap data, when the bootstrap config has
// made it. A config that takes the place of another is waited for with the data
// of that one: machines that come meanwhile need some. lacks is the field that
// the config has not set, though it says that it is done.
func TakeData(p *clusterv1.MachinePool, obj *unstructured.Unstructured, contractVersion string) (lacks string, err error) {
	m := &clusterv1.Machine{}
	taken, err := machinestatus.TakeData(m, obj, contractVersion)
	if m.Spec.Bootstrap.DataSecretName != nil {
		p.Spec.Template.Spec.Bootstrap.DataSecretName = m.Spec.Bootstrap.DataSecretName
		p.Status.Initialization.BootstrapDataSecretCreated = new(true)
	}
	return taken.Lacks, err
}

// NameLabel is the value of the label that names the pool of a Machine, and of
// what is made for it.
func NameLabel(p *clusterv1.MachinePool) string { return fieldrules.AsLabelValue(p.Name) }

// MachineTemplate is what the Machines of a pool have. Their bootstrap data is
// the affair of the provider.
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

// FollowKubelet notes on a Machine of a pool which version its provider has given
// it: that need not be the one that the pool asks for now.
func FollowKubelet(m *clusterv1.Machine) {
	version := m.Status.NodeInfo.KubeletVersion
	if len(fieldrules.Version(nil, version)) == 0 && version != "" {
		m.Spec.Version = version
	}
}

// UpToDate tells whether a Machine of a pool runs the version that the pool
// wants. A newer one is the choice of a provider that upgrades by itself.
func UpToDate(p *clusterv1.MachinePool, m *clusterv1.Machine) metav1.Condition {
	const target = clusterv1.MachineUpToDateCondition
	want := p.Spec.Template.Spec.Version
	if info := m.Status.NodeInfo; info != nil && older(info.KubeletVersion, want) {
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineNotUpToDateReason,
			fmt.Sprintf("* Kubelet version %s, %s required", plaintext.Line(info.KubeletVersion, 64), want))
	}
	return conditions.New(target, metav1.ConditionTrue, clusterv1.MachineUpToDateReason, "")
}
