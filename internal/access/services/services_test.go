// SPDX-License-Identifier: Apache-2.0

package services

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/internal/builder"
)

const (
	unnamed = "metadata: {namespace: ns, name: x}\nspec: {ports: [{port: 443, targetPort: 9443}]}"
	named   = "metadata: {namespace: ns, name: x}\nspec: {ports: [{name: metrics, port: 80, targetPort: metrics}, {name: hooks, port: 443, targetPort: hooks}]}"
	labels  = "metadata: {namespace: ns, name: x-1, labels: {kubernetes.io/service-name: x}}\naddressType: IPv4\n"
)

func TestAServiceIsFoundByItsEndpointSlices(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		service string
		slices  []string
		port    int32
		want    string
		wantErr string
	}{
		"by the number": {service: unnamed, slices: []string{labels + "endpoints: [{addresses: [10.0.0.1]}]\nports: [{port: 9443}]"}, want: "10.0.0.1:9443"},
		"with the empty name that API servers give": {service: unnamed, slices: []string{labels + "endpoints: [{addresses: [10.0.0.1]}]\nports: [{name: '', port: 1234}]"}, want: "10.0.0.1:1234"},
		"by the name": {service: named, slices: []string{labels + "endpoints: [{addresses: [10.0.0.1]}]\nports: [{name: metrics, port: 1}, {name: hooks, port: 2}]"}, want: "10.0.0.1:2"},
		"without a name in the slice, by the number": {service: "metadata: {namespace: ns, name: x}\nspec: {ports: [{name: hooks, port: 443, targetPort: 2}]}", slices: []string{labels + "endpoints: [{addresses: [10.0.0.1]}]\nports: [{port: 2}]"}, want: "10.0.0.1:2"},
		"on every port":               {service: unnamed, slices: []string{labels + "endpoints: [{addresses: [10.0.0.1]}]\nports: [{}]"}, want: "10.0.0.1:9443"},
		"without a target":            {service: "metadata: {namespace: ns, name: x}\nspec: {ports: [{port: 443}]}", slices: []string{labels + "endpoints: [{addresses: [10.0.0.1]}]\nports: [{}]"}, want: "10.0.0.1:443"},
		"at the ready one":            {service: unnamed, slices: []string{labels + "endpoints: [{addresses: [10.0.0.1], conditions: {ready: false}}, {addresses: [10.0.0.2], conditions: {ready: true}}]\nports: [{port: 9443}]"}, want: "10.0.0.2:9443"},
		"in IPv6":                     {service: unnamed, slices: []string{labels + "endpoints: [{addresses: ['fd00::1']}]\nports: [{port: 9443}]"}, want: "[fd00::1]:9443"},
		"elsewhere":                   {service: "metadata: {namespace: ns, name: x}\nspec: {type: ExternalName, externalName: hooks.example.com}", port: 8443, want: "hooks.example.com:8443"},
		"no Service":                  {service: "metadata: {namespace: other, name: x}", wantErr: "it does not exist"},
		"no such port":                {service: named, port: 8443, wantErr: "it has no port 8443: it has 80 (metrics), 443 (hooks)"},
		"no port at all":              {service: "metadata: {namespace: ns, name: x}", wantErr: "it has no port 443: it has none"},
		"only another protocol":       {service: "metadata: {namespace: ns, name: x}\nspec: {ports: [{port: 443, protocol: UDP}]}", wantErr: "it has no port 443: it has 443/UDP"},
		"no slice":                    {service: unnamed, wantErr: "it has no ready endpoint: no EndpointSlice has its name in the label kubernetes.io/service-name"},
		"an empty slice":              {service: unnamed, slices: []string{labels + "ports: [{port: 9443}]"}, wantErr: "it has no ready endpoint: EndpointSlice x-1 is empty"},
		"a slice of another port":     {service: unnamed, slices: []string{labels + "endpoints: [{addresses: [10.0.0.1]}]\nports: [{name: other, port: 9443}]"}, wantErr: "it has no ready endpoint: no port of EndpointSlice x-1 is its port 443"},
		"a slice of another protocol": {service: unnamed, slices: []string{labels + "endpoints: [{addresses: [10.0.0.1]}]\nports: [{port: 9443, protocol: UDP}]"}, wantErr: "it has no ready endpoint: no port of EndpointSlice x-1 is its port 443"},
		"nothing ready":               {service: unnamed, slices: []string{labels + "endpoints: [{addresses: [10.0.0.1], conditions: {ready: false}}]\nports: [{port: 9443}]"}, wantErr: "it has no ready endpoint: 1 there, none of which is ready, in EndpointSlice x-1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := resolver(t, tc.service, tc.slices...)
			if tc.port == 0 {
				tc.port = 443
			}
			got, err := r.Resolve(t.Context(), "ns", "x", tc.port)
			if got != tc.want || (err == nil) != (tc.wantErr == "") || err != nil && err.Error() != tc.wantErr {
				t.Errorf("%q, %v; want %q, %q", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestReadyEndpointsTakeTurns(t *testing.T) {
	t.Parallel()
	second := "metadata: {namespace: ns, name: x-2, labels: {kubernetes.io/service-name: x}}\naddressType: IPv4\nendpoints: [{addresses: [10.0.0.3]}]\nports: [{port: 9443}]"
	r := resolver(t, unnamed, labels+"endpoints: [{addresses: [10.0.0.2]}, {addresses: [10.0.0.1, 10.0.0.9]}]\nports: [{port: 9443}]", second)
	for i, want := range []string{"10.0.0.1:9443", "10.0.0.2:9443", "10.0.0.3:9443"} {
		r.Choose = func(n int) int {
			if n != 3 {
				t.Errorf("%d endpoints, want 3", n)
			}
			return i
		}
		if got, err := r.Resolve(t.Context(), "ns", "x", 443); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

func resolver(t *testing.T, service string, slices ...string) *Resolver {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{builder.Parse[corev1.Service](t, service)}
	for _, s := range slices {
		objects = append(objects, builder.Parse[discoveryv1.EndpointSlice](t, s))
	}
	return &Resolver{Live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), Choose: func(int) int { return 0 }}
}
