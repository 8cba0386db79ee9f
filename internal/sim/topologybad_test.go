// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/extension/server"
)

// patcher is an extension that patches, validates and defines variables, as long as
// its test lets it answer.
type patcher struct {
	*server.Server
	down      bool
	takes     time.Duration // to answer
	calls     int
	generate  func(*hooksv1.GeneratePatchesRequest, *hooksv1.GeneratePatchesResponse) error
	validate  error
	variables string
}

func newPatcher(t testing.TB) *patcher {
	t.Helper()
	x := &patcher{Server: newExtension(t), generate: func(*hooksv1.GeneratePatchesRequest, *hooksv1.GeneratePatchesResponse) error { return nil }, variables: "[]"}
	if err := errors.Join(
		server.Handle(x.Server, hooksv1.GeneratePatches, func(_ context.Context, req *hooksv1.GeneratePatchesRequest, resp *hooksv1.GeneratePatchesResponse) error {
			return x.generate(req, resp)
		}),
		server.Handle(x.Server, hooksv1.ValidateTopology, func(context.Context, *hooksv1.ValidateTopologyRequest, *hooksv1.ValidateTopologyResponse) error {
			return x.validate
		}),
		server.Handle(x.Server, hooksv1.DiscoverVariables, func(_ context.Context, _ *hooksv1.DiscoverVariablesRequest, resp *hooksv1.DiscoverVariablesResponse) error {
			return json.Unmarshal([]byte(x.variables), &resp.Variables)
		}),
	); err != nil {
		t.Fatal(err)
	}
	return x
}

// ServeHTTP implements http.Handler.
func (x *patcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if x.down {
		http.Error(w, "no", http.StatusServiceUnavailable)
		return
	}
	x.Server.ServeHTTP(w, r)
}

// Takes implements slow.
func (x *patcher) Takes(string) time.Duration {
	x.calls++
	return x.takes
}

// brokenThing is something wrong with demo, or with its class.
type brokenThing struct {
	make func(*testing.T, *story, *patcher)
	want string // of TopologyReconciled: reason and message
	goes bool   // the workers of demo are changed anyway
}

