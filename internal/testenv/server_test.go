// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/testenv"
	"github.com/capstan-dev/capstan/manifests"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestEveryKindIsServed(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	d, err := discovery.NewDiscoveryClientForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var served []string
	for _, list := range lists {
		for _, r := range list.APIResources {
			served = append(served, list.GroupVersion+" "+r.Name)
		}
	}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			if want := crd.Spec.Group + "/" + v.Name + " " + crd.Spec.Names.Plural; v.Served && !slices.Contains(served, want) {
				t.Errorf("%s is not served", want)
			}
		}
	}
	if len(crds) == 0 {
		t.Error("there are no CRDs")
	}
}

func TestVersionIsThatOfKubernetes(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	d, err := discovery.NewDiscoveryClientForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	v, err := d.ServerVersion()
	if err != nil || v.Major != "1" || v.Minor != "36" || !strings.HasPrefix(v.GitVersion, "v1.36.") {
		t.Errorf("version %+v, %v", v, err)
	}
}

func TestBadObjectsAreRefusedWithTheFieldAndTheReason(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ object, want string }{
		"a machine of no kind": {
			"apiVersion: infrastructure.capstan.dev/v1beta2\nkind: LocalMachine\nspec: {}\n", "spec"},
		"an unknown fault": {
			"apiVersion: infrastructure.capstan.dev/v1beta2\nkind: LocalMachine\nspec: {simulated: {faults: [Explodes]}}\n", "spec.simulated.faults[0]: Unsupported value: \"Explodes\""},
		"a field that does not exist": {
			"apiVersion: infrastructure.capstan.dev/v1beta2\nkind: LocalMachine\nspec: {simulated: {}, colour: red}\n", "unknown field \"spec.colour\""},
		"a start-up time below zero": {
			"apiVersion: infrastructure.capstan.dev/v1beta2\nkind: LocalMachine\nspec: {simulated: {vm: {startupMilliseconds: -1}}}\n", "spec.simulated.vm.startupMilliseconds"},
		"a Machine without bootstrap": {
			"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nspec: {clusterName: c, infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalMachine, name: m}}\n", "spec.bootstrap: Required value"},
		"a Machine with a reference that lacks a kind": {
			"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nspec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: infrastructure.capstan.dev, name: m}}\n", "spec.infrastructureRef.kind: Required value"},
		"a Cluster whose network is no network": {
			"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nspec: {clusterNetwork: {pods: {cidrBlocks: []}}}\n", "spec.clusterNetwork.pods.cidrBlocks"},
	}
	env := testenv.Start(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(tc.object), &u.Object); err != nil {
				t.Fatal(err)
			}
			u.SetNamespace(env.Namespace)
			u.SetName("bad")
			err := env.Client.Create(t.Context(), u, client.DryRunAll, client.FieldValidation("Strict"))
			if !(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// TestYAMLWithLargeAliasesIsRefused: any authenticated client can ask what it may do.
func TestYAMLWithLargeAliasesIsRefused(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	cs, err := kubernetes.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	review := "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nspec: {nonResourceAttributes: {path: '/*&', verb: get}}\n"
	post := func(text string) error {
		return cs.AuthorizationV1().RESTClient().Post().Resource("selfsubjectaccessreviews").SetHeader("Content-Type", "Application/YAML").Body([]byte(text)).Do(t.Context()).Error()
	}
	if err := post(review); err != nil {
		t.Errorf("without aliases: %v", err)
	}
	err = post(review + "a: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n")
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "aliases that make too much") {
		t.Errorf("with aliases: %v, want a bad request", err)
	}
}

func TestGarbageOfOurKindsIsCollected(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	// A template has no controller, so that only the collector can act.
	parent := &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "parent"}}
	parent.Spec.Template.Spec.Simulated = &infrav1.LocalMachineSimulated{}
	if err := env.Client.Create(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "child", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: infrav1.GroupVersion().String(), Kind: "LocalMachineTemplate", Name: parent.Name, UID: parent.UID}}}}
	if err := env.Client.Create(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, gone(t, env, child))
}

func TestGarbageOfAKindDefinedLaterIsCollected(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	group := env.Namespace + ".example.com"
	env.Define(t, testenv.Kind(group, "Widget"))
	widget := func(name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(group + "/v1")
		u.SetKind("Widget")
		u.SetNamespace(env.Namespace)
		u.SetName(name)
		u.SetOwnerReferences(owners)
		return u
	}
	parent := widget("parent")
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), parent) })
	child := widget("child", metav1.OwnerReference{APIVersion: group + "/v1", Kind: "Widget", Name: "parent", UID: parent.GetUID()})
	if err := env.Client.Create(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, gone(t, env, child))
}

func TestANamespaceGoesWithAllThatIsInIt(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "gone-"}}
	if err := env.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	in := &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "in"}}
	in.Spec.Template.Spec.Simulated = &infrav1.LocalMachineSimulated{}
	if err := env.Client.Create(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, gone(t, env, in))
	testenv.Eventually(t, gone(t, env, ns))
}

func TestServiceAccountsHaveTokensThatWork(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	clients, err := kubernetes.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error { // the controller creates it
		_, err := clients.CoreV1().ServiceAccounts(env.Namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	asked, err := clients.CoreV1().ServiceAccounts(env.Namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	long := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "long",
		Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: corev1.SecretTypeServiceAccountToken}
	if err := env.Client.Create(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(long), long); err != nil {
			return err
		}
		if len(long.Data[corev1.ServiceAccountTokenKey]) == 0 {
			return errors.New("the Secret has no token yet")
		}
		return nil
	})
	for _, token := range []string{asked.Status.Token, string(long.Data[corev1.ServiceAccountTokenKey])} {
		cfg := rest.AnonymousClientConfig(env.Config)
		cfg.BearerToken = token
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		// The API server compares the token of a Secret with its cache, which may lag behind.
		testenv.Eventually(t, func() error {
			me, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if want := "system:serviceaccount:" + env.Namespace + ":default"; err == nil && me.Status.UserInfo.Username != want {
				return fmt.Errorf("the token is of %s, want %s", me.Status.UserInfo.Username, want)
			}
			return err
		})
	}
}

func TestTheManagerRoleIsAggregated(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	testenv.Eventually(t, func() error {
		var role rbacv1.ClusterRole
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: manifests.ManagerRole}, &role); err != nil {
			return err
		}
		for _, group := range []string{"cluster.x-k8s.io", infrav1.GroupVersion().Group} {
			if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.APIGroups, group) }) {
				return fmt.Errorf("role %s has no rule for group %s", role.Name, group)
			}
		}
		return nil
	})
}

func gone(t *testing.T, env *testenv.Env, obj client.Object) func() error {
	return func() error {
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		if err == nil {
			return fmt.Errorf("%s is still there", client.ObjectKeyFromObject(obj))
		}
		return client.IgnoreNotFound(err)
	}
}

func TestTheInventoryIsWhereClusterctlLooks(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3", Kind: "ProviderList"})
	if err := env.Client.List(t.Context(), list, client.MatchingLabels{"clusterctl.cluster.x-k8s.io": "", "clusterctl.cluster.x-k8s.io/core": "inventory"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range list.Items {
		got = append(got, p.Namespace+"/"+p.Name)
	}
	if diff := cmp.Diff([]string{"capstan-system/bootstrap-kubeadm", "capstan-system/cluster-api", "capstan-system/control-plane-kubeadm", "capstan-system/infrastructure-local"}, got); diff != "" {
		t.Errorf("Providers (-want +got):\n%s", diff)
	}
}
