// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/apply"
	"github.com/capstan-dev/capstan/internal/pure/ssadiff"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// world is a plane, a writer and its memory. It counts requests.
type world struct {
	*testing.T
	client.Client
	sent   int
	answer client.Object // to the last request
	clock  *testclock.FakePassiveClock
	writer *apply.Writer
	memory *apply.Memory
	env    *testenv.Env
}

func (w *world) Patch(ctx context.Context, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
	w.sent++
	w.answer = obj
	return w.Client.Patch(ctx, obj, p, opts...)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	env := testenv.Start(t)
	w := &world{T: t, Client: env.Client, clock: testclock.NewFakePassiveClock(time.Unix(0, 0)), memory: &apply.Memory{}, env: env}
	w.writer = &apply.Writer{Mgmt: w, Live: env.Client, Schemas: apply.NewSchemas(env.Client, env.Client), Manager: "capi-topology", Clock: w.clock}
	return w
}

// object returns an object n in the test's namespace.
func (w *world) object(kind, spec string) *unstructured.Unstructured {
	w.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind}}
	u.SetNamespace(w.env.Namespace)
	u.SetName("n")
	u.SetAnnotations(map[string]string{"cluster.x-k8s.io/paused": ""}) // for the plane's own controllers
	var s map[string]any
	if err := utiljson.Unmarshal([]byte(spec), &s); err != nil {
		w.Fatal(err)
	}
	u.Object["spec"] = s
	return u
}

// live returns the object on the server, nil if not found.
func (w *world) live(like *unstructured.Unstructured) *unstructured.Unstructured {
	w.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(like.GroupVersionKind())
	err := w.Get(w.Context(), client.ObjectKeyFromObject(like), u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return u
}

// others writes as another client.
func (w *world) others(like *unstructured.Unstructured, sub, patch string) {
	w.Helper()
	p, obj := client.RawPatch(types.MergePatchType, []byte(patch)), like.DeepCopy()
	var err error
	if sub != "" {
		err = w.Client.SubResource(sub).Patch(w.Context(), obj, p)
	} else {
		err = w.Client.Patch(w.Context(), obj, p, client.FieldOwner("them"))
	}
	if err != nil {
		w.Fatal(err)
	}
	w.settle(like)
}

// settle waits until the plane's own controller has reported that an object is
// paused, which is its only write.
func (w *world) settle(like *unstructured.Unstructured) {
	w.Helper()
	if like.GroupVersionKind().Group != clusterv1.GroupVersion().Group {
		return
	}
	testenv.Eventually(w, func() error {
		live := w.live(like)
		all, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
		for _, c := range all {
			if c := c.(map[string]any); c["type"] == clusterv1.PausedCondition && c["observedGeneration"] == live.GetGeneration() {
				return nil
			}
		}
		return fmt.Errorf("generation %d is not told to be paused: %v, %w", live.GetGeneration(), all, err)
	})
}

// writes calls the writer and checks the outcome.
func (w *world) writes(wanted *unstructured.Unstructured, did apply.Did, sent int) apply.Outcome {
	w.Helper()
	live := w.live(wanted)
	w.sent, w.answer = 0, live
	out, err := w.writer.Write(w.Context(), wanted, live, w.memory)
	if err != nil {
		w.Fatal(err)
	}
	if out.Did != did || w.sent != sent {
		w.Fatalf("did %q (%s) by %d requests, want %q by %d", out.Did, out.Reason, w.sent, did, sent)
	}
	if version := w.answer.GetResourceVersion(); version != out.Object.GetResourceVersion() {
		w.Fatalf("says version %s, it was %s", out.Object.GetResourceVersion(), version)
	}
	w.settle(wanted)
	return out
}

const check = `{"clusterName":"c","selector":{"matchLabels":{"a":"b"}},"checks":{"nodeStartupTimeoutSeconds":%d}}`

func TestOnlyWhatDiffersIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wanted := w.object("MachineHealthCheck", fmt.Sprintf(check, 600))
	w.writes(wanted, apply.Created, 1)
	w.writes(wanted, apply.Nothing, 0)
	w.memory = &apply.Memory{} // a restart
	w.writes(wanted, apply.Nothing, 0)
	w.others(wanted, "status", `{"status":{"expectedMachines":3}}`)
	w.others(wanted, "", `{"metadata":{"labels":{"theirs":"1"}},"spec":{"remediation":{"triggerIf":{"unhealthyLessThanOrEqualTo":2}}}}`)
	w.writes(wanted, apply.Nothing, 0)
	w.others(wanted, "", `{"spec":{"checks":{"nodeStartupTimeoutSeconds":700}}}`)
	if out := w.writes(wanted, apply.Applied, 1); out.Reason != ssadiff.Ownership {
		t.Errorf("reason %q: it was taken from us", out.Reason)
	}
	wanted = w.object("MachineHealthCheck", fmt.Sprintf(check, 800))
	if out := w.writes(wanted, apply.Applied, 1); out.Reason != ssadiff.Values {
		t.Errorf("reason %q: we want another value", out.Reason)
	}
	w.writes(wanted, apply.Nothing, 0)
	if got := w.live(wanted).GetLabels()["theirs"]; got != "1" {
		t.Error("a label of others has gone")
	}
}

