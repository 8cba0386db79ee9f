// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

func all() []webhook.Webhook {
	return Of(Clients{}, localinfra.Backends{}, controllers.Gates{}, "core", "kubeadm", "local")
}

func find(t *testing.T, kind string, mutating bool) webhook.Webhook {
	t.Helper()
	for _, w := range all() {
		if w.Kind.Kind == kind && w.Mutating == mutating {
			return w
		}
	}
	t.Fatalf("no such webhook of %s", kind)
	return webhook.Webhook{}
}

// guards reports whether a webhook is for deletions.
func guards(w webhook.Webhook) bool {
	return slices.Contains(w.Operations, admissionregistrationv1.Delete)
}

func object(t *testing.T, kind, text string) map[string]any {
	t.Helper()
	obj := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	metadata, _ := obj["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"], metadata["namespace"] = "name", "ns"
	obj["kind"], obj["metadata"] = kind, metadata
	return obj
}

func request(t *testing.T, obj, old map[string]any) *admissionv1.AdmissionRequest {
	t.Helper()
	req := &admissionv1.AdmissionRequest{UID: "1", Namespace: "ns", Name: "name", Kind: metav1.GroupVersionKind(schema.GroupVersionKind{})}
	req.Object = runtime.RawExtension{Raw: encode(t, obj)}
	if old != nil {
		req.OldObject = runtime.RawExtension{Raw: encode(t, old)}
	}
	return req
}

