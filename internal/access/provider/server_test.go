// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/pure/claim"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// finder is a controller of Clusters that looks for their infrastructure and
// notes what it sees.
type finder struct {
	objects *provider.Objects
	watcher provider.Watcher

	mu   sync.Mutex // guards seen
	seen string
}

func (f *finder) Reconcile(ctx context.Context, c *clusterv1.Cluster) (ctrl.Result, error) {
	ref := c.Spec.InfrastructureRef
	err := f.objects.Watch(ctx, ref, provider.Wake{Controller: "finder", Watcher: f.watcher, List: &clusterv1.ClusterList{}})
	var obj *provider.Object
	if err == nil {
		obj, err = f.objects.Get(ctx, c.Namespace, ref)
	}
	_, unknown := errors.AsType[*provider.KindError](err)
	switch {
	case unknown:
		f.note("kind is not usable")
		return ctrl.Result{}, err
	case apierrors.IsNotFound(err):
		f.note("not there")
		return ctrl.Result{}, nil // nothing but a watch brings us back
	case err != nil:
		return ctrl.Result{}, err
	}
	if err := f.objects.Adopt(ctx, obj, provider.Adoption{Claim: claim.ByCluster(c)}); err != nil {
		return ctrl.Result{}, err
	}
	f.note(fmt.Sprintf("there by %s, note %s", obj.Contract, obj.GetAnnotations()["note"]))
	return ctrl.Result{}, nil
}

func (f *finder) note(s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = s
}

func (f *finder) sees(want string) func() error {
	return func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.seen != want {
			return fmt.Errorf("sees %q, want %q", f.seen, want)
		}
		return nil
	}
}

// TestAReferenceIsFollowedByWatchesAlone lets a real API server bring, one
// after the other, the reference, the CRD, the object and a change of it.
func TestAReferenceIsFollowedByWatchesAlone(t *testing.T) {
	env := testenv.Start(t)
	f := start(t, env)
	group := env.Namespace + ".example.com"
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "demo"}}
	cluster.Spec.Paused = new(true) // for the plane's own controllers
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "Widget", Name: "w"}
	if err := env.Client.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, f.sees("kind is not usable"))

	env.Define(t, testenv.Kind(group, "Widget"))
	testenv.Eventually(t, f.sees("not there"))

	w := &unstructured.Unstructured{}
	w.SetAPIVersion(group + "/v1")
	w.SetKind("Widget")
	w.SetNamespace(env.Namespace)
	w.SetName("w")
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), w) })
	testenv.Eventually(t, f.sees("there by v1beta2, note "))

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
	testenv.Eventually(t, f.sees("there by v1beta2, note changed"))

	if err := env.Client.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, f.sees("not there"))
}

// start runs a manager with the finder in it, in the namespace of the test.
func start(t *testing.T, env *testenv.Env) *finder {
	t.Helper()
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme: env.Client.Scheme(), Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Cache:  cache.Options{DefaultNamespaces: map[string]cache.Config{env.Namespace: {}}},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &finder{objects: provider.New(controller.Client(mgr), mgr.GetCache())}
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
