// SPDX-License-Identifier: Apache-2.0

package listing_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/listing"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

func configMap(name, data string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"in": name}}, Data: map[string]string{"x": data}}
}

// page lists ConfigMaps of the namespace default.
func page(t *testing.T, all *objects.Store, o *internalversion.ListOptions) ([]string, metav1.ListMeta, error) {
	t.Helper()
	sel, err := listing.Select(kindOf(t, "configmaps"), "default", "", o)
	if err != nil {
		t.Fatal(err)
	}
	entries, meta, err := sel.Page(all.Entries(), o)
	return keys(entries), meta, err
}

func version(all *objects.Store) string { return strconv.FormatUint(all.Entries().Version(), 10) }

func TestPageCountsWhatRemains(t *testing.T) {
	t.Parallel()
	all := open(t, configMap("a", ""), configMap("b", ""), configMap("c", ""), configMap("d", ""))
	for name, tc := range map[string]struct {
		limit     int64
		byLabel   string
		want      []string
		continues bool
		remains   *int64
	}{
		"no limit":                          {want: []string{"default/a", "default/b", "default/c", "default/d"}},
		"the number of objects":             {limit: 4, want: []string{"default/a", "default/b", "default/c", "default/d"}},
		"one less":                          {limit: 3, want: []string{"default/a", "default/b", "default/c"}, continues: true, remains: new(int64(1))},
		"one":                               {limit: 1, want: []string{"default/a"}, continues: true, remains: new(int64(3))},
		"selected, the rest is not counted": {limit: 1, byLabel: "in notin (a)", want: []string{"default/b"}, continues: true},
		"selected, the last one":            {limit: 1, byLabel: "in=d", want: []string{"default/d"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, tc.byLabel, "")
			o.Limit = tc.limit
			got, meta, err := page(t, all, o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || (meta.Continue != "") != tc.continues || meta.ResourceVersion != version(all) {
				t.Errorf("list %+v (-want +got):\n%s", meta, diff)
			}
			if diff := cmp.Diff(tc.remains, meta.RemainingItemCount); diff != "" {
				t.Errorf("remaining (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPagesReachEachObjectOnce(t *testing.T) {
	t.Parallel()
	all := open(t)
	var want []string
	for _, namespace := range []string{"a", "a-b", "a0"} { // a slash is after the minus sign and before digits
		if err := all.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			cm := configMap(fmt.Sprintf("x%d", i), "")
			cm.Namespace, cm.Labels = namespace, map[string]string{"paged": "yes"}
			if err := all.Add(cm); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, namespace := range []string{"a-b", "a", "a0"} {
		want = append(want, namespace+"/x0", namespace+"/x1", namespace+"/x2")
	}
	for limit := range int64(5) {
		o := options(t, "paged", "")
		sel, err := listing.Select(kindOf(t, "configmaps"), "", "", o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range len(want) + 1 {
			o.Limit = limit + 1
			entries, meta, err := sel.Page(all.Entries(), o)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, keys(entries)...)
			if o.Continue = meta.Continue; o.Continue == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit+1, diff)
		}
	}
}

// The rows are those of the table of resource versions in the documentation of Kubernetes.
func TestPageShowsTheRequestedVersion(t *testing.T) {
	t.Parallel()
	all := open(t, configMap("a", ""), configMap("b", ""))
	before := version(all)
	if err := all.Add(configMap("c", "")); err != nil {
		t.Fatal(err)
	}
	const exact, notOlder = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
	old, latest := []string{"default/a", "default/b"}, []string{"default/a", "default/b", "default/c"}
	for name, tc := range map[string]struct {
		version string
		match   metav1.ResourceVersionMatch
		limit   int64
		want    []string
		at      string
	}{
		"none":                       {want: latest, at: version(all)},
		"any":                        {version: "0", want: latest, at: version(all)},
		"any, in pages":              {version: "0", limit: 9, want: latest, at: version(all)},
		"an old one":                 {version: before, want: latest, at: version(all)},
		"an old one, in pages":       {version: before, limit: 9, want: old, at: before},
		"exactly an old one":         {version: before, match: exact, want: old, at: before},
		"exactly the latest":         {version: version(all), match: exact, want: latest, at: version(all)},
		"not older":                  {version: before, match: notOlder, want: latest, at: version(all)},
		"not older, in pages":        {version: before, match: notOlder, limit: 9, want: latest, at: version(all)},
		"not older than any version": {version: "0", match: notOlder, want: latest, at: version(all)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, meta, err := page(t, all, &internalversion.ListOptions{ResourceVersion: tc.version, ResourceVersionMatch: tc.match, Limit: tc.limit})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || meta.ResourceVersion != tc.at {
				t.Errorf("at version %s, want %s (-want +got):\n%s", meta.ResourceVersion, tc.at, diff)
			}
		})
	}
}

func TestPageRefusesVersionsAndTokens(t *testing.T) {
	t.Parallel()
	all := open(t, configMap("a", ""), configMap("b", ""))
	token := func(key string, at int64) string {
		text, err := storage.EncodeContinue("/"+key, "/", at)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, tc := range map[string]struct {
		options internalversion.ListOptions
		code    int32
		message string
	}{
		"no number":             {internalversion.ListOptions{ResourceVersion: "x"}, http.StatusBadRequest, "invalid resource version"},
		"a negative number":     {internalversion.ListOptions{ResourceVersion: "-1"}, http.StatusBadRequest, "invalid resource version"},
		"a later version":       {internalversion.ListOptions{ResourceVersion: "999"}, http.StatusGatewayTimeout, "Too large resource version: 999"},
		"exactly a later one":   {internalversion.ListOptions{ResourceVersion: "999", ResourceVersionMatch: metav1.ResourceVersionMatchExact}, http.StatusGatewayTimeout, "Too large resource version: 999"},
		"the largest number":    {internalversion.ListOptions{ResourceVersion: "18446744073709551615", ResourceVersionMatch: metav1.ResourceVersionMatchExact}, http.StatusGatewayTimeout, "Too large"},
		"no token":              {internalversion.ListOptions{Continue: "?"}, http.StatusBadRequest, "invalid continue token"},
		"a token of no version": {internalversion.ListOptions{Continue: token("default/a", 0)}, http.StatusBadRequest, "invalid continue token"},
		"a token with steps":    {internalversion.ListOptions{Continue: token("default/../kube-system/a", 1)}, http.StatusBadRequest, "invalid continue token"},
		"a token and a version": {internalversion.ListOptions{Continue: token("default/a", 1), ResourceVersion: "1"}, http.StatusBadRequest, "specifying resource version is not allowed when using continue"},
		"a token of the future": {internalversion.ListOptions{Continue: token("default/a", 999)}, http.StatusGone, "The provided continue parameter is too old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := page(t, all, &tc.options)
			status, ok := errors.AsType[*apierrors.StatusError](err)
			if !ok || status.Status().Code != tc.code || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("got %v, error %v, want code %d and %q", got, err, tc.code, tc.message)
			}
		})
	}
}

func TestPagesShowOneVersionUntilItIsForgotten(t *testing.T) {
	t.Parallel()
	all := open(t, configMap("a", ""), configMap("b", ""), configMap("d", ""), configMap("e", ""))
	first, start, err := page(t, all, &internalversion.ListOptions{Limit: 2})
	if diff := cmp.Diff([]string{"default/a", "default/b"}, first); diff != "" || err != nil {
		t.Fatalf("error %v (-want +got):\n%s", err, diff)
	}
	if err := all.Add(configMap("c", "")); err != nil {
		t.Fatal(err)
	}
	if err := all.Remove(corev1.SchemeGroupVersion.WithResource("configmaps"), "default", "d"); err != nil {
		t.Fatal(err)
	}
	second, meta, err := page(t, all, &internalversion.ListOptions{Limit: 2, Continue: start.Continue})
	if diff := cmp.Diff([]string{"default/d", "default/e"}, second); diff != "" || err != nil || meta.ResourceVersion != start.ResourceVersion || meta.Continue != "" {
		t.Errorf("second page %+v, error %v (-want +got):\n%s", meta, err, diff)
	}

	for _, letter := range []string{"x", "y"} { // more than the log holds
		if err := all.Ensure(configMap("b", strings.Repeat(letter, 400<<10))); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err = page(t, all, &internalversion.ListOptions{Limit: 2, Continue: start.Continue})
	expired, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsResourceExpired(err) || expired.ErrStatus.Code != http.StatusGone {
		t.Fatalf("an old page: %v, want that it has expired", err)
	}
	rest, meta, err := page(t, all, &internalversion.ListOptions{Continue: expired.ErrStatus.ListMeta.Continue})
	if diff := cmp.Diff([]string{"default/c", "default/e"}, rest); diff != "" || err != nil || meta.ResourceVersion != version(all) {
		t.Errorf("the rest of an old list %+v, error %v (-want +got):\n%s", meta, err, diff)
	}
	_, _, err = page(t, all, &internalversion.ListOptions{ResourceVersion: start.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if !apierrors.IsResourceExpired(err) || err.Error() != "The resourceVersion for the provided list is too old." {
		t.Errorf("an old version: %v", err)
	}
}
