// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/catalog/testdata/v1alpha2"
	"github.com/capstan-dev/capstan/extension/catalog/testdata/v1beta1"
)

func threeVersions(t *testing.T) *catalog.Catalog {
	t.Helper()
	c, err := catalog.New(v1beta1.Version(), catalog.V1Alpha1(), v1alpha2.Version())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func upgradeOf(version string) catalog.GroupVersionHook {
	return catalog.GroupVersionHook{Group: hooksv1.GroupVersion().Group, Version: version, Hook: "BeforeClusterUpgrade"}
}

func typeMeta(gv schema.GroupVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: gv.String(), Kind: kind}
}

func newestRequest() *v1beta1.BeforeClusterUpgradeRequest {
	return &v1beta1.BeforeClusterUpgradeRequest{
		TypeMeta:      typeMeta(v1beta1.GroupVersion, "BeforeClusterUpgradeRequest"),
		CommonRequest: hooksv1.CommonRequest{Settings: map[string]string{"region": "north"}},
		Cluster:       clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: map[string]string{"a": "b"}}},
		DryRun:        true,
		Plan: v1beta1.Plan{From: "v1.34.0", To: "v1.36.0", Reason: "asked", Steps: []v1alpha2.Step{
			{Version: "v1.35.0", ControlPlane: true},
			{Version: "v1.36.0", ControlPlane: true, Workers: true},
		}},
	}
}

func TestRequestsGoDownStepByStep(t *testing.T) {
	t.Parallel()
	c, cluster := threeVersions(t), newestRequest().Cluster
	tests := map[string]runtime.Object{
		"v1beta1": newestRequest(),
		"v1alpha2": &v1alpha2.BeforeClusterUpgradeRequest{ // has no field dryRun
			TypeMeta:      typeMeta(v1alpha2.GroupVersion, "BeforeClusterUpgradeRequest"),
			CommonRequest: hooksv1.CommonRequest{Settings: map[string]string{"region": "north"}},
			Cluster:       cluster, From: "v1.34.0", To: "v1.36.0", Reason: "asked",
			Steps: []v1alpha2.Step{{Version: "v1.35.0", ControlPlane: true}, {Version: "v1.36.0", ControlPlane: true, Workers: true}},
		},
		"v1alpha1": &hooksv1.BeforeClusterUpgradeRequest{ // has no field reason either
			TypeMeta:      typeMeta(hooksv1.GroupVersion(), "BeforeClusterUpgradeRequest"),
			CommonRequest: hooksv1.CommonRequest{Settings: map[string]string{"region": "north"}},
			Cluster:       cluster, FromKubernetesVersion: "v1.34.0", ToKubernetesVersion: "v1.36.0",
			ControlPlaneUpgrades: []hooksv1.UpgradeStepInfo{{Version: "v1.35.0"}, {Version: "v1.36.0"}},
			WorkersUpgrades:      []hooksv1.UpgradeStepInfo{{Version: "v1.36.0"}},
		},
	}
	for version, want := range tests {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			from := newestRequest()
			got, err := c.ConvertRequest(from, upgradeOf(version))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if same := got == runtime.Object(from); same != (version == "v1beta1") {
				t.Errorf("returned the request itself: %t", same)
			}
		})
	}
}

func TestAConvertedRequestSharesNothing(t *testing.T) {
	t.Parallel()
	from := newestRequest()
	got, err := threeVersions(t).ConvertRequest(from, upgradeOf("v1alpha1"))
	if err != nil {
		t.Fatal(err)
	}
	r := got.(*hooksv1.BeforeClusterUpgradeRequest)
	r.Settings["region"], r.Cluster.Labels["a"] = "south", "c"
	if diff := cmp.Diff(newestRequest(), from); diff != "" {
		t.Errorf("a change of the result changed the request:\n%s", diff)
	}
}

func TestResponsesComeUpStepByStep(t *testing.T) {
	t.Parallel()
	c := threeVersions(t)
	common := hooksv1.CommonRetryResponse{CommonResponse: hooksv1.CommonResponse{Status: hooksv1.ResponseStatusFailure, Message: "not yet"}, RetryAfterSeconds: 7}
	tests := map[string]struct {
		from, into, want hooksv1.ResponseObject
	}{
		"through the middle": {
			&hooksv1.BeforeClusterUpgradeResponse{CommonRetryResponse: common},
			&v1beta1.BeforeClusterUpgradeResponse{Owner: new("left over")},
			&v1beta1.BeforeClusterUpgradeResponse{TypeMeta: typeMeta(v1beta1.GroupVersion, "BeforeClusterUpgradeResponse"), CommonRetryResponse: common, Stage: v1alpha2.StageUnknown},
		},
		"one step": {
			&v1alpha2.BeforeClusterUpgradeResponse{CommonRetryResponse: common, Percent: new(int32(40)), Stage: "Asking"},
			&v1beta1.BeforeClusterUpgradeResponse{},
			&v1beta1.BeforeClusterUpgradeResponse{TypeMeta: typeMeta(v1beta1.GroupVersion, "BeforeClusterUpgradeResponse"), CommonRetryResponse: common, Percent: new(int32(40)), Stage: "Asking"},
		},
		"none": {
			&v1beta1.BeforeClusterUpgradeResponse{CommonRetryResponse: common, Owner: new("me")},
			&v1beta1.BeforeClusterUpgradeResponse{},
			&v1beta1.BeforeClusterUpgradeResponse{TypeMeta: typeMeta(v1beta1.GroupVersion, "BeforeClusterUpgradeResponse"), CommonRetryResponse: common, Owner: new("me")},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tc.from.DeepCopyObject()
			if err := c.ConvertResponse(tc.from, tc.into); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.into); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(before, runtime.Object(tc.from)); diff != "" {
				t.Errorf("what was converted changed:\n%s", diff)
			}
		})
	}
}

