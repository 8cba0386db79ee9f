// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/owner"
)

const class = `
metadata: {name: class}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalClusterTemplate, name: cluster}}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: plane}
    machineInfrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: host}}
  workers:
    machineDeployments:
    - {class: worker, bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: join}}, infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: host}}}
  variables:
  - {name: image, required: true, schema: {openAPIV3Schema: {type: string}}}
  patches:
  - {name: sizes, external: {discoverVariablesExtension: sizes.ext}}
`

// definer is an extension that defines variables.
type definer struct {
	updater

	variables string // in YAML
	down      error
	asked     int
}

// CallExtension implements updates.Hooks.
func (d *definer) CallExtension(_ context.Context, _ any, _ metav1.Object, _ string, _ hooksv1.RequestObject, response hooksv1.ResponseObject) error {
	d.asked++
	if d.down != nil {
		return d.down
	}
	return yaml.Unmarshal([]byte("variables: "+d.variables), response)
}

// recordClass writes the class, and which templates it owns.
func recordClass(w *story) {
	for _, obj := range w.objects(clusterv1.ClusterClassKind) {
		c := obj.(*clusterv1.ClusterClass)
		for _, cond := range c.Status.Conditions {
			if cond.Type != clusterv1.PausedCondition {
				w.Record("ClusterClass %s: %s is %s, %s %s", c.Name, cond.Type, cond.Status, cond.Reason, cond.Message)
			}
		}
		for _, v := range c.Status.Variables {
			var from []string
			for _, d := range v.Definitions {
				from = append(from, d.From)
			}
			w.Record("ClusterClass %s: variable %s, defined by %v", c.Name, v.Name, from)
		}
	}
	gk := schema.GroupKind{Group: clusterv1.GroupVersion().Group, Kind: clusterv1.ClusterClassKind}
	for _, kind := range []string{"LocalClusterTemplate", "KubeadmControlPlaneTemplate", "LocalMachineTemplate", "KubeadmConfigTemplate"} {
		for _, obj := range w.objects(kind) {
			if owner.Has(obj, gk, "class") {
				w.Record("%s %s belongs to the class", kind, obj.GetName())
			}
		}
	}
}

// TestAClassWaitsForItsTemplateAndItsExtension, and is ready when both are there.
func TestAClassWaitsForItsTemplateAndItsExtension(t *testing.T) {
	t.Parallel()
	x := &definer{down: errors.New("connection refused"), variables: "[{name: size, required: true, schema: {openAPIV3Schema: {type: string}}}]"}
	w := newWith(t, func(o *Options) { o.Updates = x })
	c := &clusterv1.ClusterClass{}
	w.must(yaml.Unmarshal([]byte(class), c))
	named := metav1.ObjectMeta{Name: "host"}
	for _, obj := range []client.Object{
		&infrav1.LocalClusterTemplate{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}},
		&controlplanev1.KubeadmControlPlaneTemplate{ObjectMeta: metav1.ObjectMeta{Name: "plane"}},
		&bootstrapv1.KubeadmConfigTemplate{ObjectMeta: metav1.ObjectMeta{Name: "join"}}, c,
	} {
		add(t, w, obj)
	}
	w.Record("# a class is made, without a template and while its extension is down")
	if err := w.World.Run(t.Context()); err == nil {
		t.Error("nothing fails")
	}
	recordClass(w)

	w.Record("# the template comes, and the extension answers")
	add(t, w, &infrav1.LocalMachineTemplate{ObjectMeta: named})
	x.down = nil
	w.Run()
	recordClass(w)
	before, asked := fmt.Sprint(w.Requests()), x.asked
	w.Run()
	if after := fmt.Sprint(w.Requests()); after != before {
		t.Errorf("writes in steady state: %s, before %s", after, before)
	}
	if x.asked > asked+1 { // the client of extensions caches it
		t.Errorf("asked %d times in steady state", x.asked-asked)
	}

	w.Record("# the extension defines what the class defines in another way")
	x.variables = "[{name: image, required: false, schema: {openAPIV3Schema: {type: string}}}]"
	if err := w.World.Run(t.Context()); err == nil {
		t.Error("nothing fails")
	}
	recordClass(w)
	w.Golden("a-class-waits-for-its-template-and-its-extension.txt")
}
