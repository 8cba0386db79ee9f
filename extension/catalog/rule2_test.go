// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/catalog/testdata/v1alpha2"
)

// fill fills a message with random content that its sender may send.
func fill(seed int64, msg runtime.Object) {
	gvk := msg.GetObjectKind().GroupVersionKind()
	randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(m *metav1.FieldsV1, _ randfill.Continue) { m.Raw = []byte("{}") },
		func(r *runtime.RawExtension, _ randfill.Continue) { r.Raw = []byte(`{"a":"b"}`) },
		func(r *hooksv1.CommonRetryResponse, c randfill.Continue) {
			c.Fill(&r.CommonResponse)
			r.RetryAfterSeconds = int32(c.Uint32() >> 1)
		},
		func(r *v1alpha2.BeforeClusterUpgradeResponse, c randfill.Continue) {
			c.FillNoCustom(r)
			r.Stage = "S" + c.String(9)
		},
	).Fill(msg)
	msg.GetObjectKind().SetGroupVersionKind(gvk)
}

// rule2 sends random requests of the newest version of each hook down to all
// versions, and random responses of all versions up.
func rule2(c *catalog.Catalog, seed int64) error {
	var errs []error
	for _, d := range c.Hooks() {
		newest := c.Versions(d.GroupHook())[0]
		request, err := c.NewRequest(newest.GroupVersionHook)
		if err != nil {
			return err
		}
		fill(seed, request)
		before := request.DeepCopyObject()
		down, err := c.ConvertRequest(request, d.GroupVersionHook)
		if err == nil && down.GetObjectKind().GroupVersionKind() != d.Request {
			err = fmt.Errorf("a request of %s says it is %s", d, down.GetObjectKind().GroupVersionKind())
		}
		if diff := cmp.Diff(before, request); err == nil && diff != "" {
			err = fmt.Errorf("converting a request to %s changed it: %s", d, diff)
		}
		errs = append(errs, err)

		response, err := c.NewResponse(d.GroupVersionHook)
		if err != nil {
			return err
		}
		fill(seed, response)
		up, err := c.NewResponse(newest.GroupVersionHook)
		if err != nil {
			return err
		}
		err = c.ConvertResponse(response, up)
		if err == nil && (up.GetStatus() != response.GetStatus() || up.GetMessage() != response.GetMessage() || up.GetObjectKind().GroupVersionKind() != newest.Response) {
			err = fmt.Errorf("a response of %s lost its outcome on the way up", d)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func FuzzRequestsGoDownAndResponsesComeUp(f *testing.F) {
	for seed := range int64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		for _, c := range []*catalog.Catalog{catalog.Default(), threeVersions(t)} {
			if err := rule2(c, seed); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	})
}

func secondVersion(down func(*v1alpha2.BeforeClusterUpgradeRequest, *hooksv1.BeforeClusterUpgradeRequest) error) catalog.Version {
	v := v1alpha2.Version()
	v.Conversions = []catalog.Conversion{catalog.Convert(v1alpha2.BeforeClusterUpgrade, hooksv1.BeforeClusterUpgrade, down, v1alpha2.Up)}
	return v
}

// TestRule2FindsBadConversions shows that the check above can fail.
func TestRule2FindsBadConversions(t *testing.T) {
	t.Parallel()
	c, err := catalog.New(catalog.V1Alpha1(), secondVersion(func(from *v1alpha2.BeforeClusterUpgradeRequest, _ *hooksv1.BeforeClusterUpgradeRequest) error {
		if len(from.Steps) > 1 {
			return errors.New("too many steps")
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	var found error
	for seed := range int64(20) {
		found = errors.Join(found, rule2(c, seed))
	}
	if found == nil || !strings.Contains(found.Error(), "convert a request of BeforeClusterUpgrade from v1alpha2 to v1alpha1: too many steps") {
		t.Errorf("got %v", found)
	}
}