func TestConversionsFailWithHookAndVersions(t *testing.T) {
	t.Parallel()
	c := threeVersions(t)
	request := func(from runtime.Object, to catalog.GroupVersionHook) error {
		_, err := c.ConvertRequest(from, to)
		return err
	}
	create := upgradeOf("v1alpha1")
	create.Hook = "BeforeClusterCreate"
	tests := map[string]struct {
		err  error
		want string
	}{
		"the function returns an error": {
			c.ConvertResponse(&hooksv1.BeforeClusterUpgradeResponse{CommonRetryResponse: hooksv1.CommonRetryResponse{RetryAfterSeconds: -1}}, &v1beta1.BeforeClusterUpgradeResponse{}),
			"convert a response of BeforeClusterUpgrade from v1alpha1 to v1alpha2: retryAfterSeconds is -1",
		},
		"the function panics": {
			c.ConvertResponse(&v1alpha2.BeforeClusterUpgradeResponse{}, &v1beta1.BeforeClusterUpgradeResponse{}),
			"convert a response of BeforeClusterUpgrade from v1alpha2 to v1beta1: the conversion panicked: no stage",
		},
		"a request goes up": {
			request(&hooksv1.BeforeClusterUpgradeRequest{}, upgradeOf("v1alpha2")),
			"convert a request: hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterUpgrade is older than v1alpha2: requests go down, responses up",
		},
		"a response goes down": {
			c.ConvertResponse(&v1beta1.BeforeClusterUpgradeResponse{Stage: "x"}, &v1alpha2.BeforeClusterUpgradeResponse{}),
			"convert a response: hooks.runtime.cluster.x-k8s.io/v1alpha2/BeforeClusterUpgrade is older than v1beta1: requests go down, responses up",
		},
		"another hook": {
			request(&v1beta1.BeforeClusterUpgradeRequest{}, create),
			"convert a request: hooks.runtime.cluster.x-k8s.io/v1beta1/BeforeClusterUpgrade is another hook than hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate",
		},
		"a version that is not there": {
			request(&v1beta1.BeforeClusterUpgradeRequest{}, upgradeOf("v1alpha7")),
			"convert a request: hook BeforeClusterUpgrade of hooks.runtime.cluster.x-k8s.io has no version \"v1alpha7\", but v1beta1, v1alpha2, v1alpha1",
		},
		"a response as a request": {
			request(&v1beta1.BeforeClusterUpgradeResponse{}, upgradeOf("v1alpha1")),
			"convert a request to hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterUpgrade: *v1beta1.BeforeClusterUpgradeResponse is not in this catalog, or not on this side of a call",
		},
		"no request at all": {
			request(nil, upgradeOf("v1alpha1")),
			"convert a request to hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterUpgrade: <nil> holds no message",
		},
		"a nil response": {
			c.ConvertResponse(&hooksv1.BeforeClusterUpgradeResponse{}, (*v1beta1.BeforeClusterUpgradeResponse)(nil)),
			"convert a response of hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterUpgrade: *v1beta1.BeforeClusterUpgradeResponse holds no message",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.err == nil || tc.err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", tc.err, tc.want)
			}
		})
	}
}

func TestAFailedConversionLeavesTheResponseAsItWas(t *testing.T) {
	t.Parallel()
	into := &v1beta1.BeforeClusterUpgradeResponse{Stage: "before"}
	if err := threeVersions(t).ConvertResponse(&v1alpha2.BeforeClusterUpgradeResponse{}, into); err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(&v1beta1.BeforeClusterUpgradeResponse{Stage: "before"}, into); diff != "" {
		t.Error(diff)
	}
}

func TestTheErrorOfAConversionIsKept(t *testing.T) {
	t.Parallel()
	lost := errors.New("lost")
	newer := v1alpha2.Version()
	newer.Conversions = []catalog.Conversion{catalog.Convert(v1alpha2.BeforeClusterUpgrade, hooksv1.BeforeClusterUpgrade,
		func(*v1alpha2.BeforeClusterUpgradeRequest, *hooksv1.BeforeClusterUpgradeRequest) error { return lost }, v1alpha2.Up)}
	c, err := catalog.New(catalog.V1Alpha1(), newer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ConvertRequest(&v1alpha2.BeforeClusterUpgradeRequest{}, upgradeOf("v1alpha1")); !errors.Is(err, lost) {
		t.Errorf("got %v", err)
	}
}

func TestACatalogIsUsedByManyAtOnce(t *testing.T) {
	t.Parallel()
	c := threeVersions(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if _, err := c.ConvertRequest(newestRequest(), upgradeOf("v1alpha1")); err != nil {
					t.Error(err)
				}
				if err := c.ConvertResponse(&hooksv1.BeforeClusterUpgradeResponse{}, &v1beta1.BeforeClusterUpgradeResponse{}); err != nil {
					t.Error(err)
				}
				if _, err := c.Named("BeforeClusterUpgrade"); err != nil || len(c.Hooks()) != 19 {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestNewestVersionIsTheMostStable(t *testing.T) {
	t.Parallel()
	c := threeVersions(t)
	var got []string
	for _, d := range c.Versions(upgradeOf("").GroupHook()) {
		got = append(got, d.Version)
	}
	if diff := cmp.Diff([]string{"v1beta1", "v1alpha2", "v1alpha1"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if d, err := c.Named("BeforeClusterUpgrade"); err != nil || d.Version != "v1beta1" {
		t.Errorf("named: %s, %v", d, err)
	}
}
