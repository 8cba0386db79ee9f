// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/pure/chaos"
)

// arena is a management cluster with the cluster demo, of a control plane machine
// and a worker.
type arena struct {
	*testing.T
	run
	out, err bytes.Buffer
	dir      string
}

func newArena(t *testing.T, funcs interceptor.Funcs) *arena {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{&infrav1.LocalCluster{Spec: infrav1.LocalClusterSpec{Simulated: &infrav1.LocalClusterSimulated{}}}}
	for range 2 {
		objects = append(objects, &infrav1.LocalMachine{Spec: infrav1.LocalMachineSpec{Simulated: &infrav1.LocalMachineSimulated{}}})
	}
	for i, obj := range objects {
		obj.SetNamespace("ns")
		obj.SetName([]string{"demo", "cp", "w"}[i])
		obj.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "demo"})
	}
	objects[1].GetLabels()["cluster.x-k8s.io/control-plane"] = ""
	l := &arena{T: t, dir: t.TempDir()}
	env := &command.Env{Out: &l.out, Err: &l.err, In: strings.NewReader(""), Now: time.Now}
	l.run = run{runner: &runner{fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build(), env}}
	l.again = " --data-dir here"
	return l
}

// begin creates the record of a run.
func (l *arena) begin(seed uint64, last time.Duration) []chaos.Step {
	l.Helper()
	found, err := l.find(l.Context(), "ns", nil)
	if err != nil {
		l.Fatal(err)
	}
	l.header = header{Options: chaos.Options{Seed: seed, For: metav1.Duration{Duration: last}, Every: metav1.Duration{Duration: time.Second}}, Clusters: found}
	if l.to, err = newRecord(filepath.Join(l.dir, "of", "it.jsonl"), l.header); err != nil {
		l.Fatal(err)
	}
	return chaos.Plan(l.Options, found)
}

// faults are those that are set, by object.
func (l *arena) faults() map[string]string {
	l.Helper()
	clusters, machines, err := l.list(l.Context(), "")
	if err != nil {
		l.Fatal(err)
	}
	out := map[string]string{}
	for _, c := range clusters {
		if f := c.Spec.Simulated.Faults; len(f) > 0 {
			out[c.Name] = fmt.Sprint(f)
		}
	}
	for _, m := range machines {
		if f := m.Spec.Simulated.Faults; len(f) > 0 {
			out[m.Name] = fmt.Sprint(f)
		}
	}
	return out
}

func TestARunDoesWhatWasPlannedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newArena(t, interceptor.Funcs{})
		plan, began := l.begin(3, 30*time.Second), time.Now()
		if err := l.follow(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("took %s, want half a minute", took)
		}
		if got := l.faults(); len(got) != 0 || l.err.Len() > 0 {
			t.Errorf("left %v, said %s", got, &l.err)
		}
		var want strings.Builder
		for _, s := range plan {
			want.WriteString(told(s) + "\n")
		}
		if diff := cmp.Diff(want.String(), l.out.String()); diff != "" || len(plan) < 10 {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		var events eventsv1.EventList
		if err := l.mgmt.List(t.Context(), &events); err != nil || len(events.Items) != len(plan) {
			t.Errorf("got %d events, %v, want %d", len(events.Items), err, len(plan))
		}
		record := filepath.Join(l.dir, "of", "it.jsonl")
		text, err := os.ReadFile(record)
		if lines := bytes.Count(text, []byte("\n")); err != nil || lines != 1+len(plan) {
			t.Errorf("got a record of %d lines, %v, want one of %d", lines, err, 1+len(plan))
		}
		again, err := readHeader(record)
		if diff := cmp.Diff(plan, chaos.Plan(again.Options, again.Clusters)); err != nil || diff != "" {
			t.Errorf("%v, the same again (-want +got):\n%s", err, diff)
		}
	})
}

func TestWhatIsInterruptedIsTakenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unreachable := 0
		l := newArena(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if unreachable--; unreachable == 0 || unreachable == 1 {
				return errors.New("no route to host")
			}
			return c.List(ctx, list, opts...)
		}})
		plan := l.begin(3, time.Minute)
		ctx, interrupt := context.WithCancelCause(t.Context())
		time.AfterFunc(plan[2].At.Duration, func() { // in the middle of it
			unreachable = 3
			interrupt(command.Interrupted{Signal: syscall.SIGINT})
		})
		err := l.follow(ctx, plan)
		if _, ok := errors.AsType[command.Interrupted](err); !ok {
			t.Errorf("got %v, want the interruption", err)
		}
		if got := l.faults(); len(got) != 0 || !strings.Contains(l.err.String(), "Took back") {
			t.Errorf("left %v, said %s", got, &l.err)
		}
	})
}

func TestWhatCannotBeTakenBackIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := false
		l := newArena(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if down {
				return errors.New("no route to host")
			}
			return c.List(ctx, list, opts...)
		}})
		plan := l.begin(3, time.Minute)
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(plan[2].At.Duration, func() {
			down = true
			interrupt()
		})
		if err := l.follow(ctx, plan); err == nil || !strings.Contains(err.Error(), "no route to host: `capstan simulated chaos --stop --data-dir here` does it later") {
			t.Errorf("got %v, want what can be done", err)
		}
		down = false
		if len(l.faults()) == 0 {
			t.Fatal("nothing is left")
		}
		if n, err := l.takeBack(t.Context()); err != nil || n == 0 || len(l.faults()) != 0 {
			t.Errorf("took back %d, %v, left %v", n, err, l.faults())
		}
	})
}

func TestChaosRecordsImpossibleSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conflicts := 2
		l := newArena(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if obj.GetName() == "demo" {
				return errors.New("the webhook says no")
			}
			if conflicts--; conflicts >= 0 { // another client was faster
				other := obj.DeepCopyObject().(client.Object)
				other.SetResourceVersion("")
				other.SetAnnotations(map[string]string{"theirs": fmt.Sprint(conflicts)})
				if err := c.Update(ctx, other); err != nil {
					return err
				}
			}
			return c.Patch(ctx, obj, patch, opts...)
		}})
		l.begin(1, 20*time.Second)
		step := func(kind, name string) chaos.Step {
			return chaos.Step{Kind: kind, Namespace: "ns", Name: name, Fault: "APIServerHangs"}
		}
		err := l.follow(t.Context(), []chaos.Step{step("LocalMachine", "w"), step("LocalMachine", "missing"), step("LocalCluster", "demo")})
		if err != nil {
			t.Error(err)
		}
		want := `       0s  LocalMachine ns/w: APIServerHangs begins
       0s  LocalMachine ns/missing: APIServerHangs begins: it is gone
       0s  LocalCluster ns/demo: APIServerHangs begins: the webhook says no
`
		if diff := cmp.Diff(want, l.out.String()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if text, err := os.ReadFile(filepath.Join(l.dir, "of", "it.jsonl")); err != nil || !strings.Contains(string(text), `"outcome":"the webhook says no"`) {
			t.Errorf("got the record %s, %v", text, err)
		}
		if got := l.faults(); len(got) != 0 {
			t.Errorf("left %v", got)
		}
	})
}

func TestOnlySimulatedClustersAreFound(t *testing.T) {
	t.Parallel()
	l := newArena(t, interceptor.Funcs{})
	found := func(namespace string, names ...string) string {
		t.Helper()
		clusters, err := l.find(t.Context(), namespace, names)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(clusters)
	}
	const demo = "[{ns demo [{cp 0001-01-01 00:00:00 +0000 UTC true false} {w 0001-01-01 00:00:00 +0000 UTC false false}]}]"
	steps := map[string][2]string{
		"all":                  {found("ns"), demo},
		"by name":              {found("", "demo"), demo},
		"of another namespace": {found("other"), "[]"},
		"of another name":      {found("ns", "demo", "prod"), "cluster prod has no LocalCluster in namespace ns: things go wrong with simulated clusters alone"},
	}
	machine := &infrav1.LocalMachine{}
	if err := l.mgmt.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "w"}, machine); err != nil {
		t.Fatal(err)
	}
	machine.Spec.Simulated = nil
	if err := l.mgmt.Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	steps["of real machines"] = [2]string{found("ns"), "not simulated: LocalMachine ns/w: things go wrong with simulated clusters alone; choose those with --cluster"}
	for name, s := range steps {
		if s[0] != s[1] {
			t.Errorf("%s: got %s, want %s", name, s[0], s[1])
		}
	}
}