func TestApplyRemovesReleasedFieldsUnlessOwnedByOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wanted := w.object("MachineHealthCheck", fmt.Sprintf(check, 600))
	wanted.SetLabels(map[string]string{"a": "1", "b": "1"})
	w.writes(wanted, apply.Created, 1)
	w.others(wanted, "", `{"metadata":{"labels":{"a":"1","b":"2"}}}`)
	w.others(wanted, "", `{"metadata":{"labels":{"b":"1"}}}`) // owned by the other client, though the value is the desired one
	w.writes(wanted, apply.Applied, 1)
	wanted.SetLabels(map[string]string{})
	for n, did := range []apply.Did{apply.Applied, apply.Nothing} {
		out := w.writes(wanted, did, 1-n)
		if len(out.Remains) != 1 || out.Remains[0].By != "them/Update" || out.Remains[0].Path.String() != ".metadata.labels.b" {
			t.Errorf("remains %v, want label b, held by others", out.Remains)
		}
	}
	got := w.live(wanted).GetLabels()
	if _, left := got["a"]; left || got["b"] != "1" {
		t.Errorf("labels %s, want b alone of both", got)
	}
}

func TestApplyDoesNotChangeUnrelatedObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wanted := w.object("MachineHealthCheck", fmt.Sprintf(check, 600))
	if err := w.Create(t.Context(), wanted.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	w.settle(wanted)
	before := w.live(wanted)
	if _, err := w.writer.Write(t.Context(), wanted, nil, w.memory); !apierrors.IsConflict(err) {
		t.Errorf("created where there is one: %v, want a conflict", err)
	}
	gone := before.DeepCopy()
	gone.SetUID("another")
	if _, err := w.writer.Write(t.Context(), wanted, gone, w.memory); !apierrors.IsConflict(err) {
		t.Errorf("applied to another of the name: %v, want a conflict", err)
	}
	if now := w.live(wanted); now.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("it was written")
	}
}

func TestApplyRewritesLostManagedFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wanted := w.object("MachineHealthCheck", fmt.Sprintf(check, 600))
	wanted.SetLabels(map[string]string{"a": "1"})
	w.writes(wanted, apply.Created, 1)
	w.others(wanted, "", `{"metadata":{"managedFields":[{}]}}`)
	w.writes(wanted, apply.Seeded, 1)
	w.writes(wanted, apply.Nothing, 0)
	w.others(wanted, "", `{"metadata":{"managedFields":[{}]}}`)
	wanted.Object["spec"].(map[string]any)["checks"] = map[string]any{"nodeStartupTimeoutSeconds": int64(1000)}
	w.writes(wanted, apply.Seeded, 2)
	wanted.SetLabels(nil)
	w.writes(wanted, apply.Applied, 1)
	if got := w.live(wanted).GetLabels(); got["a"] != "" {
		t.Errorf("labels %v: ours could not go", got)
	}
}

// unversioned is a MachineDeployment whose version lacks its v, which a webhook puts
// there.
const unversioned = `{"clusterName":"c","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"clusterName":"c","version":"1.33.1",
	"bootstrap":{"configRef":{"apiGroup":"example.com","kind":"ConfigTemplate","name":"x"}},"infrastructureRef":{"apiGroup":"example.com","kind":"HostTemplate","name":"x"}}}}`