func encode(t *testing.T, obj any) []byte {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestDefaultingIsCalledExactlyWhenItWouldSetSomething compares the conditions that
// API servers evaluate with the functions whose calls they save.
func TestDefaultingIsCalledExactlyWhenItWouldSetSomething(t *testing.T) {
	t.Parallel()
	const (
		labelled = "metadata: {labels: {cluster.x-k8s.io/cluster-name: c}}\n"
		deployed = "metadata: {labels: {cluster.x-k8s.io/cluster-name: c}, finalizers: [cluster.x-k8s.io/machinedeployment]}\n"
		template = "template: {metadata: {labels: {a: b}}, spec: {clusterName: c, bootstrap: {dataSecretName: x}, infrastructureRef: {}}}"
		inMD     = "template: {metadata: {labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, version: v1.34.0}}"
		inSel    = "selector: {matchLabels: {cluster.x-k8s.io/cluster-name: c}}"
	)
	tests := map[string]map[string]string{
		"Machine": {
			"nothing":           "metadata: {name: x}",
			"minimal":           "spec: {clusterName: c}",
			"labels of others":  "metadata: {labels: {x: z}}\nspec: {clusterName: c}",
			"wrong label":       "metadata: {labels: {cluster.x-k8s.io/cluster-name: d}}\nspec: {clusterName: c, deletion: {nodeDeletionTimeoutSeconds: 10}}",
			"only the timeout":  "spec: {clusterName: c, deletion: {nodeDeletionTimeoutSeconds: 10}}",
			"other timeout":     labelled + "spec: {clusterName: c, deletion: {nodeDrainTimeoutSeconds: 10}}",
			"version without v": labelled + "spec: {clusterName: c, version: 1.34.0, deletion: {nodeDeletionTimeoutSeconds: 10}}",
			"complete":          labelled + "spec: {clusterName: c, version: v1.34.0, deletion: {nodeDeletionTimeoutSeconds: 0}}",
		},
		"MachineSet": {
			"nothing":                      "metadata: {name: x}",
			"no selector":                  labelled + "spec: {clusterName: c, replicas: 1, " + template + "}",
			"minimal":                      "spec: {clusterName: c, selector: {}, " + template + "}",
			"empty map in selector":        labelled + "spec: {clusterName: c, replicas: 0, selector: {matchLabels: {}}, " + template + "}",
			"empty list in selector":       labelled + "spec: {clusterName: c, replicas: 0, selector: {matchExpressions: []}, " + template + "}",
			"no replicas":                  labelled + "spec: {clusterName: c, selector: {matchLabels: {a: b}}, " + template + "}",
			"version without v":            labelled + "spec: {clusterName: c, replicas: 1, selector: {matchLabels: {a: b}}, template: {spec: {clusterName: c, version: '1.34.0'}}}",
			"complete with labels":         labelled + "spec: {clusterName: c, replicas: 1, selector: {matchLabels: {a: b}}, " + template + "}",
			"complete with an expression":  labelled + "spec: {clusterName: c, replicas: 1, selector: {matchExpressions: [{key: a, operator: Exists}]}, " + template + "}",
			"bounds of the autoscaler":     "metadata: {labels: {cluster.x-k8s.io/cluster-name: c}, annotations: {cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: '3', cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: '5'}}\nspec: {clusterName: c, selector: {matchLabels: {a: b}}, " + template + "}",
			"selector and template differ": labelled + "spec: {clusterName: c, replicas: 1, selector: {matchLabels: {x: z}}, template: {spec: {clusterName: c}}}",
		},
		"MachineDeployment": {
			"nothing":                "metadata: {name: x}",
			"no selector":            deployed + "spec: {clusterName: c, replicas: 1, rollout: {strategy: {type: OnDelete}}, " + inMD + "}",
			"minimal":                "spec: {clusterName: c, selector: {}, template: {spec: {clusterName: c}}}",
			"no strategy":            deployed + "spec: {clusterName: c, replicas: 1, " + inSel + ", " + inMD + "}",
			"empty strategy":         deployed + "spec: {clusterName: c, replicas: 1, rollout: {strategy: {type: RollingUpdate}}, " + inSel + ", " + inMD + "}",
			"only surge":             deployed + "spec: {clusterName: c, replicas: 1, rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}, " + inSel + ", " + inMD + "}",
			"on delete":              deployed + "spec: {clusterName: c, replicas: 1, rollout: {strategy: {type: OnDelete}}, " + inSel + ", " + inMD + "}",
			"no label in selector":   deployed + "spec: {clusterName: c, replicas: 1, rollout: {strategy: {type: OnDelete}}, selector: {matchLabels: {a: b}}, " + inMD + "}",
			"no label in template":   deployed + "spec: {clusterName: c, replicas: 1, rollout: {strategy: {type: OnDelete}}, " + inSel + ", template: {spec: {clusterName: c}}}",
			"rollout after, removed": deployed + "spec: {clusterName: c, replicas: 1, rollout: {after: '2026-01-01T00:00:00Z'}, " + inSel + ", " + inMD + "}",
			"no finalizer":           labelled + "spec: {clusterName: c, replicas: 1, rollout: {strategy: {type: OnDelete}}, " + inSel + ", " + inMD + "}",
			"complete":               deployed + "spec: {clusterName: c, replicas: 1, rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 10%, maxUnavailable: 0}}}, " + inSel + ", " + inMD + "}",
		},
		"MachinePool": {
			"nothing":           "metadata: {name: x}",
			"minimal":           "spec: {clusterName: c, template: {spec: {clusterName: c}}}",
			"no replicas":       labelled + "spec: {clusterName: c, template: {spec: {clusterName: c, deletion: {nodeDeletionTimeoutSeconds: 10}}}}",
			"no timeout":        labelled + "spec: {clusterName: c, replicas: 0, template: {spec: {clusterName: c, deletion: {nodeDrainTimeoutSeconds: 10}}}}",
			"version without v": labelled + "spec: {clusterName: c, replicas: 1, template: {spec: {clusterName: c, version: '1.34.0', deletion: {nodeDeletionTimeoutSeconds: 10}}}}",
			"complete":          labelled + "spec: {clusterName: c, replicas: 1, template: {spec: {clusterName: c, version: v1.34.0, deletion: {nodeDeletionTimeoutSeconds: 0}}}}",
		},
		"MachineHealthCheck": {
			"nothing":     "metadata: {name: x}",
			"minimal":     "spec: {clusterName: c, selector: {matchLabels: {a: b}}}",
			"other check": labelled + "spec: {clusterName: c, checks: {unhealthyNodeConditions: []}}",
			"complete":    labelled + "spec: {clusterName: c, checks: {nodeStartupTimeoutSeconds: 0}}",
		},
		"KubeadmControlPlane": {
			"nothing":           "metadata: {finalizers: [kubeadm.controlplane.cluster.x-k8s.io]}",
			"minimal":           "spec: {version: v1.34.0, machineTemplate: {spec: {infrastructureRef: {}}}}",
			"version without v": "spec: {version: 1.34.0, replicas: 3, rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}}}",
			"no surge":          "spec: {version: v1.34.0, replicas: 3, rollout: {strategy: {type: RollingUpdate}}}",
			"no type":           "spec: {version: v1.34.0, replicas: 3, rollout: {strategy: {rollingUpdate: {maxSurge: 0}}}}",
			"complete":          "metadata: {finalizers: [kubeadm.controlplane.cluster.x-k8s.io]}\nspec: {version: v1.34.0, replicas: 3, rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}}}",
			"no finalizer":      "spec: {version: v1.34.0, replicas: 3, rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}}}",
		},
		"Cluster": {
			"new":            "spec: {paused: false}",
			"with finalizer": "metadata: {finalizers: [cluster.cluster.x-k8s.io]}\nspec: {paused: false}",
			"of others":      "metadata: {finalizers: [a.b/c]}\nspec: {paused: false}",
		},
		"LocalCluster": {
			"new":               "spec: {simulated: {}}",
			"with finalizer":    "metadata: {finalizers: [infrastructure.capstan.dev/localcluster]}\nspec: {simulated: {}}",
			"managed by others": "metadata: {annotations: {cluster.x-k8s.io/managed-by: terraform}}\nspec: {simulated: {}}",
		},
		"LocalMachine": {
			"new":            "spec: {simulated: {}}",
			"with finalizer": "metadata: {finalizers: [infrastructure.capstan.dev/localmachine]}\nspec: {simulated: {}}",
		},
		"LocalMachinePool": {
			"new":            "spec: {template: {simulated: {}}}",
			"with finalizer": "metadata: {finalizers: [infrastructure.capstan.dev/localmachinepool]}\nspec: {template: {simulated: {}}}",
		},
		"ClusterResourceSet": {
			"minimal":  "spec: {clusterSelector: {matchLabels: {a: b}}}",
			"complete": "spec: {clusterSelector: {matchLabels: {a: b}}, strategy: Reconcile}",
		},
		"ExtensionConfig": {
			"nothing":          "metadata: {name: x}",
			"url":              "spec: {clientConfig: {url: https://x}}",
			"service":          "spec: {namespaceSelector: {}, clientConfig: {service: {name: a, namespace: b}}}",
			"complete service": "spec: {namespaceSelector: {}, clientConfig: {service: {name: a, namespace: b, port: 8443}}}",
			"complete url":     "spec: {namespaceSelector: {}, clientConfig: {url: https://x}}",
		},
	}
	for _, w := range all() {
		if w.Mutating && tests[w.Kind.Kind] == nil {
			t.Errorf("no cases for %s", w.Name())
		}
	}
	for kind, objects := range tests {
		for name, text := range objects {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				w, obj := find(t, kind, true), object(t, kind, text)
				response := w.Admit(t.Context(), request(t, obj, nil))
				if !response.Allowed {
					t.Fatal(response.Result.Message)
				}
				if got, want := called(t, w, obj, nil), response.Patch != nil; got != want {
					t.Errorf("called: %v, patch %s", got, response.Patch)
				}
				if response.Patch == nil {
					return
				}
				defaulted := apply(t, obj, response.Patch)
				if again := w.Admit(t.Context(), request(t, defaulted, nil)); again.Patch != nil {
					t.Errorf("defaulted again by %s", again.Patch)
				}
				if called(t, w, defaulted, obj) {
					t.Error("called again for what it made")
				}
			})
		}
	}
}

