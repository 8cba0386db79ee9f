// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	ipamv1 "github.com/capstan-dev/capstan/api/ipam/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

func TestValidateIPAddress(t *testing.T) {
	t.Parallel()
	const pool = "poolRef: {apiGroup: g, kind: P, name: p}"
	for name, tc := range map[string]struct {
		obj, old, claim string
		want            []string
	}{
		"IPv4":            {obj: "spec: {address: 10.0.0.2, prefix: 24, gateway: 10.0.0.1, " + pool + "}", claim: "spec: {" + pool + "}"},
		"IPv6, no claim":  {obj: "spec: {address: 'fd00::2', prefix: 64}"},
		"rubbish":         {obj: "spec: {address: 10.0.0.256, prefix: 24, gateway: here}", want: []string{`spec.address: Invalid value: "10.0.0.256": must be an IPv4 or IPv6 address`, `spec.gateway: Invalid value: "here": must be an IPv4 or IPv6 address`}},
		"too long prefix": {obj: "spec: {address: 10.0.0.2, prefix: 64}", want: []string{"spec.prefix: Invalid value: 64: must be between 0 and 32"}},
		"another pool":    {obj: "spec: {address: 10.0.0.2, prefix: 24, poolRef: {apiGroup: g, kind: P, name: q}}", claim: "{metadata: {name: c}, spec: {" + pool + "}}", want: []string{`spec.poolRef: Invalid value: "q": must be the pool of IPAddressClaim c, P p`}},
		"changed":         {obj: "spec: {address: 10.0.0.3}", old: "spec: {address: 10.0.0.2}", want: []string{"spec: Forbidden: cannot change; delete the object and create another one"}},
		"kept":            {obj: "spec: {address: rubbish}", old: "spec: {address: rubbish}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := builder.Messages(ValidateIPAddress(builder.Parse[ipamv1.IPAddress](t, tc.obj), builder.Parse[ipamv1.IPAddress](t, tc.old), builder.Parse[ipamv1.IPAddressClaim](t, tc.claim)))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAddressIsHeldToItsClaim calls the webhook as an API server does.
func TestAddressIsHeldToItsClaim(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := ipamv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	claim := builder.Parse[ipamv1.IPAddressClaim](t, "{metadata: {namespace: ns, name: c}, spec: {poolRef: {name: p}}}")
	hook := IPAMWebhooks(fake.NewClientBuilder().WithScheme(scheme).WithObjects(claim).Build())[0]
	for name, tc := range map[string]struct {
		claim, pool string
		want        bool
	}{
		"from the pool of its claim": {"c", "p", true},
		"from another pool":          {"c", "q", false},
		"before its claim":           {"later", "q", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := &admissionv1.AdmissionRequest{Namespace: "ns", Name: "a"}
			req.Object.Raw = []byte(`{"spec": {"address": "10.0.0.2", "prefix": 24, "claimRef": {"name": "` + tc.claim + `"}, "poolRef": {"name": "` + tc.pool + `"}}}`)
			if got := hook.Admit(t.Context(), req); got.Allowed != tc.want {
				t.Errorf("allowed %v, want %v: %v", got.Allowed, tc.want, got.Result)
			}
		})
	}
}

func TestValidateIPAddressClaim(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		obj, old string
		want     []string
	}{
		"new":     {`spec: {poolRef: {name: p}}`, ``, nil},
		"kept":    {`{metadata: {labels: {a: b}}, spec: {poolRef: {name: p}}}`, `spec: {poolRef: {name: p}}`, nil},
		"changed": {`spec: {poolRef: {name: q}}`, `spec: {poolRef: {name: p}}`, []string{`spec: Forbidden: cannot change; delete the object and create another one`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, builder.Messages(ValidateIPAddressClaim(builder.Parse[ipamv1.IPAddressClaim](t, tc.obj), builder.Parse[ipamv1.IPAddressClaim](t, tc.old)))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
