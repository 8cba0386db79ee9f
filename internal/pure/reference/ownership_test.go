// SPDX-License-Identifier: Apache-2.0

package reference_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

const core = "cluster.x-k8s.io/v1beta2"

func plain(apiVersion, kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID("uid of " + name)}
}

func controls(o metav1.OwnerReference) metav1.OwnerReference {
	o.Controller = new(true)
	return o
}

// TestAClusterControlsWhatItsTopologyMakes and nothing else, as upstream: another tool
// may be the controller of what it made.
func TestAClusterControlsWhatItsTopologyMakes(t *testing.T) {
	t.Parallel()
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	if o := reference.ByCluster(c).Owner; o.Controller != nil || o.BlockOwnerDeletion != nil {
		t.Errorf("without a topology: %+v, want a plain owner", o)
	}
	c.Spec.Topology.ClassRef.Name = "class"
	if o := reference.ByCluster(c).Owner; o.Controller == nil || !*o.Controller {
		t.Errorf("with a topology: %+v, want the controller", o)
	}
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	var (
		demo, prod   = plain(core, "Cluster", "demo"), plain(core, "Cluster", "prod")
		m, other     = plain(core, "Machine", "m"), plain(core, "Machine", "other")
		set, foreign = plain(core, "MachineSet", "s"), plain(core, "MachineSet", "foreign")
		kcp          = plain("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", "prod")
		tool         = plain("tools.example.com/v1", "Stack", "t")
		uid          = func(o metav1.OwnerReference) metav1.OwnerReference { o.UID = "another"; return o }
	)
	cluster := reference.ByCluster(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "uid of demo"}})
	machine := reference.ByMachine(&clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: "m", OwnerReferences: []metav1.OwnerReference{controls(set)}},
		Spec:       clusterv1.MachineSpec{ClusterName: "demo"},
	})
	pool, hosts := plain(core, "MachinePool", "p"), plain("infrastructure.example.com/v1", "HostPool", "p")
	pooled := reference.ByMachine(&clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: "m", OwnerReferences: []metav1.OwnerReference{controls(pool)}},
		Spec:       clusterv1.MachineSpec{ClusterName: "demo"},
	})
	template := reference.ToShare(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})
	config := plain("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig", "m")
	booting := template
	booting.Maker = &config
	const labelled = "Cluster prod, by its label cluster.x-k8s.io/cluster-name"

	tests := map[string]struct {
		claim  reference.Claim
		owners []metav1.OwnerReference
		label  string
		want   reference.Result
	}{
		"what a provider's pool has made is its Machine's":          {claim: pooled, owners: []metav1.OwnerReference{hosts}, label: "demo"},
		"so it is, in addition, if the provider controls it":        {claim: pooled, owners: []metav1.OwnerReference{controls(hosts)}, label: "demo", want: reference.Result{Shared: true}},
		"not with the label of another Cluster":                     {claim: pooled, owners: []metav1.OwnerReference{controls(hosts)}, label: "prod", want: reference.Result{Holder: "HostPool p"}},
		"not if another Machine has it":                             {claim: pooled, owners: []metav1.OwnerReference{controls(other), hosts}, label: "demo", want: reference.Result{Holder: "Machine other"}},
		"a provider's controller keeps it from other Machines":      {claim: machine, owners: []metav1.OwnerReference{controls(hosts)}, label: "demo", want: reference.Result{Holder: "HostPool p"}},
		"an object without owner is free":                           {claim: cluster},
		"what only has the Cluster's label is free":                 {claim: cluster, label: "demo"},
		"what another Cluster's label is on is the other's":         {claim: cluster, label: "prod", want: reference.Result{Holder: labelled}},
		"what the Cluster controls is its own":                      {claim: cluster, owners: []metav1.OwnerReference{controls(demo)}, label: "demo"},
		"so it is with another's label":                             {claim: cluster, owners: []metav1.OwnerReference{controls(demo)}, label: "prod"},
		"so it is after a restore, with another UID":                {claim: cluster, owners: []metav1.OwnerReference{uid(controls(demo))}},
		"so it is in an older version of the API":                   {claim: cluster, owners: []metav1.OwnerReference{controls(plain("cluster.x-k8s.io/v1beta1", "Cluster", "demo"))}},
		"so it is with another owner next to it":                    {claim: cluster, owners: []metav1.OwnerReference{prod, controls(demo)}},
		"what upstream gave the Cluster is its own":                 {claim: cluster, owners: []metav1.OwnerReference{demo}, label: "demo"},
		"what another Cluster controls is the other's":              {claim: cluster, owners: []metav1.OwnerReference{demo, controls(prod)}, label: "demo", want: reference.Result{Holder: "Cluster prod"}},
		"what upstream gave another Cluster is the other's":         {claim: cluster, owners: []metav1.OwnerReference{prod}, label: "demo", want: reference.Result{Holder: "Cluster prod"}},
		"what two Clusters own, neither may delete":                 {claim: cluster, owners: []metav1.OwnerReference{demo, prod}, label: "demo", want: reference.Result{Holder: "Cluster prod"}},
		"a Cluster of the same name in another group is another":    {claim: cluster, owners: []metav1.OwnerReference{controls(plain("example.com/v1", "Cluster", "demo"))}, want: reference.Result{Holder: "Cluster demo"}},
		"what a Machine has is no Cluster's":                        {claim: cluster, owners: []metav1.OwnerReference{m}, label: "demo", want: reference.Result{Holder: "Machine m"}},
		"what a tool controls is the tool's":                        {claim: cluster, owners: []metav1.OwnerReference{controls(tool)}, want: reference.Result{Holder: "Stack t"}},
		"unless it has the Cluster's label":                         {claim: cluster, owners: []metav1.OwnerReference{controls(tool)}, label: "demo", want: reference.Result{Shared: true}},
		"or the Cluster is among its owners":                        {claim: cluster, owners: []metav1.OwnerReference{controls(tool), demo}, want: reference.Result{Shared: true}},
		"and no other Cluster is":                                   {claim: cluster, owners: []metav1.OwnerReference{controls(tool), prod}, label: "demo", want: reference.Result{Holder: "Cluster prod"}},
		"what a tool merely owns is free":                           {claim: cluster, owners: []metav1.OwnerReference{tool}},
		"what the Machine controls is its own":                      {claim: machine, owners: []metav1.OwnerReference{controls(m)}, label: "demo"},
		"what its MachineSet made for it is free":                   {claim: machine, owners: []metav1.OwnerReference{set}, label: "demo"},
		"also if the MachineSet says that it controls it":           {claim: machine, owners: []metav1.OwnerReference{controls(set)}, label: "demo"},
		"also after a restore, with another UID":                    {claim: machine, owners: []metav1.OwnerReference{uid(set)}, label: "demo"},
		"what another MachineSet made is for another":               {claim: machine, owners: []metav1.OwnerReference{foreign}, label: "demo", want: reference.Result{Holder: "MachineSet foreign"}},
		"what a control plane made is for another":                  {claim: machine, owners: []metav1.OwnerReference{kcp}, label: "demo", want: reference.Result{Holder: "KubeadmControlPlane prod"}},
		"what another Machine controls is the other's":              {claim: machine, owners: []metav1.OwnerReference{controls(other)}, label: "demo", want: reference.Result{Holder: "Machine other"}},
		"what another Machine owns is the other's":                  {claim: machine, owners: []metav1.OwnerReference{other}, label: "demo", want: reference.Result{Holder: "Machine other"}},
		"what the Machine's Cluster owns is free":                   {claim: machine, owners: []metav1.OwnerReference{demo}, label: "demo"},
		"what another Cluster owns is not":                          {claim: machine, owners: []metav1.OwnerReference{prod}, want: reference.Result{Holder: "Cluster prod"}},
		"nor what another Cluster's label is on":                    {claim: machine, label: "prod", want: reference.Result{Holder: labelled}},
		"a Machine has nothing next to a tool":                      {claim: machine, owners: []metav1.OwnerReference{controls(tool)}, label: "demo", want: reference.Result{Holder: "Stack t"}},
		"a template without owner is free":                          {claim: template},
		"a template of the Cluster is shared":                       {claim: template, owners: []metav1.OwnerReference{demo}, label: "demo"},
		"a template that upstream gave to two Clusters is shared":   {claim: template, owners: []metav1.OwnerReference{prod, demo}, label: "prod"},
		"a template of another Cluster is the other's":              {claim: template, owners: []metav1.OwnerReference{prod}, label: "demo", want: reference.Result{Holder: "Cluster prod"}},
		"a template that another Cluster's label is on, too":        {claim: template, label: "prod", want: reference.Result{Holder: labelled}},
		"a template of a class is free":                             {claim: template, owners: []metav1.OwnerReference{plain(core, "ClusterClass", "c")}},
		"what a bootstrap configuration controls is not":            {claim: template, owners: []metav1.OwnerReference{controls(config)}, label: "demo", want: reference.Result{Holder: "KubeadmConfig m"}},
		"except for the machine that refers to the configuration":   {claim: booting, owners: []metav1.OwnerReference{controls(config)}, label: "demo"},
		"a Secret that something of the Cluster controls is shared": {claim: template, owners: []metav1.OwnerReference{controls(kcp)}, label: "demo"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := &metav1.ObjectMeta{OwnerReferences: tc.owners}
			if tc.label != "" {
				obj.Labels = map[string]string{clusterv1.ClusterNameLabel: tc.label}
			}
			if got := tc.claim.Evaluate(obj); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	const (
		infra, boot, cp = reference.ClusterInfrastructure, reference.Bootstrap, reference.ControlPlane
		host            = reference.MachineInfrastructure
	)
	tests := map[string]struct {
		role     reference.Role
		group    string
		kind     string
		template bool
		want     string
	}{
		"a provider's infrastructure":             {role: infra, group: "infrastructure.cluster.x-k8s.io", kind: "AWSCluster"},
		"in a group of the provider's own":        {role: infra, group: "a01.example.com", kind: "WeirdCluster"},
		"in a longer group":                       {role: infra, group: "vmware.infrastructure.cluster.x-k8s.io", kind: "VSphereCluster"},
		"a control plane that is infrastructure":  {role: infra, group: "controlplane.cluster.x-k8s.io", kind: "AWSManagedControlPlane"},
		"infrastructure that is a control plane":  {role: cp, group: "infrastructure.cluster.x-k8s.io", kind: "AzureManagedControlPlane"},
		"a control plane":                         {role: cp, group: "controlplane.cluster.x-k8s.io", kind: "KubeadmControlPlane"},
		"a host":                                  {role: host, group: "infrastructure.capstan.dev", kind: "LocalMachine"},
		"a bootstrap configuration":               {role: boot, group: "bootstrap.cluster.x-k8s.io", kind: "KubeadmConfig"},
		"a bootstrap configuration in one's own":  {role: boot, group: "k.example.com", kind: "Config"},
		"a template of hosts":                     {role: host, group: "infrastructure.capstan.dev", kind: "LocalMachineTemplate", template: true},
		"another Cluster":                         {role: infra, group: "cluster.x-k8s.io", kind: "Cluster", want: "group cluster.x-k8s.io is Cluster API's own, and not a provider's, so it cannot be the infrastructure of a Cluster"},
		"an ExtensionConfig":                      {role: infra, group: "runtime.cluster.x-k8s.io", kind: "ExtensionConfig", want: "group runtime.cluster.x-k8s.io is Cluster API's own, and not a provider's, so it cannot be the infrastructure of a Cluster"},
		"a ClusterResourceSet":                    {role: cp, group: "addons.cluster.x-k8s.io", kind: "ClusterResourceSet", want: "group addons.cluster.x-k8s.io is Cluster API's own, and not a provider's, so it cannot be a control plane"},
		"an IPAddress":                            {role: host, group: "ipam.cluster.x-k8s.io", kind: "IPAddress", want: "group ipam.cluster.x-k8s.io is Cluster API's own, and not a provider's, so it cannot be the infrastructure of a Machine"},
		"a Provider":                              {role: boot, group: "clusterctl.cluster.x-k8s.io", kind: "Provider", want: "group clusterctl.cluster.x-k8s.io is Cluster API's own, and not a provider's, so it cannot be the bootstrap configuration of a Machine"},
		"bootstrap as infrastructure":             {role: infra, group: "bootstrap.cluster.x-k8s.io", kind: "KubeadmConfig", want: "group bootstrap.cluster.x-k8s.io is not for the infrastructure of a Cluster: refer to a kind that is"},
		"bootstrap as a control plane":            {role: cp, group: "bootstrap.cluster.x-k8s.io", kind: "KubeadmConfig", want: "group bootstrap.cluster.x-k8s.io is not for a control plane: refer to a kind that is"},
		"a control plane as a host":               {role: host, group: "controlplane.cluster.x-k8s.io", kind: "KubeadmControlPlane", want: "group controlplane.cluster.x-k8s.io is not for the infrastructure of a Machine: refer to a kind that is"},
		"infrastructure as bootstrap":             {role: boot, group: "infrastructure.capstan.dev", kind: "LocalMachine", want: "group infrastructure.capstan.dev is not for the bootstrap configuration of a Machine: refer to a kind that is"},
		"a template itself":                       {role: host, group: "infrastructure.capstan.dev", kind: "LocalMachineTemplate", want: "is a template, and cannot itself be the infrastructure of a Machine: refer to an object made from it"},
		"no template":                             {role: host, group: "infrastructure.capstan.dev", kind: "LocalMachine", template: true, want: "is not a template, the kind of which ends in Template: refer to a template for the infrastructure of a Machine"},
		"only the word":                           {role: host, group: "x.io", kind: "Template", template: true, want: "is not a template, the kind of which ends in Template: refer to a template for the infrastructure of a Machine"},
		"a template of bootstrap for hosts":       {role: host, group: "bootstrap.cluster.x-k8s.io", kind: "KubeadmConfigTemplate", template: true, want: "group bootstrap.cluster.x-k8s.io is not for the infrastructure of a Machine: refer to a kind that is"},
		"a vendor's group is called as it likes":  {role: boot, group: "infrastructure.example.com", kind: "FooConfigTemplate", template: true},
		"for each of its kinds":                   {role: infra, group: "bootstrap.example.com", kind: "FooCluster"},
		"a name that only resembles another role": {role: infra, group: "mybootstrap.example.com", kind: "XCluster"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ask, gk, got := tc.role.Kind, schema.GroupKind{Group: tc.group, Kind: tc.kind}, ""
			if tc.template {
				ask = tc.role.Template
			}
			if err := ask(gk); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
