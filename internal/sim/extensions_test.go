// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/extension/server"
	"sigs.k8s.io/yaml"
)

// newExtension creates the server of an extension, as an author does. Nothing
// listens.
func newExtension(t testing.TB) *server.Server {
	t.Helper()
	s, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// register adds an ExtensionConfig.
func register(t *testing.T, w *story, name string) {
	t.Helper()
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	config.Spec.ClientConfig.URL = "https://" + name + ".example.com"
	w.must(w.Mgmt.Create(t.Context(), config))
}

// TestAClassIsMadeReadyByAnExtensionsServer uses discovery, registration and the
// client of a manager.
func TestAClassIsMadeReadyByAnExtensionsServer(t *testing.T) {
	t.Parallel()
	x, asked := newExtension(t), 0
	if err := server.Handle(x, hooksv1.DiscoverVariables, func(_ context.Context, _ *hooksv1.DiscoverVariablesRequest, resp *hooksv1.DiscoverVariablesResponse) error {
		asked++
		return yaml.Unmarshal([]byte("variables: [{name: size, required: true, schema: {openAPIV3Schema: {type: string}}}]"), resp)
	}, server.Name("sizes")); err != nil {
		t.Fatal(err)
	}
	w := newWith(t, func(o *Options) { o.Extension = x })
	c := &clusterv1.ClusterClass{}
	w.must(yaml.Unmarshal([]byte(class), c))
	for _, obj := range []client.Object{
		&infrav1.LocalClusterTemplate{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}, &controlplanev1.KubeadmControlPlaneTemplate{ObjectMeta: metav1.ObjectMeta{Name: "plane"}},
		&bootstrapv1.KubeadmConfigTemplate{ObjectMeta: metav1.ObjectMeta{Name: "join"}}, &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "host"}}, c,
	} {
		add(t, w, obj)
	}
	if err := w.World.Run(t.Context()); err == nil {
		t.Error("the class is ready, and no extension is registered")
	}
	register(t, w, "ext")
	w.Run()
	if !conditions.IsTrue(get(t, w, "class", c), clusterv1.ClusterClassVariablesReadyCondition) || asked != 1 {
		t.Errorf("asked %d times; conditions %+v", asked, c.Status.Conditions)
	}
	objects, err := w.Objects(t.Context())
	w.must(err)
	other := begin(t, Options{Clock: w.Clock, Backends: w.machines, Objects: objects, Extension: x})
	other.Run()
	if other.store.writes != 0 {
		t.Errorf("%d writes after a restart, want none", other.store.writes)
	}
}