var brokenThings = map[string]brokenThing{
	"a template is gone": {func(t *testing.T, w *story, _ *patcher) {
		w.must(w.Mgmt.Delete(t.Context(), get(t, w, "plane", &controlplanev1.KubeadmControlPlaneTemplate{})))
	}, "ReconcileFailed control plane of the topology: there is no KubeadmControlPlaneTemplate default/plane: create it, or correct ClusterClass fleet", true},
	"a class names a template that is not there": {func(t *testing.T, w *story, _ *patcher) {
		edit(t, w, "fleet", &clusterv1.ClusterClass{}, func(c *clusterv1.ClusterClass) { c.Spec.ControlPlane.TemplateRef.Name = "typo" })
	}, "ClusterClassNotReconciled ClusterClass is not successfully reconciled: ClusterClass.status.observedGeneration must be 2, but is 1: ClusterClass default/fleet: spec.controlPlane.templateRef: there is no KubeadmControlPlaneTemplate default/typo: create it, or correct the reference", false},
	"a patch that does not apply": {func(t *testing.T, w *story, _ *patcher) {
		edit(t, w, "fleet", &clusterv1.ClusterClass{}, func(c *clusterv1.ClusterClass) {
			p := &c.Spec.Patches[0].Definitions[0]
			p.Selector.MatchResources = clusterv1.PatchSelectorMatch{ControlPlane: new(true)}
			p.JSONPatches[0] = clusterv1.JSONPatch{Op: "remove", Path: "/spec/template/spec/none"}
		})
	}, `ReconcileFailed control plane of the topology: LocalMachineTemplate default/host: patch "startup", definitions[0]: remove /spec/template/spec/none: it does not apply to the template`, true},
	"a patch that matches nothing here": {func(t *testing.T, w *story, _ *patcher) {
		edit(t, w, "fleet", &clusterv1.ClusterClass{}, func(c *clusterv1.ClusterClass) {
			c.Spec.Patches[0].Definitions[0].Selector.Kind = "LocalMachinePoolTemplate"
		})
	}, "", true},
	"an undefined variable": {func(t *testing.T, w *story, _ *patcher) { setVariable(t, w, "demo", "nope", "1") },
		`ReconcileFailed variables: spec.topology.variables[nope]: Invalid value: "nope": variable is not defined`, false},
	"a value that does not fit": {func(t *testing.T, w *story, _ *patcher) { setVariable(t, w, "demo", "startup", "-1") },
		"ReconcileFailed variables: spec.topology.variables[startup].value: Invalid value: -1", false},
	"a version that skips": {func(t *testing.T, w *story, _ *patcher) {
		edit(t, w, "fleet", &clusterv1.ClusterClass{}, func(c *clusterv1.ClusterClass) { c.Spec.KubernetesVersions = nil })
		edit(t, w, "demo", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.36.3" })
	}, "ReconcileFailed cannot compute an upgrade plan from v1.33.1 to v1.36.3: list the versions on the way in spec.kubernetesVersions of the ClusterClass", false},
	"the class is gone": {func(t *testing.T, w *story, _ *patcher) {
		w.must(w.Mgmt.Delete(t.Context(), get(t, w, "fleet", &clusterv1.ClusterClass{})))
	}, "ClusterClassNotReconciled ClusterClass default/fleet does not exist: create it, or have spec.topology.classRef of Cluster default/demo name another", false},
	"conflicting definitions": {func(t *testing.T, w *story, x *patcher) {
		x.variables = `[{"name": "startup", "required": true, "schema": {"openAPIV3Schema": {"type": "string"}}}]`
		outside(t, w, func(p *clusterv1.ExternalPatchDefinition) { p.DiscoverVariablesExtension = "discover-variables.ext" })
	}, `ClusterClassNotReconciled ClusterClass is not successfully reconciled: status of VariablesReady condition on ClusterClass must be "True": ClusterClass default/fleet: VariableDiscovery failed: the following variables have conflicting schemas: startup`, false},
	"a rule that costs too much": {func(t *testing.T, w *story, _ *patcher) {
		edit(t, w, "fleet", &clusterv1.ClusterClass{}, func(c *clusterv1.ClusterClass) {
			c.Spec.Variables[0].Schema.OpenAPIV3Schema = clusterv1.JSONSchemaProps{Type: "array", Items: &clusterv1.JSONSchemaProps{Type: "string"},
				XValidations: []clusterv1.ValidationRule{{Rule: "self.all(a, self.all(b, self.all(c, self.all(d, a == d))))"}}}
		})
	}, `ClusterClassNotReconciled ClusterClass is not successfully reconciled: status of VariablesReady condition on ClusterClass must be "True": ClusterClass default/fleet: VariableDiscovery failed: [spec.variables[startup].schema.openAPIV3Schema.x-kubernetes-validations[0].rule: Forbidden: `, false},
	"an extension that is down": {func(t *testing.T, w *story, x *patcher) {
		x.down = true
		outside(t, w, func(*clusterv1.ExternalPatchDefinition) {})
	}, `ReconcileFailed patch "outside": extension generate-patches.ext: call extension handler "generate-patches.ext" of hook GeneratePatches for Cluster default/demo: ext.example.com:443 answered 503`, true},
	"an extension that fails": {func(t *testing.T, w *story, x *patcher) {
		x.generate = func(*hooksv1.GeneratePatchesRequest, *hooksv1.GeneratePatchesResponse) error {
			return errors.New("no room")
		}
		outside(t, w, func(*clusterv1.ExternalPatchDefinition) {})
	}, `ReconcileFailed patch "outside": extension generate-patches.ext: call extension handler "generate-patches.ext" of hook GeneratePatches for Cluster default/demo: the extension answered Failure: no room`, true},
	"an extension that answers another object": {func(t *testing.T, w *story, x *patcher) {
		x.generate = func(_ *hooksv1.GeneratePatchesRequest, resp *hooksv1.GeneratePatchesResponse) error {
			resp.Items = []hooksv1.GeneratePatchesResponseItem{{UID: "another", PatchType: hooksv1.JSONPatchType, Patch: []byte(`[{"op":"add","path":"/spec/a","value":1}]`)}}
			return nil
		}
		outside(t, w, func(*clusterv1.ExternalPatchDefinition) {})
	}, `ReconcileFailed patch "outside": extension generate-patches.ext answered for item "another", which it was not asked about`, true},
	"an extension that objects": {func(t *testing.T, w *story, x *patcher) {
		x.validate = errors.New("too many workers")
		outside(t, w, func(*clusterv1.ExternalPatchDefinition) {})
	}, `ReconcileFailed desired objects: patch "outside": extension validate-topology.ext: call extension handler "validate-topology.ext" of hook ValidateTopology for Cluster default/demo: the extension answered Failure: too many workers`, false},
}

// TestErrorsAreReportedAndStopNoOtherCluster breaks something, and then changes the
// workers of demo, and those of a Cluster of another class.
func TestErrorsAreReportedAndStopNoOtherCluster(t *testing.T) {
	t.Parallel()
	idle := strings.Replace(fleetCluster, "name: blue, replicas: 1", "name: blue, replicas: 0", 1)
	for name, tc := range brokenThings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newPatcher(t)
			w := newTopology(t, func(o *Options) { o.Extension = x })
			register(t, w, "ext")
			w.create(strings.Replace(fleetClass, "name: fleet", "name: navy", 1))
			w.create(idle)
			if name != "a template is gone" { // which both classes have
				w.create(strings.NewReplacer("name: demo", "name: other", "name: fleet", "name: navy").Replace(idle))
			}
			w.Run()
			tc.make(t, w, x)
			_ = w.World.Run(t.Context())
			want := map[string]bool{}
			for _, obj := range w.objects("Cluster") {
				edit(t, w, obj.GetName(), &clusterv1.Cluster{}, func(c *clusterv1.Cluster) {
					c.Spec.Topology.Workers.MachineDeployments[0].Deletion.NodeDrainTimeoutSeconds = new(int32(77))
				})
				want[obj.GetName()] = tc.goes || obj.GetName() != "demo"
			}
			_ = w.World.Run(t.Context())
			for _, obj := range w.objects("MachineDeployment") {
				d := obj.(*clusterv1.MachineDeployment)
				timeout := d.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds
				if got := timeout != nil && *timeout == 77; got != want[d.Spec.ClusterName] {
					t.Errorf("MachineDeployment %s follows its Cluster: %t, want %t", d.Name, got, want[d.Spec.ClusterName])
				}
			}
			for cluster := range want {
				c := conditions.Get(get(t, w, cluster, &clusterv1.Cluster{}), clusterv1.ClusterTopologyReconciledCondition)
				switch {
				case cluster == "demo" && tc.want != "":
					if got := c.Reason + " " + c.Message; c.Status != metav1.ConditionFalse || !strings.HasPrefix(got, tc.want) {
						t.Errorf("Cluster demo: %s, want %s", got, tc.want)
					}
				case c.Status != metav1.ConditionTrue:
					t.Errorf("Cluster %s: %s %s", cluster, c.Reason, c.Message)
				}
			}
		})
	}
}

