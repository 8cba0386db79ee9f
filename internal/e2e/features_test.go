// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestFeaturesAreTurnedOffAndOnAgain creates a pool and a Cluster of a class, and
// then runs without pools, classes and extensions: none of them can be created any
// longer, and existing ones can be deleted. Last there are extensions again, and
// none is called to update Machines in place.
func TestFeaturesAreTurnedOffAndOnAgain(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	p := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	f := p.start()
	newPool(f, "c", 2)
	f.create("t", shape{template: template.LocalTopology()})
	f.becomes("t")
	f.must(p.stop())

	f = p.start("--feature-gates=ClusterTopology=false,MachinePool=false,RuntimeSDK=false")
	for gate, obj := range ofFeatures(f) {
		err := f.Client.Create(f.Context(), obj, client.DryRunAll)
		if want := "can be set only if the " + gate + " feature flag is enabled: start Capstan with --feature-gates " + gate + "=true"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a %T: error %v, want %q", obj, err, want)
		}
	}
	pool := &clusterv1.MachinePool{}
	f.must(f.Client.Get(f.Context(), f.key("c-pool"), pool))
	was := pool.DeepCopy()
	pool.Labels["a"], was.Spec.Replicas = "b", new(int32(9))
	f.must(f.Client.Update(f.Context(), pool))
	was.ResourceVersion = ""
	if err := f.Client.Update(f.Context(), was); err == nil || !strings.Contains(err.Error(), "MachinePool feature flag") {
		t.Errorf("a pool without a controller is scaled: %v", err)
	}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 9}}
	if err := f.Client.SubResource("scale").Update(f.Context(), pool, client.WithSubResourceBody(scale)); err == nil || !strings.Contains(err.Error(), "MachinePool feature flag") {
		t.Errorf("a pool is scaled by its subresource: %v", err)
	}
	f.create("plain", shape{workers: 1})
	f.becomes("plain")
	modify(f, "t", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) })
	for _, name := range []string{"c", "t"} {
		f.remove(name)
		f.eventually(func() error {
			if left := f.objectsOf(name); len(left) > 0 {
				return fmt.Errorf("left: %v", left)
			}
			return nil
		})
	}
	f.must(p.stop())

	f = p.start("--feature-gates=MachinePool=true,InPlaceUpdates=false")
	for _, obj := range ofFeatures(f) {
		if err := f.Client.Create(f.Context(), obj, client.DryRunAll); err != nil && strings.Contains(err.Error(), "feature flag") {
			t.Errorf("a %T: %v", obj, err)
		}
	}
	sample(f) // could update the worker in place
	before := f.uids("plain", worker)
	modify(f, "plain-workers", &clusterv1.MachineDeployment{}, func(d *clusterv1.MachineDeployment) {
		d.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
		d.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
		d.Spec.Template.Spec.Version = "v1.36.2"
	})
	f.eventually(func() error {
		if now := f.uids("plain", worker); len(now) != 1 || now[0] == before[0] {
			return fmt.Errorf("Machines %v, want another than %v", now, before) // a kind's name
		}
		return f.settled("plain")
	})
}

// ofFeatures are objects that need one, by its gate.
func ofFeatures(f fleet) map[string]client.Object {
	at := metav1.ObjectMeta{Namespace: f.Namespace, Name: "x"}
	pool := &infrav1.LocalMachinePool{ObjectMeta: at}
	pool.Spec.Template.Simulated = &infrav1.LocalMachineSimulated{}
	extension := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	extension.Spec.ClientConfig.URL = "https://127.0.0.1:1"
	cluster := &clusterv1.Cluster{ObjectMeta: at}
	cluster.Spec.Topology.ClassRef.Name, cluster.Spec.Topology.Version = "x", "v1.36.3"
	return map[string]client.Object{"MachinePool": pool, "RuntimeSDK": extension, "ClusterTopology": cluster}
}
