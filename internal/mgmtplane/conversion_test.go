// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/conversion"
)

// thing is an object of a kind with two versions that differ only in their name.
type thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Size int64 `json:"size,omitempty"`
	} `json:"spec"`
}

func (t *thing) DeepCopyObject() runtime.Object {
	c := *t
	t.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

var (
	oldThings = schema.GroupVersionResource{Group: "things.capstan.dev", Version: "v1", Resource: "things"}
	newThings = schema.GroupVersionResource{Group: "things.capstan.dev", Version: "v2", Resource: "things"}
)

// converts returns a Converter of things. While it is broken, it refuses things
// named fails and panics for things named panics, in either direction.
func converts(t *testing.T, broken *atomic.Bool) *conversion.Converter {
	t.Helper()
	to := func(version string) func(runtime.Object) (runtime.Object, error) {
		return func(in runtime.Object) (runtime.Object, error) {
			out := in.DeepCopyObject().(*thing)
			out.APIVersion = "things.capstan.dev/" + version
			switch {
			case broken.Load() && strings.HasPrefix(out.Name, "panics"):
				panic("no idea")
			case broken.Load() && strings.HasPrefix(out.Name, "fails"):
				return nil, fmt.Errorf("convert Thing %s/%s to %s: no idea", out.Namespace, out.Name, version)
			}
			return out, nil
		}
	}
	made := func() runtime.Object { return &thing{} }
	c, err := conversion.New(conversion.Pair{
		Old: oldThings.GroupVersion().WithKind("Thing"), Stored: newThings.GroupVersion().WithKind("Thing"),
		NewOld: made, NewStored: made, Up: to("v2"), Down: to("v1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// definition returns the definition of things.
func definition() *apiextensionsv1.CustomResourceDefinition {
	object := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer", Format: "int64"}}},
	}}
	version := func(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: storage, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &object}}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things." + oldThings.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: oldThings.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", false), version("v2", true)},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: new(conversion.InProcessURL)},
			}},
		},
	}
}

// world is a plane with things in it, with clients for both versions.
type world struct {
	*testing.T
	old, new dynamic.ResourceInterface
}

// startPlane starts a plane in its own directory and at its own port.
func startPlane(t *testing.T, o Options) *Plane {
	t.Helper()
	o.Dir, o.Listen = t.TempDir(), "127.0.0.1:0"
	complete, err := o.complete()
	if err != nil {
		t.Fatal(err)
	}
	complete.kubernetes = "v1.36.3" // the binary of a test has no information about modules
	p, err := complete.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func things(t *testing.T, c *conversion.Converter) world {
	t.Helper()
	p := startPlane(t, Options{Conversion: c, Install: func(ctx context.Context, cfg *rest.Config) error {
		s := runtime.NewScheme()
		if err := apiextensionsv1.AddToScheme(s); err != nil {
			return err
		}
		admin, err := client.New(cfg, client.Options{Scheme: s})
		if err != nil {
			return err
		}
		return admin.Create(ctx, definition())
	}})
	all, err := dynamic.NewForConfig(p.Config())
	if err != nil {
		t.Fatal(err)
	}
	w := world{t, all.Resource(oldThings).Namespace("default"), all.Resource(newThings).Namespace("default")}
	if err := wait.PollUntilContextCancel(t.Context(), 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := w.new.List(ctx, metav1.ListOptions{})
		return err == nil, client.IgnoreNotFound(err)
	}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w world) apply(c dynamic.ResourceInterface, version, name string, size int64) error {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "things.capstan.dev/" + version, "kind": "Thing", "metadata": map[string]any{"name": name, "labels": map[string]any{"name": name}}, "spec": map[string]any{"size": size}}}
	_, err := c.Apply(w.Context(), name, obj, metav1.ApplyOptions{FieldManager: "user", Force: true})
	return err
}

