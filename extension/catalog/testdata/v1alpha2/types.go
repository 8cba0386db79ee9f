// SPDX-License-Identifier: Apache-2.0

// Package v1alpha2 is a second version of one hook. It is only for tests: it shows that
// versions coexist and convert.
package v1alpha2

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
)

// GroupVersion is the group of the published hooks in a version that is not
// published.
var GroupVersion = schema.GroupVersion{Group: hooksv1.GroupVersion().Group, Version: "v1alpha2"}

// BeforeClusterUpgradeRequest has one list of steps and a new field, Reason.
type BeforeClusterUpgradeRequest struct {
	metav1.TypeMeta       `json:",inline"`
	hooksv1.CommonRequest `json:",inline"`

	Cluster clusterv1.Cluster `json:"cluster"`
	From    string            `json:"from"`
	To      string            `json:"to"`
	Steps   []Step            `json:"steps,omitempty"`
	Reason  string            `json:"reason,omitempty"`
}

// Step is one version and the parts of the cluster that are upgraded to it.
type Step struct {
	Version      string `json:"version"`
	ControlPlane bool   `json:"controlPlane,omitempty"`
	Workers      bool   `json:"workers,omitempty"`
}

// BeforeClusterUpgradeResponse has two new fields: one that may be missing and
// one with a default.
type BeforeClusterUpgradeResponse struct {
	metav1.TypeMeta             `json:",inline"`
	hooksv1.CommonRetryResponse `json:",inline"`

	Percent *int32 `json:"percent,omitempty"`
	Stage   string `json:"stage"`
}

// StageUnknown is the default of Stage.
const StageUnknown = "Unknown"

// BeforeClusterUpgrade is the hook of the types above.
func BeforeClusterUpgrade(*BeforeClusterUpgradeRequest, *BeforeClusterUpgradeResponse) {}

// DeepCopyObject implements runtime.Object.
func (r *BeforeClusterUpgradeRequest) DeepCopyObject() runtime.Object {
	out := *r
	out.CommonRequest = *r.CommonRequest.DeepCopy()
	out.Cluster = *r.Cluster.DeepCopy()
	out.Steps = slices.Clone(r.Steps)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (r *BeforeClusterUpgradeResponse) DeepCopyObject() runtime.Object {
	out := *r
	if r.Percent != nil {
		out.Percent = new(*r.Percent)
	}
	return &out
}

// Version is the hook for a catalog that has the published ones.
func Version() catalog.Version {
	return catalog.Version{
		GroupVersion: GroupVersion,
		Hooks:        []catalog.Hook{{Func: BeforeClusterUpgrade, Summary: "Called before an upgrade.", Tags: []string{catalog.TagLifecycle}}},
		Conversions:  []catalog.Conversion{catalog.Convert(BeforeClusterUpgrade, hooksv1.BeforeClusterUpgrade, Down, Up)},
	}
}

// Down leaves out Reason, for which v1alpha1 has no field.
func Down(from *BeforeClusterUpgradeRequest, to *hooksv1.BeforeClusterUpgradeRequest) error {
	to.Cluster = from.Cluster
	to.FromKubernetesVersion, to.ToKubernetesVersion = from.From, from.To
	for _, s := range from.Steps {
		if s.ControlPlane {
			to.ControlPlaneUpgrades = append(to.ControlPlaneUpgrades, hooksv1.UpgradeStepInfo{Version: s.Version})
		}
		if s.Workers {
			to.WorkersUpgrades = append(to.WorkersUpgrades, hooksv1.UpgradeStepInfo{Version: s.Version})
		}
	}
	return nil
}

// Up gives Stage its default. A negative pause, which no extension should return, is an
// error, so that tests have one.
func Up(from *hooksv1.BeforeClusterUpgradeResponse, to *BeforeClusterUpgradeResponse) error {
	if from.RetryAfterSeconds < 0 {
		return fmt.Errorf("retryAfterSeconds is %d", from.RetryAfterSeconds)
	}
	to.Stage = StageUnknown
	return nil
}
