// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/testenv"
)

type reference = clusterv1.ContractVersionedObjectReference

func refTo(group, kind, name string) reference {
	return reference{APIGroup: group, Kind: kind, Name: name}
}

var (
	core      = clusterv1.GroupVersion().Group
	infra     = infrav1.GroupVersion().Group
	bootstrap = bootstrapv1.GroupVersion().Group
	planes    = controlplanev1.GroupVersion().Group
)

// TestWhoMayOnlyEditClustersTakesNothing tries, from the account of a user who may
// edit the Clusters of one namespace and nothing else, to have objects of another
// user labeled, owned and deleted.
func TestWhoMayOnlyEditClustersTakesNothing(t *testing.T) {
	f := newFleet(t)
	f.create("prod", shape{workers: 1})
	f.becomes("prod")
	globes := f.globe()
	everybodys := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: f.Namespace, Annotations: map[string]string{clusterv1.PausedAnnotation: ""}}}
	everybodys.Spec.ClientConfig.URL = "https://127.0.0.1:1"
	f.must(f.Client.Create(f.Context(), everybodys))
	t.Cleanup(func() { f.must(f.Client.Delete(context.WithoutCancel(t.Context()), everybodys)) })
	machines, err := f.machines("prod")
	f.must(err)
	host, config := machines[0].Spec.InfrastructureRef, machines[0].Spec.Bootstrap.ConfigRef
	user := f.mayEdit("clusters")
	before := f.standing("prod", f.Namespace)

	tries := map[string]struct {
		infra, plane reference
		refused      string // by admission
		told         string // by a condition
	}{
		"its infrastructure and control plane": {infra: refTo(infra, "LocalCluster", "prod"), plane: refTo(planes, "KubeadmControlPlane", "prod-control-plane"), told: "is held by Cluster prod"},
		"its control plane as infrastructure":  {infra: refTo(planes, "KubeadmControlPlane", "prod-control-plane"), told: "is held by Cluster prod"},
		"a host of its":                        {infra: host, told: "is held by Machine " + machines[0].Name},
		"bootstrap data of its":                {infra: config, refused: "is not for the infrastructure of a Cluster"},
		"a template of its":                    {infra: refTo(infra, "LocalMachineTemplate", "prod-workers"), refused: "is a template"},
		"the whole Cluster":                    {infra: refTo(core, "Cluster", "prod"), refused: "Cluster API's own"},
		"its workers":                          {plane: refTo(core, "MachineDeployment", "prod-workers"), refused: "Cluster API's own"},
		"an extension of the whole plane":      {infra: refTo(runtimev1.GroupVersion().Group, "ExtensionConfig", f.Namespace), refused: "Cluster API's own"},
		"what is in no namespace":              {infra: refTo(globes, "GlobeCluster", f.Namespace), told: "its objects are in no namespace"},
	}
	for i, name := range slices.Sorted(maps.Keys(tries)) {
		tc := tries[name]
		thief := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: fmt.Sprintf("thief%d", i)}}
		thief.Spec.InfrastructureRef, thief.Spec.ControlPlaneRef = tc.infra, tc.plane
		err := user.Create(t.Context(), thief)
		if tc.refused != "" {
			if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%s: error %v, want it refused: %s", name, err, tc.refused)
			}
			continue
		}
		f.must(err)
		f.eventually(func() error {
			f.must(client.IgnoreNotFound(f.Client.Get(t.Context(), client.ObjectKeyFromObject(thief), thief)))
			for _, c := range thief.Status.Conditions {
				if c.Type == clusterv1.ClusterInfrastructureReadyCondition && c.Status != metav1.ConditionTrue && strings.Contains(c.Message, tc.told) {
					return nil
				}
			}
			return fmt.Errorf("%s: %v, want %s", name, thief.Status.Conditions, tc.told)
		})
		f.must(user.Delete(t.Context(), thief))
		f.eventually(func() error {
			if err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(thief), thief); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s: the Cluster is not gone: %v", name, err)
			}
			return nil
		})
	}
	if diff := cmp.Diff(before, f.standing("prod", f.Namespace)); diff != "" {
		t.Errorf("what is not the user's (-before +after):\n%s", diff)
	}
	f.becomes("prod")
	f.remove("prod")
}

