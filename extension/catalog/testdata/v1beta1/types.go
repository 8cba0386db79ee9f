// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 is a third version of one hook, only for tests.
package v1beta1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/catalog/testdata/v1alpha2"
)

// GroupVersion is the group of the published hooks in a version that is not
// published.
var GroupVersion = schema.GroupVersion{Group: hooksv1.GroupVersion().Group, Version: "v1beta1"}

// BeforeClusterUpgradeRequest moves the versions into Plan.
type BeforeClusterUpgradeRequest struct {
	metav1.TypeMeta       `json:",inline"`
	hooksv1.CommonRequest `json:",inline"`

	Cluster clusterv1.Cluster `json:"cluster"`
	Plan    Plan              `json:"plan"`
	DryRun  bool              `json:"dryRun,omitempty"`
}

// Plan is where an upgrade leads, and how.
type Plan struct {
	From   string          `json:"from"`
	To     string          `json:"to"`
	Steps  []v1alpha2.Step `json:"steps,omitempty"`
	Reason string          `json:"reason,omitempty"`
}

// BeforeClusterUpgradeResponse has the new field Owner, which may be missing.
type BeforeClusterUpgradeResponse struct {
	metav1.TypeMeta             `json:",inline"`
	hooksv1.CommonRetryResponse `json:",inline"`

	Percent *int32  `json:"percent,omitempty"`
	Stage   string  `json:"stage"`
	Owner   *string `json:"owner,omitempty"`
}

// BeforeClusterUpgrade is the hook of the types above.
func BeforeClusterUpgrade(*BeforeClusterUpgradeRequest, *BeforeClusterUpgradeResponse) {}

// DeepCopyObject implements runtime.Object.
func (r *BeforeClusterUpgradeRequest) DeepCopyObject() runtime.Object {
	out := *r
	out.CommonRequest = *r.CommonRequest.DeepCopy()
	out.Cluster = *r.Cluster.DeepCopy()
	out.Plan.Steps = slices.Clone(r.Plan.Steps)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (r *BeforeClusterUpgradeResponse) DeepCopyObject() runtime.Object {
	out := *r
	if r.Percent != nil {
		out.Percent = new(*r.Percent)
	}
	if r.Owner != nil {
		out.Owner = new(*r.Owner)
	}
	return &out
}

// Version is the hook for a catalog that has v1alpha2.
func Version() catalog.Version {
	return catalog.Version{
		GroupVersion: GroupVersion,
		Hooks:        []catalog.Hook{{Func: BeforeClusterUpgrade, Summary: "Called before an upgrade.", Tags: []string{catalog.TagLifecycle}}},
		Conversions:  []catalog.Conversion{catalog.Convert(BeforeClusterUpgrade, v1alpha2.BeforeClusterUpgrade, Down, Up)},
	}
}

// Down leaves out DryRun.
func Down(from *BeforeClusterUpgradeRequest, to *v1alpha2.BeforeClusterUpgradeRequest) error {
	to.Cluster = from.Cluster
	to.From, to.To, to.Steps, to.Reason = from.Plan.From, from.Plan.To, from.Plan.Steps, from.Plan.Reason
	return nil
}

// Up leaves Owner out. Stage must be known, so that tests have a panic.
func Up(from *v1alpha2.BeforeClusterUpgradeResponse, to *BeforeClusterUpgradeResponse) error {
	if from.Stage == "" {
		panic("no stage")
	}
	to.Percent, to.Stage = from.Percent, from.Stage
	return nil
}
