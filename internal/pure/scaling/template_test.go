// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/machinetemplate"
)

func TestMachineTemplate(t *testing.T) {
	t.Parallel()
	spec := clusterv1.MachineSpec{ClusterName: "ignored", Version: "v1.36.0", MinReadySeconds: new(int32(3))}
	set := &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: strings.Repeat("long", 20), UID: "uid", Labels: map[string]string{
			clusterv1.MachineDeploymentNameLabel: "md", "other": "of the set alone",
		}},
		Spec: clusterv1.MachineSetSpec{ClusterName: "c", Template: clusterv1.MachineTemplateSpec{
			ObjectMeta: clusterv1.ObjectMeta{
				Labels:      map[string]string{"app": "x", clusterv1.ClusterNameLabel: "forged", clusterv1.MachineSetNameLabel: "forged"},
				Annotations: map[string]string{"note": "1"},
			},
			Spec: spec,
		}},
	}
	before := set.DeepCopy()
	want := machinetemplate.Template{
		Maker:       metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: set.Name, UID: "uid"},
		Namespace:   "ns",
		Annotations: map[string]string{"note": "1"},
		Labels: map[string]string{
			"app": "x", clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: "md", clusterv1.MachineSetNameLabel: "hash_ekz2lQ_z",
		},
		Spec: spec,
	}
	want.Spec.ClusterName = "c"
	if diff := cmp.Diff(want, MachineTemplate(set)); diff != "" {
		t.Errorf("template (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, set); diff != "" {
		t.Errorf("the set has changed (-want +got):\n%s", diff)
	}
}
