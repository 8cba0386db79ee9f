// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

// TestALowerVersionIsRefusedUnlessItIsAskedFor needs no cluster: the control plane
// belongs to none, and so is deleted immediately in the end.
func TestALowerVersionIsRefusedUnlessItIsAskedFor(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	cp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "alone"}}
	cp.Spec.Version = "v1.36.3"
	cp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion().Group, Kind: "LocalMachineTemplate", Name: "none"}
	if err := f.Client.Create(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	patch := func(allowed, version string, opts ...client.PatchOption) error {
		raw := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}},"spec":{"version":%q}}`, controlplanev1.AllowDowngradeAnnotation, allowed, version)
		return f.Client.Patch(t.Context(), cp.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(raw)), opts...)
	}
	for _, tc := range []struct {
		allowed, version string
		opts             []client.PatchOption
		refused          bool
	}{
		{"null", "v1.35.9", nil, true},
		{"null", "v1.36.2", nil, true},
		{"null", "v1.36.2", []client.PatchOption{client.DryRunAll}, true},
		{`"v1.36.2"`, "v1.35.9", nil, true},
		{`"v1.36.2"`, "v1.36.2", []client.PatchOption{client.DryRunAll}, false},
		{`"v1.36.2"`, "1.36.2", nil, false},
		{"null", "v1.36.3", nil, false},
	} {
		if err := patch(tc.allowed, tc.version, tc.opts...); apierrors.IsInvalid(err) != tc.refused || err != nil && !tc.refused {
			t.Errorf("to %s, allowed %s: %v; want it refused: %v", tc.version, tc.allowed, err, tc.refused)
		}
	}
	if err := f.Client.Delete(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	f.eventually(func() error {
		err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(cp), cp)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the control plane is still there: %v", err)
		}
		return nil
	})
}
