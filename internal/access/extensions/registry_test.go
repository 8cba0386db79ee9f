// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
)

func TestRegistryIsReadyOnceAllExpectedWereTried(t *testing.T) {
	t.Parallel()
	r := NewRegistry(catalog.Default())
	step := func(what string, want bool) {
		t.Helper()
		if r.isReady() != want {
			t.Errorf("%s: ready is %v, want %v", what, !want, want)
		}
	}
	step("at first", false)
	r.Tried("early")
	step("before it is known what to expect", false)
	r.Expect("a", "b")
	r.Expect("c")
	step("with three to try", false)
	r.Tried("a")
	r.Tried("a")
	step("with two to try", false)
	r.Remove("b")
	step("with one to try", false)
	r.Tried("c")
	step("with none to try", true)
	<-r.Ready()
	r.Expect("late")
	step("permanently", true)

	r = NewRegistry(catalog.Default())
	r.Expect()
	step("with nothing to expect", true)
}

func TestCallsBeforeReadyReturnError(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, success)
	w.registry.ready = make(chan struct{})
	w.set(t, e.config("ext", handles("h", "BeforeClusterCreate")))
	if _, err := w.create(t); !errors.Is(err, ErrNotReady) {
		t.Errorf("all: got %v, want %v", err, ErrNotReady)
	}
	if _, err := w.GetAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, demo()); !errors.Is(err, ErrNotReady) {
		t.Errorf("list: got %v, want %v", err, ErrNotReady)
	}
	err := w.CallExtension(t.Context(), hooksv1.BeforeClusterCreate, demo(), "h.ext", &hooksv1.BeforeClusterCreateRequest{}, &hooksv1.BeforeClusterCreateResponse{})
	if !errors.Is(err, ErrNotReady) {
		t.Errorf("one: got %v, want %v", err, ErrNotReady)
	}
	if e.calls() != 0 {
		t.Error("a call was made")
	}
}

func TestSetRefusesWithoutTouchingWhatIsRegistered(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, success)
	w.set(t, e.config("ext", handles("old", "BeforeClusterCreate")))
	for name, tc := range map[string]struct {
		change func(*runtimev1.ExtensionConfig)
		want   string
	}{
		"a selector that cannot be parsed": {func(c *runtimev1.ExtensionConfig) {
			c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Near"}}}
		}, `register ExtensionConfig ext: spec.namespaceSelector: "Near" is not a valid label selector operator`},
		"two addresses": {func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.Service.Name = "s" }, "register ExtensionConfig ext: spec.clientConfig: url and service are both set: keep one"},
		"no address":    {func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = "" }, "register ExtensionConfig ext: spec.clientConfig: neither url nor service is set"},
		"unknown handlers": {func(c *runtimev1.ExtensionConfig) {
			c.Status.Handlers = []runtimev1.ExtensionHandler{handles("a.ext", "BeforeLunch"), handles("a.other", "BeforeClusterCreate"), handles("b.ext", "Discovery"), handles(".ext", "BeforeClusterCreate")}
		}, strings.Join([]string{
			`register ExtensionConfig ext: status.handlers[0] "a.ext": there is no hook ` + v1alpha1 + `/BeforeLunch`,
			`status.handlers[1] "a.other": name: must be a handler's name, a dot, and "ext"`,
			`status.handlers[2] "b.ext": hook ` + v1alpha1 + `/Discovery is answered by the extension as a whole`,
			`status.handlers[3] ".ext": name: must be a handler's name, a dot, and "ext"`,
		}, "\n")},
	} {
		config := e.config("ext", handles("new", "BeforeClusterCreate"))
		tc.change(config)
		if err := w.registry.Set(config); err == nil || err.Error() != tc.want {
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
		if names, err := w.GetAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, demo()); err != nil || !cmp.Equal(names, []string{"old.ext"}) {
			t.Errorf("%s: got %v, %v, want the handler from before", name, names, err)
		}
	}
}

func TestSetReplacesAllHandlersOfTheConfig(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, success)
	w.set(t, e.config("ext", handles("a", "BeforeClusterCreate"), handles("b", "BeforeClusterDelete")), e.config("z", handles("a", "BeforeClusterCreate")))
	w.set(t, e.config("ext", handles("c", "BeforeClusterCreate")))
	for _, tc := range []struct {
		hook any
		want []string
	}{{hooksv1.BeforeClusterCreate, []string{"a.z", "c.ext"}}, {hooksv1.BeforeClusterDelete, []string{}}} {
		if names, err := w.GetAllExtensions(t.Context(), tc.hook, demo()); err != nil || !cmp.Equal(names, tc.want) {
			t.Errorf("got %v, %v, want %v", names, err, tc.want)
		}
	}
	if _, err := w.registry.named("a.ext"); err == nil {
		t.Error("a.ext is still known")
	}
}

func TestRemoveEndsCallsThatAreUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	entered, stopped := make(chan struct{}), make(chan struct{})
	e := serveFunc(t, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(stopped)
	})
	w.set(t, e.config("ext", ignoring(handles("h", "BeforeClusterCreate"))))
	ended := make(chan error)
	go func() {
		_, err := w.create(t)
		ended <- err
	}()
	<-entered
	w.registry.Remove("ext")
	if err := <-ended; !errors.Is(err, errRemoved) {
		t.Errorf("got %v, want %v", err, errRemoved)
	}
	<-stopped
	if names, err := w.GetAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, demo()); err != nil || len(names) != 0 {
		t.Errorf("got %v, %v, want no handler", names, err)
	}
}

func TestChangedConfigLetsCallsUnderWayEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	entered, release := make(chan struct{}), make(chan struct{})
	e := serveFunc(t, func(rw http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release
		write(200, `{"status":"Success","message":"done","retryAfterSeconds":60}`)(rw, r)
	})
	w.set(t, e.config("ext", handles("h", "BeforeClusterCreate")))
	ended := make(chan string)
	go func() {
		got, err := w.create(t)
		ended <- got.Message + describeError(err)
	}()
	<-entered
	changed := e.config("ext", handles("h", "BeforeClusterCreate"))
	changed.Generation = 2
	w.set(t, changed)
	close(release)
	if got := <-ended; got != "done" {
		t.Errorf("got %q, want done", got)
	}
}

func TestConfigsComeAndGoWhileTheyAreCalled(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, success)
	var all sync.WaitGroup
	for n := range 4 {
		name := fmt.Sprintf("ext-%d", n)
		all.Go(func() {
			for i := range 50 {
				c := e.config(name, handles("h", "BeforeClusterCreate"), handles("d", "DiscoverVariables"))
				c.Generation = int64(i / 2)
				if err := w.registry.Set(c); err != nil {
					t.Error(err)
				}
				if i%10 == 9 {
					w.registry.Remove(name)
				}
			}
		})
		all.Go(func() {
			for range 50 {
				err := w.CallAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, demo(), &hooksv1.BeforeClusterCreateRequest{}, &hooksv1.BeforeClusterCreateResponse{})
				if err != nil && !errors.Is(err, errChanged) && !errors.Is(err, errRemoved) {
					t.Error(err)
				}
				w.Stats()
			}
		})
	}
	all.Wait()
	for n := range 4 {
		w.registry.Remove(fmt.Sprintf("ext-%d", n))
	}
	if left := len(w.registry.handlers) + len(w.registry.hooks) + len(w.registry.configs); left != 0 || len(w.Stats()) != 0 || len(w.counted(t)) != 0 {
		t.Errorf("%d handlers, hooks and configs are left, %v, %v: want nothing", left, w.Stats(), w.counted(t))
	}
}

func describeError(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestACallThatIsAboutToStartIsNotMadeAfterARemoval(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, success)
	w.set(t, e.config("ext", ignoring(handles("h", "BeforeClusterCreate"))))
	h, err := w.registry.named("h.ext")
	if err != nil {
		t.Fatal(err)
	}
	w.registry.Remove("ext")
	d, err := w.catalog.Lookup(hooksv1.BeforeClusterCreate)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.call(t.Context(), d, h, &hooksv1.BeforeClusterCreateRequest{}, &hooksv1.BeforeClusterCreateResponse{}); !errors.Is(err, errChanged) {
		t.Errorf("got %v, want %v", err, errChanged)
	}
	if e.calls() != 0 {
		t.Error("the call was made")
	}
}

func TestNamespaceSelector(t *testing.T) {
	t.Parallel()
	selecting := func(e *extension, name string, match map[string]string) *runtimev1.ExtensionConfig {
		c := e.config(name, handles("h", "BeforeClusterCreate"))
		c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: match}
		return c
	}
	in := func(namespace string) *clusterv1.Cluster {
		c := demo()
		c.Namespace = namespace
		return c
	}
	prod := map[string]string{"env": "prod"}
	for name, tc := range map[string]struct {
		object  metav1.Object
		want    []string
		lookups int
		err     string
	}{
		"a namespace that both select":       {in("prod"), []string{"h.any", "h.none", "h.prod"}, 1, ""},
		"a namespace that one does not":      {in("dev"), []string{"h.any", "h.none"}, 1, ""},
		"a namespace that cannot be read":    {in("gone"), nil, 1, `look up the labels of namespace "gone" for ExtensionConfig "prod": it is not in the cache`},
		"an object in no namespace":          {in(""), []string{"h.any", "h.none", "h.prod"}, 0, ""},
		"a Namespace by its own labels":      {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: prod}}, []string{"h.any", "h.none", "h.prod"}, 0, ""},
		"a Namespace that is not selected":   {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}, []string{"h.any", "h.none"}, 0, ""},
		"no object":                          {nil, []string{"h.any", "h.none", "h.prod"}, 0, ""},
		"no object that comes as an pointer": {(*clusterv1.Cluster)(nil), []string{"h.any", "h.none", "h.prod"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, e := newWorld(t), serve(t, success)
			w.namespaces = map[string]map[string]string{"prod": prod, "dev": {"env": "dev"}}
			w.set(t, selecting(e, "any", nil), e.config("none", handles("h", "BeforeClusterCreate")), selecting(e, "prod", prod))
			got, err := w.GetAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, tc.object)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %s", err, tc.err)
				}
			} else if err != nil || !cmp.Equal(got, tc.want) {
				t.Errorf("got %v, %v, want %v", got, err, tc.want)
			}
			if w.lookups != tc.lookups {
				t.Errorf("%d lookups of a namespace, want %d", w.lookups, tc.lookups)
			}
		})
	}
}