func apply(t *testing.T, obj map[string]any, patch []byte) map[string]any {
	t.Helper()
	p, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	data, err := p.Apply(encode(t, obj))
	if err != nil {
		t.Fatalf("apply %s: %v", patch, err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestValidationIsCalledOnlyForCheckedFields covers most writes of
// controllers.
func TestValidationIsCalledOnlyForCheckedFields(t *testing.T) {
	t.Parallel()
	const spec = "spec: {clusterName: c, controlPlaneEndpoint: {host: a}, format: ignition, clientConfig: {}, template: {metadata: {}, spec: {format: ignition}}}\n"
	for _, w := range all() {
		if w.Mutating || guards(w) || w.Purpose != "" {
			continue
		}
		t.Run(w.Name(), func(t *testing.T) {
			t.Parallel()
			old := object(t, w.Kind.Kind, spec)
			touched := object(t, w.Kind.Kind, "metadata: {finalizers: [x], labels: {a: b}, annotations: {c: d}}\n"+spec+"status: {replicas: 2}")
			if called(t, w, touched, old) {
				t.Error("called for metadata and status")
			}
			edited := maps.Clone(old)
			edited["spec"] = object(t, "", "spec: {clusterName: d, controlPlaneEndpoint: {host: b}, format: ignition, clientConfig: {}, template: {spec: {format: ignition, more: true}}}")["spec"]
			if !called(t, w, edited, old) {
				t.Error("not called for another spec")
			}
			if len(w.Operations) == 0 && w.Resource != "clusterresourcesetbindings" && !called(t, w, old, nil) {
				t.Error("not called for a creation")
			}
		})
	}
}

func TestGroupsOfMachinesAreCheckedForTheirAnnotations(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"MachineSet", "MachineDeployment", "MachinePool"} {
		for _, key := range []string{clusterv1.MachineSetSkipPreflightChecksAnnotation, clusterv1.AutoscalerMinSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation} {
			was, is := object(t, kind, "spec: {}"), object(t, kind, "{metadata: {annotations: {"+key+": x}}, spec: {}}")
			if !called(t, find(t, kind, false), is, was) {
				t.Errorf("%s: not called for annotation %s", kind, key)
			}
		}
	}
}

func TestMachineConfigsAreCheckedOnlyWhenTheyHoldWhatIsChecked(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want bool
	}{
		"no spec":           {"{}", false},
		"empty spec":        {"spec: {}", false},
		"what machines get": {"spec: {clusterConfiguration: {apiServer: {}}, joinConfiguration: {discovery: {bootstrapToken: {}}}, preKubeadmCommands: [a]}", false},
		"cloud-config":      {"spec: {format: cloud-config}", false},
		"ignition":          {"spec: {format: ignition}", true},
		"files":             {"spec: {files: [{path: /a}]}", true},
		"users":             {"spec: {users: [{name: a}]}", true},
		"disks":             {"spec: {diskSetup: {partitions: []}}", true},
		"tokens":            {"spec: {initConfiguration: {bootstrapTokens: [{token: rubbish}]}}", true},
		"a kubeconfig":      {"spec: {joinConfiguration: {discovery: {file: {kubeConfigPath: /a}}}}", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := called(t, find(t, "KubeadmConfig", false), object(t, "KubeadmConfig", tc.text), nil); got != tc.want {
				t.Errorf("called: %v, want %v", got, tc.want)
			}
			template := map[string]any{"spec": map[string]any{"template": object(t, "", tc.text)}}
			delete(template["spec"].(map[string]any)["template"].(map[string]any), "metadata")
			if got := called(t, find(t, "KubeadmConfigTemplate", false), template, nil); got != tc.want {
				t.Errorf("called for a template: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestEveryMachineThatIsRefusedIsAskedAbout compares the condition that saves calls
// for the Machines of controllers with the function.
func TestEveryMachineThatIsRefusedIsAskedAbout(t *testing.T) {
	t.Parallel()
	const infra = "infrastructureRef: {apiGroup: infrastructure.g, kind: I, name: m}"
	const ref = "bootstrap: {configRef: {apiGroup: bootstrap.g, kind: K, name: m}}, " + infra
	tests := map[string]struct {
		obj, old string
		want     bool
	}{
		"as controllers make it":         {obj: "spec: {clusterName: c, version: v1.34.1, " + ref + "}"},
		"as controllers change it":       {obj: "spec: {clusterName: c, providerID: x, bootstrap: {dataSecretName: s, configRef: {apiGroup: bootstrap.g, kind: K, name: m}}, " + infra + "}", old: "spec: {clusterName: c, " + ref + "}"},
		"without version":                {obj: "spec: {clusterName: c, " + ref + "}"},
		"with a Secret":                  {obj: "spec: {clusterName: c, bootstrap: {dataSecretName: s}}", want: true},
		"without bootstrap":              {obj: "spec: {clusterName: c, bootstrap: {}}", want: true},
		"with no bootstrap at all":       {obj: "spec: {clusterName: c}", want: true},
		"without bootstrap any more":     {obj: "spec: {clusterName: c}", old: "spec: {clusterName: c, " + ref + "}", want: true},
		"with a pre-release":             {obj: "spec: {clusterName: c, version: v1.34.1-rc.1, " + ref + "}", want: true},
		"with rubbish for a version":     {obj: "spec: {clusterName: c, version: v1.34, " + ref + "}", want: true},
		"with a zero before the version": {obj: "spec: {clusterName: c, version: v01.34.1, " + ref + "}", want: true},
		"with two lines of version":      {obj: "spec: {clusterName: c, version: \"v1.34.1\\nx\", " + ref + "}", want: true},
		"with taints":                    {obj: "spec: {clusterName: c, taints: [{key: node.kubernetes.io/x}], " + ref + "}", want: true},
		"of a group of Cluster API":      {obj: "spec: {clusterName: c, bootstrap: {configRef: {apiGroup: cluster.x-k8s.io, kind: Cluster, name: m}}, " + infra + "}", want: true},
		"of a template":                  {obj: "spec: {clusterName: c, bootstrap: {configRef: {apiGroup: bootstrap.g, kind: KTemplate, name: m}}, " + infra + "}", want: true},
		"of another cluster":             {obj: "spec: {clusterName: d, " + ref + "}", old: "spec: {clusterName: c, " + ref + "}", want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, obj := find(t, "Machine", false), object(t, "Machine", tc.obj)
			var old map[string]any
			if tc.old != "" {
				old = object(t, "Machine", tc.old)
			}
			got := called(t, w, obj, old)
			if got != tc.want {
				t.Errorf("called: %v, want %v", got, tc.want)
			}
			if response := w.Admit(t.Context(), request(t, obj, old)); !response.Allowed && !got {
				t.Errorf("not called for what is refused: %s", response.Result.Message)
			}
		})
	}
}

func TestPreflightAnnotationIsChecked(t *testing.T) {
	t.Parallel()
	w := find(t, "MachineSet", false)
	old := object(t, "MachineSet", "spec: {clusterName: c}")
	annotated := object(t, "MachineSet", "metadata: {annotations: {machineset.cluster.x-k8s.io/skip-preflight-checks: All}}\nspec: {clusterName: c}")
	if !called(t, w, annotated, old) || !called(t, w, old, annotated) || called(t, w, annotated, annotated) {
		t.Error("must be called exactly when the annotation changes")
	}
}

func TestTheSourceOfAnAuthorityIsChecked(t *testing.T) {
	t.Parallel()
	w := find(t, "ExtensionConfig", false)
	old := object(t, "ExtensionConfig", "spec: {clientConfig: {url: 'https://x'}}")
	annotated := object(t, "ExtensionConfig", "metadata: {annotations: {runtime.cluster.x-k8s.io/inject-ca-from-secret: rubbish}}\nspec: {clientConfig: {url: 'https://x'}}")
	if !called(t, w, annotated, old) || !called(t, w, old, annotated) || called(t, w, annotated, annotated) {
		t.Error("must be called exactly when the annotation changes")
	}
	if response := w.Admit(t.Context(), request(t, annotated, old)); response.Allowed {
		t.Error("rubbish is allowed")
	}
}

func TestNamesAndPathsAreUniqueAndQualified(t *testing.T) {
	t.Parallel()
	qualified := regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+){2,}$`)
	names, paths := map[string]bool{}, map[string]bool{}
	for _, w := range all() {
		if names[w.Name()] || paths[w.Path()] {
			t.Errorf("%s at %s is there twice", w.Name(), w.Path())
		}
		names[w.Name()], paths[w.Path()] = true, true
		if !qualified.MatchString(w.Name()) {
			t.Errorf("%s is not a qualified name", w.Name())
		}
	}
	if !paths["/mutate-cluster-x-k8s-io-v1beta2-machine"] || !paths["/validate-controlplane-cluster-x-k8s-io-v1beta2-kubeadmcontrolplane-scale"] {
		t.Errorf("paths are %v", paths)
	}
}

func TestProvidersChooseTheirWebhooks(t *testing.T) {
	t.Parallel()
	for provider, want := range map[string]string{"core": "cluster.x-k8s.io", "kubeadm": "bootstrap.cluster.x-k8s.io", "local": "infrastructure.capstan.dev"} {
		got := Of(Clients{}, localinfra.Backends{}, controllers.Gates{}, provider)
		if len(got) == 0 || got[0].Kind.Group != want {
			t.Errorf("%s: %d webhooks, the first of %v", provider, len(got), got)
		}
	}
	if got := Of(Clients{}, localinfra.Backends{}, controllers.Gates{}); len(got) != 0 {
		t.Errorf("no provider: %v", got)
	}
}

// TestMalformedReviewsAreRefused sends each webhook what no API server sends, but
// any client that reaches it may.
func TestMalformedReviewsAreRefused(t *testing.T) {
	t.Parallel()
	raw := func(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }
	tests := map[string]func(*admissionv1.AdmissionRequest){
		"nothing":                    func(r *admissionv1.AdmissionRequest) { *r = admissionv1.AdmissionRequest{UID: "1"} },
		"no object":                  func(r *admissionv1.AdmissionRequest) { r.Object = raw("") },
		"null for an object":         func(r *admissionv1.AdmissionRequest) { r.Object = raw(" null ") },
		"an update without old":      func(r *admissionv1.AdmissionRequest) { r.Operation, r.OldObject = admissionv1.Update, raw("") },
		"an update with null as old": func(r *admissionv1.AdmissionRequest) { r.Operation, r.OldObject = admissionv1.Update, raw("null") },
		"a creation with old":        func(r *admissionv1.AdmissionRequest) { r.Operation, r.OldObject = admissionv1.Create, raw("{}") },
		"a deletion":                 func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Delete },
		"a connection":               func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Connect },
		"an operation there is not":  func(r *admissionv1.AdmissionRequest) { r.Operation = "create" },
		"another resource":           func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "secrets" },
		"another group":              func(r *admissionv1.AdmissionRequest) { r.Resource.Group = "example.com" },
		"another subresource":        func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" },
		"another kind":               func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "Secret" },
	}
	c := fake.NewClientBuilder().Build()
	for _, w := range Of(Clients{Live: c, Cache: c}, localinfra.Backends{}, controllers.Gates{}, "core", "kubeadm", "local") {
		if guards(w) {
			continue // TestGuardsAreAskedAboutDeletions
		}
		whole := func() *admissionv1.AdmissionRequest {
			resource, sub, _ := strings.Cut(w.Resource, "/")
			req := &admissionv1.AdmissionRequest{
				UID: "1", Namespace: "ns", Name: "n", Operation: admissionv1.Create, Kind: metav1.GroupVersionKind(w.Kind),
				Resource: metav1.GroupVersionResource{Group: w.Kind.Group, Version: w.Kind.Version, Resource: resource}, SubResource: sub, Object: raw("{}"),
			}
			if !slices.Contains(w.Operations, admissionregistrationv1.Create) && len(w.Operations) > 0 {
				req.Operation, req.OldObject = admissionv1.Update, raw("{}")
			}
			return req
		}
		for name, change := range tests {
			req := whole()
			change(req)
			if name == "another kind" && req.SubResource != "" {
				continue // a webhook of a subresource is not that of the resource
			}
			if got := w.Admit(t.Context(), req); got.Allowed || got.Result.Code != http.StatusBadRequest || got.UID != "1" || !strings.Contains(got.Result.Message, w.Name()) {
				t.Errorf("%s, %s: %v", w.Name(), name, got)
			}
		}
		// A well-formed object may be refused, but only because of its content.
		for _, text := range []string{"{}", `{"spec": null}`, `{"spec": {}}`, `{"metadata": null, "spec": {"template": null}}`, `{"spec": []}`, "[]", `"x"`, "7"} {
			req := whole()
			if req.Object = raw(text); len(req.OldObject.Raw) > 0 {
				req.OldObject = raw(text)
			}
			if got := w.Admit(t.Context(), req); got.Result != nil && strings.Contains(got.Result.Message, "is not for") {
				t.Errorf("%s, %s: %v", w.Name(), text, got.Result)
			}
		}
	}
}