func TestWhatAWebhookChangesIsAppliedTwiceAtMost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wanted := w.object("MachineDeployment", unversioned)
	w.writes(wanted, apply.Created, 2)
	w.writes(wanted, apply.Nothing, 0)
	w.others(wanted, "status", `{"status":{"replicas":0}}`)
	w.writes(wanted, apply.Nothing, 0)
	w.clock.SetTime(time.Unix(0, 0).Add(time.Hour)) // the webhook may have changed by now
	w.writes(wanted, apply.Applied, 2)
	w.writes(wanted, apply.Nothing, 0)
}

// TestWhetherASpecIsKeptIsTheSameWithAMemory, and without one.
func TestWhetherASpecIsKeptIsTheSameWithAMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keeps := func(wanted *unstructured.Unstructured, want bool) {
		t.Helper()
		for what, m := range map[string]*apply.Memory{"with": w.memory, "without": {}} {
			got, err := w.writer.SpecUnchanged(t.Context(), wanted, w.live(wanted), m)
			if err != nil || got != want {
				t.Errorf("%s a memory: keeps %v, %v, want %v", what, got, err, want)
			}
		}
	}
	wanted := w.object("MachineHealthCheck", fmt.Sprintf(check, 600))
	w.writes(wanted, apply.Created, 1)
	keeps(wanted, true)
	w.others(wanted, "", `{"spec":{"checks":{"nodeStartupTimeoutSeconds":700}}}`)
	keeps(wanted, false)
	w.writes(wanted, apply.Applied, 1)
	keeps(wanted, true)
	keeps(w.object("MachineHealthCheck", fmt.Sprintf(check, 800)), false)
	changed := w.object("MachineDeployment", unversioned)
	w.writes(changed, apply.Created, 2)
	keeps(changed, false)
}

// TestAnEmptyMapIsWrittenByASecondApply removes the last item of a map: the server
// removes the whole map at first.
func TestAnEmptyMapIsWrittenByASecondApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	group := w.env.Namespace + ".example.com"
	w.env.Define(t, testenv.Kind(group, "Widget"))
	wanted := w.object("Widget", `{"map":{"a":"1"},"kept":1}`)
	wanted.SetAPIVersion(group + "/v1")
	testenv.Eventually(t, func() error {
		return client.IgnoreNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(wanted), wanted.DeepCopy()))
	})
	w.writes(wanted, apply.Created, 1)
	wanted.Object["spec"] = map[string]any{"map": map[string]any{}, "kept": int64(1)}
	w.writes(wanted, apply.Applied, 2)
	w.writes(wanted, apply.Nothing, 0)
	if got := fmt.Sprint(w.live(wanted).Object["spec"]); got != "map[kept:1 map:map[]]" {
		t.Errorf("spec %s", got)
	}
}

func TestARefusalIsRememberedForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := w.object("MachineHealthCheck", fmt.Sprintf(check, -1))
	refused := func(sent int, want string) {
		t.Helper()
		w.sent = 0
		_, err := w.writer.Write(t.Context(), bad, w.live(bad), w.memory)
		if err == nil || !strings.Contains(err.Error(), want) || w.sent != sent {
			t.Fatalf("got %v by %d requests, want %q by %d", err, w.sent, want, sent)
		}
	}
	const why = "spec.checks.nodeStartupTimeoutSeconds"
	refused(1, why)
	refused(0, why)
	w.clock.SetTime(time.Unix(0, 0).Add(time.Minute))
	refused(1, why)
	good := w.object("MachineHealthCheck", fmt.Sprintf(check, 600))
	w.writes(good, apply.Created, 1)
	refused(1, why)
	refused(0, why)
	w.others(good, "", `{"metadata":{"labels":{"theirs":"1"}}}`)
	refused(1, why)
	bad = w.object("MachineHealthCheck", `{"noSuchField":1}`)
	refused(0, "apply MachineHealthCheck "+w.env.Namespace+"/n: the desired object does not match the schema of MachineHealthCheck")
}