func TestCallExtensionInANamespaceThatIsNotSelected(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, success)
	w.namespaces = map[string]map[string]string{"default": {}}
	config := e.config("ext", ignoring(handles("h", "BeforeClusterCreate")))
	config.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	w.set(t, config)
	err := w.CallExtension(t.Context(), hooksv1.BeforeClusterCreate, demo(), "h.ext", &hooksv1.BeforeClusterCreateRequest{}, &hooksv1.BeforeClusterCreateResponse{})
	want := `call extension handler "h.ext" of hook BeforeClusterCreate for Cluster default/demo: the namespaceSelector of ExtensionConfig "ext" does not select namespace "default"`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	none := newWorld(t, func(o *Options) { o.Namespaces = nil })
	none.set(t, config)
	if _, err := none.create(t); err == nil || !strings.Contains(err.Error(), "this process does not read namespaces") {
		t.Errorf("without a way to read namespaces: got %v", err)
	}
	if e.calls() != 0 {
		t.Error("a call was made")
	}
}

func TestTimeoutIsTheHandlersButNeverBeyondTheCallers(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, success)
	for seconds, want := range map[int32]string{0: "10s", 1: "1s", 30: "30s", 300: "30s"} {
		h := handles("h", "BeforeClusterCreate")
		h.TimeoutSeconds = seconds
		w.set(t, e.config("ext", h))
		if got, err := w.registry.named("h.ext"); err != nil || got.timeout.String() != want {
			t.Errorf("%d s: got %v, %v, want %s", seconds, got.timeout, err, want)
		}
	}
	hang := serveFunc(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	w.set(t, hang.config("ext", ignoring(handles("h", "BeforeClusterCreate"))))
	ctx, cancel := context.WithTimeout(t.Context(), 1) // expired before it starts
	defer cancel()
	err := w.CallAllExtensions(ctx, hooksv1.BeforeClusterCreate, demo(), &hooksv1.BeforeClusterCreateRequest{}, &hooksv1.BeforeClusterCreateResponse{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v: the caller's own time is over, which Ignore does not hide", err, context.DeadlineExceeded)
	}
}

// TestHooksWaitForExtensionsThatWereNeverDiscovered: the handlers of an extension
// and its failure policy are not known before.
func TestHooksWaitForExtensionsThatWereNeverDiscovered(t *testing.T) {
	t.Parallel()
	selecting := func(label string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"team": label}}
	}
	for name, tc := range map[string]struct {
		edit  func(*runtimev1.ExtensionConfig)
		waits bool
	}{
		"never discovered":                        {edit: func(*runtimev1.ExtensionConfig) {}, waits: true},
		"never discovered, of this namespace":     {edit: func(c *runtimev1.ExtensionConfig) { c.Spec.NamespaceSelector = selecting("a") }, waits: true},
		"never discovered, of another namespace":  {edit: func(c *runtimev1.ExtensionConfig) { c.Spec.NamespaceSelector = selecting("b") }},
		"never discovered, at an address of none": {edit: func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig = runtimev1.ClientConfig{} }, waits: true},
		"discovered, without handlers": {edit: func(c *runtimev1.ExtensionConfig) {
			c.Status.Conditions = []metav1.Condition{{Type: runtimev1.ExtensionConfigDiscoveredCondition, Status: metav1.ConditionTrue}}
		}},
		"discovered once, and not since": {edit: func(c *runtimev1.ExtensionConfig) {
			c.Status.Handlers = []runtimev1.ExtensionHandler{handles("plan.late", "BeforeClusterUpgrade")}
			c.Status.Conditions = []metav1.Condition{{Type: runtimev1.ExtensionConfigDiscoveredCondition, Status: metav1.ConditionFalse}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *Options) {
				o.Namespaces = func(context.Context, string) (map[string]string, error) { return map[string]string{"team": "a"}, nil }
			})
			late := serve(t, "").config("late")
			late.Status.Conditions = nil
			tc.edit(late)
			w.set(t, late)
			_, err := w.create(t)
			if waits := err != nil; waits != tc.waits {
				t.Errorf("got %v", err)
			}
			if tc.waits && !strings.Contains(err.Error(), `ExtensionConfig "late" was never discovered, and may have a handler of this hook: correct what its condition Discovered names, or delete it`) {
				t.Errorf("got %v", err)
			}
			w.registry.Remove("late")
			if _, err := w.create(t); err != nil {
				t.Errorf("after it was deleted: %v", err)
			}
		})
	}
}