// TestWhoMayOnlyEditMachinesTakesNothing does the same with Machines, and with the
// objects that create them.
func TestWhoMayOnlyEditMachinesTakesNothing(t *testing.T) {
	f := newFleet(t)
	f.create("prod", shape{workers: 1})
	f.create("other", shape{})
	f.becomes("prod")
	f.becomes("other")
	machines, err := f.machines("prod")
	f.must(err)
	theirs := machines[0].Spec
	user := f.mayEdit("machines", "machinesets")
	before := f.standing("prod", f.Namespace)

	machine := func(cluster string, config, host reference) *clusterv1.Machine {
		m := f.machine("thief")
		m.Spec = clusterv1.MachineSpec{ClusterName: cluster, Version: "v1.36.3", InfrastructureRef: host}
		m.Spec.Bootstrap.ConfigRef = config
		return m
	}
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "thief"}}
	set.Spec.ClusterName, set.Spec.Replicas = "other", new(int32(1))
	set.Spec.Template.Spec = machine("other", refTo(bootstrap, "KubeadmConfigTemplate", "prod-workers"), refTo(infra, "LocalMachineTemplate", "prod-workers")).Spec
	tries := map[string]struct {
		obj             client.Object
		condition, told string
		negative        bool
	}{
		"a host of another cluster": {machine("other", refTo(bootstrap, "KubeadmConfig", "nowhere"), theirs.InfrastructureRef), clusterv1.InfrastructureReadyCondition, "is held by Machine " + machines[0].Name, false},
		"a host of the same one":    {machine("prod", refTo(bootstrap, "KubeadmConfig", "nowhere"), theirs.InfrastructureRef), clusterv1.InfrastructureReadyCondition, "is held by Machine " + machines[0].Name, false},
		"bootstrap data":            {machine("prod", theirs.Bootstrap.ConfigRef, refTo(infra, "LocalMachine", "nowhere")), clusterv1.BootstrapConfigReadyCondition, "is held by Machine " + machines[0].Name, false},
		"templates":                 {set, clusterv1.ScalingUpCondition, "is held by Cluster prod", true},
	}
	for _, name := range slices.Sorted(maps.Keys(tries)) {
		tc := tries[name]
		f.must(user.Create(t.Context(), tc.obj))
		status := map[bool]string{true: "True", false: "False"}[tc.negative]
		f.eventually(func() error { return f.says(tc.obj, tc.condition, status, tc.told) })
		f.must(user.Delete(t.Context(), tc.obj))
		f.eventually(func() error {
			if err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(tc.obj), tc.obj); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s: is not gone: %v", name, err)
			}
			return nil
		})
	}
	if diff := cmp.Diff(before, f.standing("prod", f.Namespace)); diff != "" {
		t.Errorf("what is not the user's (-before +after):\n%s", diff)
	}
	f.remove("prod")
	f.remove("other")
}

// mayEdit returns the client of a user who may edit some resources of
// cluster.x-k8s.io in the namespace, and nothing else.
func (f fleet) mayEdit(resources ...string) client.Client {
	f.Helper()
	user := "tenant-of-" + f.Namespace
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "tenant"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{core}, Resources: resources, Verbs: []string{"*"}}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
	f.must(rbacv1.AddToScheme(f.Client.Scheme()))
	f.must(f.Client.Create(f.Context(), role))
	f.must(f.Client.Create(f.Context(), binding))
	config := rest.CopyConfig(f.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	c, err := client.New(config, client.Options{Scheme: f.Client.Scheme()})
	f.must(err)
	return c
}

// standing returns the identity, the owners and the labels of all objects whose
// name has one of these prefixes.
func (f fleet) standing(names ...string) map[string]any {
	f.Helper()
	out := map[string]any{}
	for key, raw := range f.everything() {
		o := unstructured.Unstructured{Object: raw}
		mine := o.GetNamespace() == f.Namespace || o.GetNamespace() == "" && o.GetName() == f.Namespace
		if mine && slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(o.GetName(), n) }) {
			out[key] = []any{o.GetUID(), o.GetDeletionTimestamp(), o.GetLabels(), o.GetOwnerReferences()}
		}
	}
	return out
}

// globe defines a kind of cluster scope that declares the contract, creates an
// object of it, and returns its group.
func (f fleet) globe() string {
	f.Helper()
	group := f.Namespace + ".example.com"
	crd := testenv.Kind(group, "GlobeCluster")
	crd.Spec.Scope = apiextensionsv1.ClusterScoped
	f.must(f.Client.Create(f.Context(), crd))
	globe := &unstructured.Unstructured{}
	globe.SetAPIVersion(group + "/v1")
	globe.SetKind("GlobeCluster")
	globe.SetName(f.Namespace)
	f.eventually(func() error { return f.Client.Create(f.Context(), globe) })
	return group
}