func (w world) patch(c dynamic.ResourceInterface, name string, size int64) error {
	_, err := c.Patch(w.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"spec": {"size": %d}}`, size), metav1.PatchOptions{FieldManager: "patcher"})
	return err
}

func (w world) must(what string, err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// refused requires an error that names an object.
func (w world) refused(what, name string, err error) {
	w.Helper()
	if err == nil || !strings.Contains(err.Error(), "Thing default/"+name) {
		w.Errorf("%s: %v, want one that names Thing default/%s", what, err, name)
	}
}

// owners returns the field managers of an object, with their versions.
func (w world) owners(name string) (all []string) {
	w.Helper()
	obj, err := w.new.Get(w.Context(), name, metav1.GetOptions{})
	w.must("read "+name, err)
	for _, e := range obj.GetManagedFields() {
		all = append(all, e.Manager+" "+string(e.Operation)+" "+e.APIVersion)
	}
	slices.Sort(all)
	return all
}

// TestConversionsThatFailStopNothingElse runs a plane in this process: no request
// of a client can make a conversion of Capstan panic.
func TestConversionsThatFailStopNothingElse(t *testing.T) {
	t.Parallel()
	broken := &atomic.Bool{}
	w := things(t, converts(t, broken))
	t.Run("requests for other objects", func(t *testing.T) { oneFails(world{t, w.old, w.new}, broken) })
	t.Run("writes afterwards", func(t *testing.T) { manyFail(world{t, w.old, w.new}, broken) })
}

// oneFails: a conversion that fails or panics fails the requests for its object,
// each by name. Nothing is lost by that, and all works again with the conversion.
func oneFails(w world, broken *atomic.Bool) {
	bad := []string{"fails", "panics"}
	for _, name := range append(bad, "good", "goes") {
		w.must("make "+name, w.apply(w.new, "v2", name, 1))
	}
	for _, name := range []string{"fails-mixed", "panics-mixed"} { // with fields of the old version
		w.must("make "+name, w.apply(w.old, "v1", name, 1))
	}
	owners := map[string][]string{"fails-mixed": w.owners("fails-mixed"), "panics-mixed": w.owners("panics-mixed")}
	list, err := w.old.List(w.Context(), metav1.ListOptions{})
	w.must("list", err)
	watch, err := w.old.Watch(w.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	w.must("watch", err)
	defer watch.Stop()

	broken.Store(true)
	w.whileBroken(bad)
	w.must("change another", w.patch(w.new, "good", 2))
	var seen []string
	for !slices.Contains(seen, "MODIFIED good") {
		event := <-watch.ResultChan()
		seen = append(seen, fmt.Sprint(event.Type, " ", event.Object.(*unstructured.Unstructured).GetName()))
	}
	if want := []string{"DELETED goes", "MODIFIED good"}; !slices.Equal(seen, want) {
		w.Errorf("the watch continues with %q, want %q", seen, want)
	}
	for name, want := range owners {
		w.refused("change at the new version", name, w.patch(w.new, name, 2))
		w.refused("change at the old version", name, w.patch(w.old, name, 2))
		if got := w.owners(name); !slices.Equal(got, want) {
			w.Errorf("fields of %s belong to %q, want %q", name, got, want)
		}
	}

	broken.Store(false)
	list, err = w.old.List(w.Context(), metav1.ListOptions{})
	w.must("list afterwards", err)
	for _, item := range list.Items {
		want := map[string]int64{"fails": 2, "panics": 2, "good": 2, "fails-mixed": 1, "panics-mixed": 1}[item.GetName()]
		if size, _, _ := unstructured.NestedInt64(item.Object, "spec", "size"); size != want || item.GetAnnotations() != nil {
			w.Errorf("%s has size %d, want %d, and annotations %v", item.GetName(), size, want, item.GetAnnotations())
		}
	}
	if len(list.Items) != 5 {
		w.Errorf("%d are left, want 5", len(list.Items))
	}
	for name := range owners {
		w.must("apply afterwards", w.apply(w.new, "v2", name, 3))
	}
}

func (w world) whileBroken(bad []string) {
	w.Helper()
	for _, name := range bad {
		w.must("change at the new version", w.patch(w.new, name, 2))
		_, err := w.old.Get(w.Context(), name, metav1.GetOptions{})
		w.refused("read", name, err)
		w.refused("change", name, w.patch(w.old, name, 3))
		w.refused("apply", name, w.apply(w.old, "v1", name, 3))
		w.refused("make", name+"-new", w.apply(w.old, "v1", name+"-new", 3))
		if _, err := w.new.Get(w.Context(), name+"-new", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			w.Errorf("what was refused: %v", err)
		}
		_, err = w.old.List(w.Context(), metav1.ListOptions{LabelSelector: "name=" + name})
		w.refused("list", name, err)
		_, err = w.old.Watch(w.Context(), metav1.ListOptions{LabelSelector: "name=" + name})
		w.refused("watch from the beginning", name, err)
	}
	others, err := w.old.List(w.Context(), metav1.ListOptions{LabelSelector: "name=good"})
	if err != nil || len(others.Items) != 1 {
		w.Errorf("list of another: %v, %v", others, err)
	}
	_, err = w.new.List(w.Context(), metav1.ListOptions{})
	w.must("list at the new version", err)
	w.must("delete another", w.old.Delete(w.Context(), "goes", metav1.DeleteOptions{}))
}

// manyFail: several clients write at both versions until a conversion fails, and
// continue afterwards. All writes that were not refused are stored, and no managed
// fields are lost. Writes that were in progress when the failure started may be
// stored although their response failed.
func manyFail(w world, broken *atomic.Bool) {
	const writers, writes = 6, 12
	var all sync.WaitGroup
	stored := make([]atomic.Int64, writers)
	names := func(i int) string { return fmt.Sprintf("fails-%d", i) }
	for i := range writers {
		w.must("make", w.apply(w.old, "v1", names(i), 1))
	}
	for i := range writers {
		all.Go(func() {
			for n := range int64(writes) {
				c := w.new
				if n%2 == 0 {
					c = w.old
				}
				if n == writes/3 {
					broken.Store(true)
				}
				err := w.patch(c, names(i), n+2)
				switch {
				case err == nil:
					stored[i].Store(n + 2)
				case !strings.Contains(err.Error(), names(i)):
					w.Errorf("refused without the name of the object: %v", err)
				}
			}
		})
	}
	all.Wait()
	broken.Store(false)
	want := []string{"patcher Update things.capstan.dev/v1", "patcher Update things.capstan.dev/v2", "user Apply things.capstan.dev/v1"}
	for i := range writers {
		obj, err := w.new.Get(w.Context(), names(i), metav1.GetOptions{})
		w.must("read", err)
		size, _, _ := unstructured.NestedInt64(obj.Object, "spec", "size")
		got := w.owners(names(i))
		if last := stored[i].Load(); size != last && size != last+1 || !slices.Contains(got, want[2]) || !slices.ContainsFunc(got, func(s string) bool { return slices.Contains(want[:2], s) }) {
			w.Errorf("%s has size %d, want %d or one more, and fields of %q", names(i), size, stored[i].Load(), got)
		}
		w.must("apply", errors.Join(w.apply(w.old, "v1", names(i), 1), w.apply(w.new, "v2", names(i), 1)))
	}
}
