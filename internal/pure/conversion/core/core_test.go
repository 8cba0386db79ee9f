// SPDX-License-Identifier: Apache-2.0

package core

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/builder/conversiontests"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// all are the conversions of all groups of the core provider.
func all() []rules.Kind { return slices.Concat(Kinds(), AddonKinds(), RuntimeKinds(), IPAMKinds()) }

func TestTheHubComesBackWhole(t *testing.T) {
	t.Parallel()
	conversiontests.HubComesBack(t, all(), func(kind string, hub map[string]any) {
		settle(hub)
		switch kind {
		case "IPAddress":
			missing(child(hub, "spec"), "prefix", 0)
		case "MachineSet", "MachineDeployment", "MachinePool":
			// Their v1beta1 counters cannot be absent, and neither can status.replicas.
			status := child(hub, "status")
			missing(status, "replicas", 0)
			deprecated := child(child(status, "deprecated"), "v1beta1")
			for _, counter := range []string{"fullyLabeledReplicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"} {
				missing(deprecated, counter, 0)
			}
		}
		if kind == "MachineSet" { // has no annotation, so that 0 seconds become none
			delete(child(child(child(hub, "spec"), "template"), "spec"), "minReadySeconds")
		}
	})
}

// settle sets fields that are required in a hub, or cannot be absent in v1beta1.
func settle(v any) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			settle(element)
		}
	case map[string]any:
		for name, inner := range v {
			settle(inner)
			elements, _ := inner.([]any)
			for _, element := range elements {
				element, ok := element.(map[string]any)
				switch {
				case !ok:
				case name == "variables" || name == "definitions":
					missing(element, "required", false)
				case name == "failureDomains":
					missing(element, "controlPlane", false)
				case name == "resources":
					missing(element, "applied", false)
				case strings.HasPrefix(name, "unhealthy"):
					missing(element, "timeoutSeconds", 0)
				}
			}
		}
	}
}

func missing(obj map[string]any, field string, value any) {
	if obj[field] == nil {
		obj[field] = value
	}
}

// child is the object in a field, made if it is missing.
func child(obj map[string]any, field string) map[string]any {
	if obj[field] == nil {
		obj[field] = map[string]any{}
	}
	return obj[field].(map[string]any)
}

func TestAnOldSourceStaysAsItIs(t *testing.T) {
	t.Parallel()
	conversiontests.OldSourceStays(t, all())
}

func TestBareObjects(t *testing.T) {
	t.Parallel()
	conversiontests.BareObjects(t, Kinds()) // package kit/conversion adds the metadata of others
}

func TestGoldenPairs(t *testing.T) {
	t.Parallel()
	conversiontests.Golden(t, all(), "../../../../api/testdata/golden")
}

func TestAReferenceThatIsNotFoundIsNamed(t *testing.T) {
	t.Parallel()
	k := machine()
	hub := k.NewHub()
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"m","namespace":"ns"},"spec":{"infrastructureRef":{"apiGroup":"a.io","kind":"Host","name":"h"}}}`), hub); err != nil {
		t.Fatal(err)
	}
	got, err := k.Down(hub, func(gk schema.GroupKind) (string, error) {
		return "", errors.New("no contract label on " + gk.String())
	})
	want := "convert Machine ns/m to cluster.x-k8s.io/v1beta1: spec.infrastructureRef: no contract label on Host.a.io"
	if got != nil || err == nil || err.Error() != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
}

// TestWriteOfReadObjectChangesNothing: fields that an old version lacks may be lost with
// the first write, but a manifest that is applied twice causes no new generation.
func TestWriteOfReadObjectChangesNothing(t *testing.T) {
	t.Parallel()
	for _, k := range all() {
		t.Run(k.Old.Version+" "+k.Old.Kind, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(40) {
				hub := encoded(t, conversiontests.NewMaker(seed).Object(reflect.TypeOf(k.NewHub()).Elem(), k.Hub), k.NewHub())
				stored := through(t, k, hub, true)
				if stored.(metav1.Object).GetAnnotations()[rules.DataAnnotation] != "" {
					t.Fatalf("seed %d: the annotation would be stored", seed)
				}
				again := through(t, k, stored, true)
				if diff := cmp.Diff(stored, again); diff != "" {
					t.Fatalf("seed %d (-first +second):\n%s", seed, diff)
				}
			}
		})
	}
}
