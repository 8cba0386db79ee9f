// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	ipamv1alpha1 "github.com/capstan-dev/capstan/api/ipam/v1alpha1"
	ipamv1 "github.com/capstan-dev/capstan/api/ipam/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder/conversiontests"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

func TestAddonsAreConvertedBothWays(t *testing.T) {
	t.Parallel()
	set, binding := AddonKinds()[0], AddonKinds()[1]
	conversiontests.Both(t, set, map[string]conversiontests.Case{
		"nothing": {From: "{}", Want: "{}"},
		"all of it": {
			From: `
spec: {clusterSelector: {matchLabels: {a: b}}, resources: [{name: a, kind: Secret}, {name: m, kind: ConfigMap}], strategy: Reconcile}
status:
  observedGeneration: 3
  conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z"}]
  v1beta2: {conditions: [{type: B, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}]}`,
			Want: `
spec: {clusterSelector: {matchLabels: {a: b}}, resources: [{name: a, kind: Secret}, {name: m, kind: ConfigMap}], strategy: Reconcile}
status:
  observedGeneration: 3
  conditions: [{type: B, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}]
  deprecated: {v1beta1: {conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z"}]}}`,
		},
		"no resources, explicitly": {From: "spec: {resources: []}", Want: "spec: {resources: []}"},
	})
	conversiontests.Both(t, binding, map[string]conversiontests.Case{
		"nothing": {From: "{}", Want: "{}"},
		"all of it": {
			From: `
spec:
  clusterName: c
  bindings:
  - clusterResourceSetName: s
    resources:
    - {name: a, kind: Secret, hash: h, applied: true, lastAppliedTime: "2026-01-02T03:04:05Z"}
    - {name: m, kind: ConfigMap, applied: false}
  - {clusterResourceSetName: t, resources: []}`,
			Want: `
spec:
  clusterName: c
  bindings:
  - clusterResourceSetName: s
    resources:
    - {name: a, kind: Secret, hash: h, applied: true, lastAppliedTime: "2026-01-02T03:04:05Z"}
    - {name: m, kind: ConfigMap, applied: false}
  - {clusterResourceSetName: t, resources: []}`,
		},
		"an entry of null": {From: "spec: {bindings: [null, {clusterResourceSetName: s}]}", Want: "spec: {bindings: [{}, {clusterResourceSetName: s}]}"},
	})
	conversiontests.Down(t, binding, map[string]conversiontests.Case{
		"what is not known to be applied": {From: "spec: {bindings: [{clusterResourceSetName: s, resources: [{name: a}]}]}", Want: "spec: {bindings: [{clusterResourceSetName: s, resources: [{name: a, applied: false}]}]}"},
	})
}

func TestExtensionConfigIsConvertedBothWays(t *testing.T) {
	t.Parallel()
	conversiontests.Both(t, RuntimeKinds()[0], map[string]conversiontests.Case{
		"nothing": {From: "{}", Want: "{}"},
		"by a URL": {
			From: "spec: {clientConfig: {url: 'https://x', caBundle: c29tZQ==}, namespaceSelector: {}, settings: {}}",
			Want: "spec: {clientConfig: {url: 'https://x', caBundle: c29tZQ==}, namespaceSelector: {}, settings: {}}",
		},
		"by a Service": {
			From: "spec: {clientConfig: {service: {namespace: o, name: s, path: /p, port: 0}}, namespaceSelector: {matchLabels: {a: b}}, settings: {k: ''}}",
			Want: "spec: {clientConfig: {service: {namespace: o, name: s, path: /p, port: 0}}, namespaceSelector: {matchLabels: {a: b}}, settings: {k: ''}}",
		},
		"a status": {
			From: `
status:
  conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z"}]
  v1beta2: {conditions: []}
  handlers:
  - {name: h, requestHook: {apiVersion: hooks/v1, hook: GeneratePatches}, timeoutSeconds: 10, failurePolicy: Ignore}
  - {name: i, requestHook: {apiVersion: hooks/v1, hook: Discovery}}`,
			Want: `
status:
  conditions: []
  deprecated: {v1beta1: {conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z"}]}}
  handlers:
  - {name: h, requestHook: {apiVersion: hooks/v1, hook: GeneratePatches}, timeoutSeconds: 10, failurePolicy: Ignore}
  - {name: i, requestHook: {apiVersion: hooks/v1, hook: Discovery}}`,
		},
	})
	conversiontests.Up(t, RuntimeKinds()[0], map[string]conversiontests.Case{
		"empty values": {From: `{spec: {clientConfig: {url: "", service: {path: ""}}}, status: {handlers: [{timeoutSeconds: 0, failurePolicy: ""}]}}`, Want: "status: {handlers: [{}]}"},
	})
}

