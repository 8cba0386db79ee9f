// SPDX-License-Identifier: Apache-2.0

// Package sim lets the real controllers run an in-memory world to rest, in
// virtual time, and writes down what happens as a story that a reviewer reads.
//
// The management cluster is a fake client; every reconciler is called for every
// object, in a fixed order, until a round changes nothing. There are no
// informers and no queues, hence no races. Machines are the simulated ones of
// the local provider. Owners are garbage-collected as Kubernetes does; CRD
// validation and admission are not imitated: the server tests show those.
package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
)

// maxRounds is how long a world may take to come to rest; a change rarely
// needs more than twenty rounds.
const maxRounds = 300

// World is a management cluster with its controllers.
type World struct {
	Mgmt  client.Client
	Clock *testclock.FakeClock

	t           testing.TB
	controllers []entry
	kinds       []client.ObjectList // all kinds, for garbage collection
	settled     func() bool         // whether the outside has nothing more to say
	writes      int
	named       map[string]int
	story       strings.Builder
}

// entry is one controller.
type entry struct {
	controllers.Controller
	step controller.Stepped
}

// newWorld makes an empty world with the given kinds.
func newWorld(t testing.TB, scheme *runtime.Scheme, kinds []client.ObjectList, objects []client.Object) *World {
	w := &World{
		t:       t,
		Clock:   testclock.NewFakeClock(time.Now()), // TLS checks certificates by the real time
		kinds:   kinds,
		named:   map[string]int{},
		settled: func() bool { return true },
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithReturnManagedFields()
	for _, list := range kinds {
		b = b.WithStatusSubresource(itemOf(scheme, list))
	}
	for _, obj := range index.Kinds() {
		b = b.WithIndex(obj, index.ClusterName, index.Of)
	}
	w.Mgmt = b.WithInterceptorFuncs(builder.Writes(func(verb string, obj client.Object) error {
		w.writes++
		if verb == "create" {
			obj.SetUID(types.UID(fmt.Sprintf("uid-%d", w.writes)))
			obj.SetCreationTimestamp(metav1.NewTime(w.Clock.Now()))
			obj.SetGeneration(1)
		}
		return nil
	})).Build()
	return w
}

// Run lets every controller work until nothing changes any more. What then
// still fails ends the test.
func (w *World) Run() {
	w.t.Helper()
	for range maxRounds {
		before := w.writes
		err := w.round()
		w.collect()
		if w.writes == before && w.settled() {
			if err != nil {
				w.t.Fatalf("the world is at rest, yet %v\nso far:\n%s", err, w.story.String())
			}
			return
		}
	}
	w.t.Fatalf("the world did not come to rest in %d rounds\nso far:\n%s", maxRounds, w.story.String())
}

// round calls every controller once for each of its objects, and returns the
// last error.
func (w *World) round() (last error) {
	for _, c := range w.controllers {
		for _, obj := range w.objects(listOf(w.Mgmt.Scheme(), c.Kind)) {
			key := client.ObjectKeyFromObject(obj)
			if _, err := c.step(w.t.Context(), key); err != nil {
				last = fmt.Errorf("controller %s, %s: %w", c.Name, key, err)
			}
		}
	}
	return last
}

// objects lists all objects of a kind; the fake client returns them by name.
func (w *World) objects(list client.ObjectList) []client.Object {
	w.t.Helper()
	l := list.DeepCopyObject().(client.ObjectList)
	if err := w.Mgmt.List(w.t.Context(), l); err != nil {
		w.t.Fatal(err)
	}
	items, err := meta.ExtractList(l)
	if err != nil {
		w.t.Fatal(err)
	}
	out := make([]client.Object, len(items))
	for i := range items {
		out[i] = items[i].(client.Object)
	}
	return out
}

// collect deletes objects whose owners have all gone, as the garbage collector does.
func (w *World) collect() {
	w.t.Helper()
	alive := map[types.UID]bool{}
	var all []client.Object
	for _, list := range w.kinds {
		all = append(all, w.objects(list)...)
	}
	for _, obj := range all {
		alive[obj.GetUID()] = true
	}
	for _, obj := range all {
		refs := obj.GetOwnerReferences()
		orphan := len(refs) > 0
		for _, r := range refs {
			orphan = orphan && !alive[r.UID]
		}
		if !orphan || !obj.GetDeletionTimestamp().IsZero() {
			continue
		}
		if err := w.Mgmt.Delete(w.t.Context(), obj); client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
	}
}

// Name makes a name with a counter in place of random letters.
func (w *World) Name(prefix string) string {
	w.named[prefix]++
	return fmt.Sprintf("%s%d", strings.TrimSuffix(prefix, "-")+"-", w.named[prefix])
}

// Tell adds a line to the story.
func (w *World) Tell(format string, args ...any) {
	fmt.Fprintf(&w.story, format+"\n", args...)
}

// Eventf implements events.EventRecorder: events are what the story tells.
func (w *World) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", regarding), "*v1beta2.")
	name := "?"
	if obj, ok := regarding.(client.Object); ok {
		name = obj.GetName()
	}
	w.Tell("%s %s: %s: %s", kind, name, reason, address.ReplaceAllString(fmt.Sprintf(note, args...), "ADDRESS"))
}

// address is where a simulated cluster answers; it depends on what else runs.
var address = regexp.MustCompile(`127\.[0-9.]+:[0-9]+`)

// Golden compares the story with testdata/NAME.
func (w *World) Golden(name string) {
	w.t.Helper()
	path := filepath.Join("testdata", name)
	got := w.story.String()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatalf("%v (UPDATE_GOLDEN=1 writes it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		w.t.Errorf("story (-want +got):\n%s", diff)
	}
}

func itemOf(scheme *runtime.Scheme, list client.ObjectList) client.Object {
	gvks, _, err := scheme.ObjectKinds(list)
	if err != nil {
		panic(err)
	}
	gvk := gvks[0]
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	obj, err := scheme.New(gvk)
	if err != nil {
		panic(err)
	}
	return obj.(client.Object)
}

func listOf(scheme *runtime.Scheme, obj client.Object) client.ObjectList {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		panic(err)
	}
	list, err := scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		panic(err)
	}
	return list.(client.ObjectList)
}