// outside adds a patch by the extension.
func outside(t *testing.T, w *story, change func(*clusterv1.ExternalPatchDefinition)) {
	t.Helper()
	edit(t, w, "fleet", &clusterv1.ClusterClass{}, func(c *clusterv1.ClusterClass) {
		p := &clusterv1.ExternalPatchDefinition{GeneratePatchesExtension: "generate-patches.ext", ValidateTopologyExtension: "validate-topology.ext"}
		change(p)
		c.Spec.Patches = append(c.Spec.Patches, clusterv1.ClusterClassPatch{Name: "outside", External: p})
	})
}

func setVariable(t *testing.T, w *story, cluster, name, value string) {
	t.Helper()
	edit(t, w, cluster, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) {
		c.Spec.Topology.Variables = []clusterv1.ClusterVariable{{Name: name, Value: apiextensionsv1.JSON{Raw: []byte(value)}}}
	})
}

// TestASlowExtensionHoldsUpNothingElse: its earlier answers stay valid, a new
// question waits and is retried, and the rest continues.
func TestASlowExtensionHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	x := newPatcher(t)
	w := newTopology(t, func(o *Options) { o.Extension = x })
	register(t, w, "ext")
	w.create(strings.Replace(fleetClass, "name: fleet", "name: navy", 1))
	outside(t, w, func(p *clusterv1.ExternalPatchDefinition) { p.ValidateTopologyExtension = "" })
	w.create(fleetCluster)
	w.create(strings.NewReplacer("name: demo", "name: other", "name: fleet", "name: navy").Replace(fleetCluster))
	w.RunFor(time.Minute)
	drains := func(cluster string, seconds int32) {
		edit(t, w, cluster, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) {
			c.Spec.Topology.Workers.MachineDeployments[0].Deletion.NodeDrainTimeoutSeconds = &seconds
		})
	}
	expect := func(when, cluster string, seconds, startup int32, said string) {
		t.Helper()
		c := conditions.Get(get(t, w, cluster, &clusterv1.Cluster{}), clusterv1.ClusterTopologyReconciledCondition)
		if got := c.Reason + " " + c.Message; got != said {
			t.Errorf("%s: Cluster %s says %s, want %s", when, cluster, got, said)
		}
		for _, obj := range w.objects("MachineDeployment") {
			d := obj.(*clusterv1.MachineDeployment)
			if d.Spec.ClusterName != cluster {
				continue
			}
			host := get(t, w, d.Spec.Template.Spec.InfrastructureRef.Name, &infrav1.LocalMachineTemplate{})
			if got := *host.Spec.Template.Spec.Simulated.VM.StartupMilliseconds; got != startup {
				t.Errorf("%s: workers of %s start up in %d ms, want %d", when, cluster, got, startup)
			}
			if got := d.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds; got == nil || *got != seconds {
				t.Errorf("%s: workers of %s drain in %v, want %d", when, cluster, got, seconds)
			}
		}
	}

	x.takes, x.calls = time.Hour, 0
	drains("demo", 1)
	w.Run()
	expect("an answer is remembered", "demo", 1, 2000, "ReconcileSucceeded ")
	if x.calls > 0 {
		t.Errorf("asked %d times what it has answered", x.calls)
	}

	setVariable(t, w, "demo", "startup", "1000")
	setVariable(t, w, "other", "startup", "1000")
	drains("demo", 2)
	drains("other", 2)
	_ = w.World.RunFor(t.Context(), 10*time.Minute)
	const slow = `ReconcileFailed patch "outside": extension generate-patches.ext: call extension handler "generate-patches.ext" of hook GeneratePatches for Cluster default/demo: server ext.example.com:443: time ran out waiting for its answer: context deadline exceeded`
	expect("the extension is slow", "demo", 2, 2000, slow)
	expect("the extension is slow", "other", 2, 1000, "ReconcileSucceeded ")
	if x.calls < 2 {
		t.Errorf("asked %d times in ten minutes", x.calls)
	}

	x.takes = 9 * time.Second // of ten that it may
	w.RunFor(20 * time.Minute)
	expect("the extension answers again", "demo", 2, 1000, "ReconcileSucceeded ")
	if got := len(w.objects("Machine")); got != 4 {
		t.Errorf("%d Machines, want 4", got)
	}
}