func TestIPAMIsConvertedBothWays(t *testing.T) {
	t.Parallel()
	kinds := IPAMKinds()
	for _, k := range kinds[:2] {
		conversiontests.Both(t, k, map[string]conversiontests.Case{
			"nothing": {From: "{}", Want: "spec: {prefix: 0}"},
			"an address": {
				From: "spec: {claimRef: {name: c}, poolRef: {apiGroup: p.io, kind: Pool, name: p}, address: 'fd00::7', prefix: 128, gateway: 'fd00::1'}",
				Want: "spec: {claimRef: {name: c}, poolRef: {apiGroup: p.io, kind: Pool, name: p}, address: 'fd00::7', prefix: 128, gateway: 'fd00::1'}",
			},
		})
		conversiontests.Down(t, k, map[string]conversiontests.Case{"no prefix": {From: "spec: {address: 10.0.0.1}", Want: "spec: {address: 10.0.0.1}"}})
	}
	conversiontests.Both(t, kinds[2], map[string]conversiontests.Case{
		"nothing": {From: "{}", Want: "{}"},
		"a claim": {
			From: `
spec: {clusterName: c, poolRef: {kind: Pool, name: p}}
status:
  addressRef: {name: a}
  conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z"}]
  v1beta2: {conditions: [{type: B, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}]}`,
			Want: `
spec: {clusterName: c, poolRef: {kind: Pool, name: p}}
status:
  addressRef: {name: a}
  conditions: [{type: B, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}]
  deprecated: {v1beta1: {conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z"}]}}`,
		},
	})
	conversiontests.Up(t, kinds[3], map[string]conversiontests.Case{
		"conditions that only the hub has": {
			From: "spec: {poolRef: {kind: Pool, name: p}}", Kept: `status: {conditions: [{type: B, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}]}`,
			Want: "spec: {poolRef: {kind: Pool, name: p}}\nstatus: {conditions: [{type: B, status: \"True\", reason: R, message: m, lastTransitionTime: \"2026-01-02T03:04:05Z\"}]}",
		},
	})
}

// TestOldestClaimHasClusterInLabel: v1alpha1 has no field for it.
func TestOldestClaimHasClusterInLabel(t *testing.T) {
	t.Parallel()
	k := IPAMKinds()[3]
	const label = clusterv1.ClusterNameLabel
	for name, tc := range map[string]struct {
		cluster             string
		labels, annotations map[string]string // of the hub
		wantLabels, wantAnn map[string]string // of the older version, without the data
	}{
		"no Cluster":                 {"", map[string]string{"a": "b"}, nil, map[string]string{"a": "b"}, nil},
		"a Cluster":                  {"c", nil, nil, map[string]string{label: "c"}, map[string]string{labelSetAnnotation: "false"}},
		"a Cluster with other marks": {"c", map[string]string{"a": "b"}, map[string]string{"x": "y"}, map[string]string{"a": "b", label: "c"}, map[string]string{"x": "y", labelSetAnnotation: "false"}},
		"one that is labeled so":     {"c", map[string]string{label: "c"}, nil, map[string]string{label: "c"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := &ipamv1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: tc.labels, Annotations: tc.annotations}}
			hub.Spec.ClusterName = tc.cluster
			got, err := k.Down(hub, conversiontests.Lookup)
			if err != nil {
				t.Fatal(err)
			}
			old := got.(*ipamv1alpha1.IPAddressClaim)
			annotations := old.DeepCopy().Annotations
			if delete(annotations, rules.DataAnnotation); len(annotations) == 0 {
				annotations = nil
			}
			if diff := cmp.Diff([]map[string]string{tc.wantLabels, tc.wantAnn}, []map[string]string{old.Labels, annotations}); diff != "" {
				t.Errorf("labels and annotations (-want +got):\n%s", diff)
			}
			back, err := k.Up(old)
			if err != nil {
				t.Fatal(err)
			}
			claim := back.(*ipamv1.IPAddressClaim)
			if claim.Spec.ClusterName != tc.cluster || len(claim.Labels) != len(tc.labels) || len(claim.Annotations) != len(tc.annotations) {
				t.Errorf("back: Cluster %q, labels %v, annotations %v", claim.Spec.ClusterName, claim.Labels, claim.Annotations)
			}
		})
	}
	changed, err := k.Up(&ipamv1alpha1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{label: "other"}, Annotations: map[string]string{labelSetAnnotation: "true"}}})
	if err != nil {
		t.Fatal(err)
	}
	if c := changed.(*ipamv1.IPAddressClaim); c.Spec.ClusterName != "other" || c.Labels[label] != "other" || len(c.Annotations) != 0 {
		t.Errorf("a label that a client changed: %q, %v, %v", c.Spec.ClusterName, c.Labels, c.Annotations)
	}
}
