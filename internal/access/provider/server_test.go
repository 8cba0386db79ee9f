// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// finder is a controller of Clusters that reads their infrastructure and records
// the results.
type finder struct {
	objects *provider.Objects
	watcher provider.Watcher
	waits   atomic.Bool // an unusable kind is no error, which alone is tried again

	mu   sync.Mutex          // guards seen
	seen map[string][]string // by Cluster, each time
}

func (f *finder) Reconcile(ctx context.Context, c *clusterv1.Cluster) (ctrl.Result, error) {
	ref := c.Spec.InfrastructureRef
	err := f.objects.Watch(ctx, ref, provider.Trigger{Controller: "finder", Watcher: f.watcher, List: &clusterv1.ClusterList{}})
	var obj *provider.Object
	if err == nil {
		obj, err = f.objects.Get(ctx, c.Namespace, ref)
	}
	_, unknown := errors.AsType[*provider.KindError](err)
	switch {
	case unknown:
		f.note(c, "kind is not usable")
		if f.waits.Load() {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	case apierrors.IsNotFound(err):
		f.note(c, "not there")
		return ctrl.Result{}, nil // only a watch triggers the next reconcile
	case err != nil:
		return ctrl.Result{}, err
	}
	if err := f.objects.Adopt(ctx, obj, provider.Adoption{Claim: reference.ByCluster(c)}); err != nil {
		return ctrl.Result{}, err
	}
	f.note(c, fmt.Sprintf("there by %s, note %s", obj.Contract, obj.GetAnnotations()["note"]))
	return ctrl.Result{}, nil
}

func (f *finder) note(c *clusterv1.Cluster, s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[c.Name] = append(f.seen[c.Name], s)
}

func (f *finder) has(cluster string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen[cluster])
}

func (f *finder) sees(cluster, want string) func() error {
	return func() error {
		if seen := f.has(cluster); len(seen) == 0 || seen[len(seen)-1] != want {
			return fmt.Errorf("sees %q, want %q in the end", seen, want)
		}
		return nil
	}
}

// TestAReferenceIsFollowedByWatchesAlone creates the reference, the CRD and the
// object one after the other in a real API server, and then changes the object.
func TestAReferenceIsFollowedByWatchesAlone(t *testing.T) {
	env := testenv.Start(t)
	f := start(t, env)
	group := env.Namespace + ".example.com"
	if err := env.Client.Create(t.Context(), clusterOf(group, env.Namespace, "demo", "w")); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, f.sees("demo", "kind is not usable"))

	env.Define(t, testenv.Kind(group, "Widget"))
	testenv.Eventually(t, f.sees("demo", "not there"))

	w := widget(group, env.Namespace, "w")
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), w) })
	testenv.Eventually(t, f.sees("demo", "there by v1beta2, note "))

	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			return err
		}
		if len(w.GetOwnerReferences()) != 1 || w.GetLabels()[clusterv1.ClusterNameLabel] != "demo" {
			return fmt.Errorf("owners %v, labels %v", w.GetOwnerReferences(), w.GetLabels())
		}
		w.SetAnnotations(map[string]string{"note": "changed"})
		return env.Client.Update(t.Context(), w)
	})
	testenv.Eventually(t, f.sees("demo", "there by v1beta2, note changed"))

	if err := env.Client.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, f.sees("demo", "not there"))
}

// TestChangedDefinitionTriggersThoseThatWait has a controller that retries nothing, and a
// CRD that gets the label of the contract later.
func TestChangedDefinitionTriggersThoseThatWait(t *testing.T) {
	env := testenv.Start(t)
	group := env.Namespace + ".example.com"
	crd := testenv.Kind(group, "Widget")
	labels := crd.Labels
	crd.Labels = nil
	env.Define(t, crd)
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), widget(group, env.Namespace, "served")) })
	f := start(t, env)
	f.waits.Store(true)
	for _, c := range []*clusterv1.Cluster{clusterOf(group, env.Namespace, "demo", "w"), clusterOf(group, env.Namespace, "second", "w")} {
		if err := env.Client.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, f.sees(c.Name, "kind is not usable"))
	}
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
			return err
		}
		crd.Labels = labels
		return env.Client.Update(t.Context(), crd)
	})
	testenv.Eventually(t, f.sees("demo", "not there"))
	testenv.Eventually(t, f.sees("second", "not there"))
}

// TestAStartReadsEachReferenceOnce starts a second manager on objects that the
// first has adopted: objects that exist when its watch starts trigger no further
// reconcile, and a change after that does.
func TestAStartReadsEachReferenceOnce(t *testing.T) {
	env := testenv.Start(t)
	group := env.Namespace + ".example.com"
	env.Define(t, testenv.Kind(group, "Widget"))
	names := []string{"one", "two", "three"}
	for _, name := range names {
		testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), widget(group, env.Namespace, name)) })
		if err := env.Client.Create(t.Context(), clusterOf(group, env.Namespace, name, name)); err != nil {
			t.Fatal(err)
		}
	}
	first := start(t, env)
	for _, name := range names {
		testenv.Eventually(t, first.sees(name, "there by v1beta2, note "))
		testenv.Eventually(t, func() error { // the plane no longer writes to a paused Cluster
			c := &clusterv1.Cluster{}
			if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: env.Namespace, Name: name}, c); err != nil {
				return err
			}
			if !conditions.IsTrue(c, clusterv1.PausedCondition) {
				return errors.New("the plane has not seen it yet")
			}
			return nil
		})
	}
	second := start(t, env)
	for _, name := range names {
		testenv.Eventually(t, second.sees(name, "there by v1beta2, note "))
	}
	w := widget(group, env.Namespace, "three")
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			return err
		}
		w.SetAnnotations(map[string]string{"note": "changed"})
		return env.Client.Update(t.Context(), w)
	})
	testenv.Eventually(t, second.sees("three", "there by v1beta2, note changed"))
	for _, name := range names[:2] { // events come in order
		if seen := second.has(name); len(seen) != 1 {
			t.Errorf("Cluster %s: reconciled %d times, want once: %q", name, len(seen), seen)
		}
	}
}

func widget(group, namespace, name string) *unstructured.Unstructured {
	w := &unstructured.Unstructured{}
	w.SetAPIVersion(group + "/v1")
	w.SetKind("Widget")
	w.SetNamespace(namespace)
	w.SetName(name)
	return w
}

func clusterOf(group, namespace, name, infrastructure string) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	cluster.Spec.Paused = new(true) // for the plane's own controllers
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "Widget", Name: infrastructure}
	return cluster
}

// start runs a manager with the finder in the namespace of the test.
func start(t *testing.T, env *testenv.Env) *finder {
	t.Helper()
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme: env.Client.Scheme(), Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Cache:  cache.Options{DefaultNamespaces: map[string]cache.Config{env.Namespace: {}}},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &finder{objects: provider.New(controller.Client(mgr), mgr.GetCache()), seen: map[string][]string{}}
	refs := func(o client.Object) []clusterv1.ContractVersionedObjectReference {
		return []clusterv1.ContractVersionedObjectReference{o.(*clusterv1.Cluster).Spec.InfrastructureRef}
	}
	if err := provider.Index(t.Context(), mgr.GetFieldIndexer(), &clusterv1.Cluster{}, refs); err != nil {
		t.Fatal(err)
	}
	if f.watcher, err = controller.For(mgr, "finder", &clusterv1.Cluster{}).Build(f); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return f
}
