// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestZeroIsMeantOnlyIfItWasThereBefore(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		v    int32
		kept *int32
		want *int32
	}{
		"zero, nothing kept":   {0, nil, nil},
		"zero, zero kept":      {0, new(int32(0)), new(int32(0))},
		"zero, another kept":   {0, new(int32(7)), nil},
		"a value wins":         {3, new(int32(7)), new(int32(3))},
		"a value, nothing yet": {3, nil, new(int32(3))},
	}
	for name, tc := range tests {
		if diff := cmp.Diff(tc.want, Meant(tc.v, tc.kept)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := Meant(false, new(false)); got == nil || *got {
		t.Errorf("false that was kept is %v", got)
	}
	if got := Meant(false, new(true)); got != nil {
		t.Errorf("false where true was kept is %v, want nothing", *got)
	}
}

func TestDurationsAreWholeSeconds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		d    time.Duration
		want int32
		back string
	}{
		"minutes":       {10 * time.Minute, 600, "10m0s"},
		"fraction":      {1999 * time.Millisecond, 1, "1s"},
		"negative":      {-1999 * time.Millisecond, -1, "-1s"},
		"below one":     {time.Millisecond, 0, "0s"},
		"very long":     {math.MaxInt64, math.MaxInt32, "596523h14m7s"},
		"very negative": {math.MinInt64, math.MinInt32, "-596523h14m8s"},
	}
	for name, tc := range tests {
		got := Seconds(&metav1.Duration{Duration: tc.d})
		if *got != tc.want || *SecondsOf(metav1.Duration{Duration: tc.d}) != tc.want {
			t.Errorf("%s: %d seconds, want %d", name, *got, tc.want)
		}
		if back := Duration(got).Duration.String(); back != tc.back {
			t.Errorf("%s: comes back as %s, want %s", name, back, tc.back)
		}
	}
	if Seconds(nil) != nil || Duration(nil) != nil || DurationOf(nil).Duration != 0 {
		t.Error("no duration is not nothing, or not zero as a value")
	}
}

func TestNilAndEmptyAreDistinguished(t *testing.T) {
	t.Parallel()
	digit := func(from *int, to *string) { *to = strconv.Itoa(*from) }
	if List[int](nil, digit) != nil {
		t.Error("no list became one")
	}
	if got := List([]int{}, digit); got == nil {
		t.Error("an empty list vanished")
	}
	if got := Rebuilt([]int{}, digit); got != nil {
		t.Errorf("an empty list is %v after it is rebuilt, want none", got)
	}
	if diff := cmp.Diff([]string{"1", "2"}, List([]int{1, 2}, digit)); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if IsZero(clusterv1.NetworkRanges{CIDRBlocks: []string{}}) || !IsZero(clusterv1.NetworkRanges{}) {
		t.Error("an empty list in a struct must make the struct count, and nothing else")
	}
	if Pointer("") != nil || *Pointer("a") != "a" || Value[string](nil) != "" {
		t.Error("an empty string is no pointer")
	}
	if Time(&metav1.Time{}) != (metav1.Time{}) || TimePointer(metav1.Time{}) != nil || Time(nil) != (metav1.Time{}) {
		t.Error("a zero time is no time")
	}
	if At([]int{5}, 0) != 5 || At([]int{5}, 1) != 0 || At[int](nil, 0) != 0 {
		t.Error("an index beyond a list is not zero")
	}
	if got := Find([]int{5, 6}, func(i *int) bool { return *i > 5 }); got != 6 {
		t.Errorf("found %d, want 6", got)
	}
}

func TestTryListStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	var tried []int
	_, err := TryList([]int{1, 2, 3}, func(from *int, _ *int) error {
		tried = append(tried, *from)
		if *from == 2 {
			return errors.New("two")
		}
		return nil
	})
	if err == nil || len(tried) != 2 {
		t.Errorf("tried %v, error %v", tried, err)
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	whole := &corev1.ObjectReference{APIVersion: "infra.io/v1", Kind: "Host", Name: "h", Namespace: "elsewhere", UID: "1"}
	up, err := ReferenceUp("spec.ref", whole)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(clusterv1.ContractVersionedObjectReference{APIGroup: "infra.io", Kind: "Host", Name: "h"}, up); diff != "" {
		t.Errorf("up (-want +got):\n%s", diff)
	}
	down, err := ReferenceDown("spec.ref", up, "ns", func(gk schema.GroupKind) (string, error) { return gk.Group + "/v2", nil })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&corev1.ObjectReference{APIVersion: "infra.io/v2", Kind: "Host", Name: "h", Namespace: "ns"}, down); diff != "" {
		t.Errorf("down (-want +got):\n%s", diff)
	}
	if none, err := ReferenceDown("spec.ref", clusterv1.ContractVersionedObjectReference{}, "ns", nil); none != nil || err != nil {
		t.Errorf("no reference became %v, %v", none, err)
	}
	if none, err := ReferenceUp("spec.ref", nil); none.IsDefined() || err != nil {
		t.Errorf("no reference became %v, %v", none, err)
	}
}

func TestReferencesThatCannotBeConvertedAreNamed(t *testing.T) {
	t.Parallel()
	_, err := ReferenceUp("spec.ref", &corev1.ObjectReference{APIVersion: "a/b/c"})
	if want := "spec.ref.apiVersion: unexpected GroupVersion string: a/b/c"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = ReferenceDown("spec.ref", clusterv1.ContractVersionedObjectReference{Name: "x"}, "ns", func(schema.GroupKind) (string, error) {
		return "", errors.New("no label")
	})
	if want := "spec.ref: no label"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
