// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

const testToken = "abcdef.0123456789abcdef"

// pairs are created once: keys are the slow part of these tests.
var pairs = sync.OnceValue(func() map[certs.Purpose]certs.Pair {
	out := map[certs.Purpose]certs.Pair{}
	for _, p := range []certs.Purpose{certs.CA, certs.Etcd, certs.FrontProxy, certs.ServiceAccount} {
		pair, err := certs.New(p, certs.ECDSAP256, now, 0)
		if err != nil {
			panic(err)
		}
		out[p] = pair
	}
	return out
})

func certSecret(p certs.Purpose) *corev1.Secret {
	return pairs()[p].Secret(client.ObjectKey{Namespace: "ns", Name: "demo"}, p, nil)
}

func certSecrets() []client.Object {
	return []client.Object{certSecret(certs.CA), certSecret(certs.Etcd), certSecret(certs.FrontProxy), certSecret(certs.ServiceAccount)}
}

// cluster returns a Cluster ready for kubeadm init; initialized makes it ready for
// joins.
func cluster(change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "cluster"},
		Spec: clusterv1.ClusterSpec{
			ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "api.example", Port: 6443},
			ControlPlaneRef:      clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion().Group, Kind: "KubeadmControlPlane", Name: "cp"},
			ClusterNetwork: clusterv1.ClusterNetwork{
				ServiceDomain: "cluster.local",
				Services:      clusterv1.NetworkRanges{CIDRBlocks: []string{"10.96.0.0/16"}},
				Pods:          clusterv1.NetworkRanges{CIDRBlocks: []string{"10.244.0.0/16"}},
			},
		},
	}
	c.Status.Initialization.InfrastructureProvisioned = new(true)
	for _, f := range change {
		f(c)
	}
	return c
}

func initialized(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = new(true) }

func worker(name string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "machine"}}
	m.Spec.ClusterName, m.Spec.Version = "demo", "v1.36.3"
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion().Group, Kind: "KubeadmConfig", Name: name}
	return m
}

func controlPlane(name string) *clusterv1.Machine {
	m := worker(name)
	m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	return m
}

func configFor(m client.Object, change ...func(*bootstrapv1.KubeadmConfig)) *bootstrapv1.KubeadmConfig {
	kind := "Machine"
	if _, ok := m.(*clusterv1.MachinePool); ok {
		kind = "MachinePool"
	}
	c := &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: m.GetName(), UID: "config", Generation: 1,
		Labels:          map[string]string{clusterv1.ClusterNameLabel: "demo"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: kind, Name: m.GetName(), UID: m.GetUID()}},
	}}
	for _, f := range change {
		f(c)
	}
	return c
}

// world is a management cluster and a workload cluster.
type world struct {
	t        *testing.T
	r        *Reconciler
	mgmt     client.Client
	hidden   string // name of an object that the cache does not have yet
	workload client.Client
	clock    *testclock.FakePassiveClock
	down     bool     // the workload cluster is not connected
	writes   []string // "verb kind" of each write to the management cluster
	fail     map[string]error
	reads    int // from the workload cluster
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, clock: testclock.NewFakePassiveClock(now), fail: map[string]error{}}
	note := func(verb string, obj client.Object) error {
		what := fmt.Sprintf("%s %s", verb, strings.TrimPrefix(fmt.Sprintf("%T", obj), "*"))
		what = what[:strings.LastIndex(what, " ")+1] + what[strings.LastIndex(what, ".")+1:]
		w.writes = append(w.writes, what)
		return w.fail[what]
	}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&bootstrapv1.KubeadmConfig{}).
		WithIndex(&bootstrapv1.KubeadmConfig{}, index.ClusterLabel, index.OfLabel).Build()
	w.mgmt = interceptor.NewClient(live, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if key.Name == w.hidden {
				return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return errors.Join(note("create", obj), ifNil(w.fail, "create", obj, func() error { return c.Create(ctx, obj, opts...) }))
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return errors.Join(note("update", obj), ifNil(w.fail, "update", obj, func() error { return c.Update(ctx, obj, opts...) }))
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			_ = note("delete", obj)
			return c.Delete(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			_ = note("patch", obj)
			if err := c.Patch(ctx, obj, p, opts...); err != nil {
				return err
			}
			if config, ok := obj.(*bootstrapv1.KubeadmConfig); ok { // as an API server does; these tests patch only its spec
				config.Generation++
				return c.Update(ctx, config)
			}
			return nil
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			_ = note("patch "+sub+" of", obj)
			return c.SubResource(sub).Patch(ctx, obj, p, opts...)
		},
	})
	w.workload = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			w.reads++
			return c.Get(ctx, key, obj, opts...)
		},
	}).Build()
	w.r = &Reconciler{
		Deps: deps.Deps{Mgmt: w.mgmt, Live: live, Providers: provider.New(w.mgmt, nil), Workload: w, Clock: w.clock, Deprecated: true},
		NewToken: func() (bootstrapv1.BootstrapTokenString, error) {
			t, err := bootstrapv1.NewBootstrapTokenString(testToken)
			return *t, err
		},
	}
	return w
}

// ifNil runs write unless the verb on that kind is set to fail.
func ifNil(fail map[string]error, verb string, obj client.Object, write func() error) error {
	kind := fmt.Sprintf("%T", obj)
	if fail[verb+" "+kind[strings.LastIndex(kind, ".")+1:]] != nil {
		return nil
	}
	return write()
}

// Client implements workload.Clusters.
func (w *world) Client(context.Context, client.ObjectKey) (client.Client, error) {
	if w.down {
		return nil, fmt.Errorf("cluster demo: %w", workload.ErrNotConnected)
	}
	return w.workload, nil
}

// Config implements workload.Clusters.
func (w *world) Config(client.ObjectKey) (*rest.Config, error) { return nil, workload.ErrNotConnected }

// Health implements workload.Clusters.
func (w *world) Health(client.ObjectKey) workload.Health { return workload.Health{Connected: !w.down} }

// Source implements workload.Clusters.
func (w *world) Source(client.Object, workload.ToRequests) source.Source { return nil }
func (w *world) AwaitKinds(client.ObjectKey)                             {}

// config reads a config as it is stored.
func (w *world) config(name string) *bootstrapv1.KubeadmConfig {
	w.t.Helper()
	c := &bootstrapv1.KubeadmConfig{}
	if err := w.mgmt.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, c); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// try reconciles a config once.
func (w *world) try(name string) (ctrl.Result, error) {
	w.t.Helper()
	w.writes = nil
	return w.r.Reconcile(w.t.Context(), w.config(name))
}

// run reconciles a config once, without an error.
func (w *world) run(name string) ctrl.Result {
	w.t.Helper()
	res, err := w.try(name)
	if err != nil {
		w.t.Fatalf("Reconcile: %v", err)
	}
	return res
}

// secret reads a Secret of the management cluster; nil when there is none.
func (w *world) secret(name string) *corev1.Secret {
	w.t.Helper()
	return read(w.t, w.mgmt, "ns", name)
}

func read(t *testing.T, c client.Client, namespace, name string) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// document is the stored data, taken apart.
type document struct {
	Files []struct {
		Path, Permissions, Content string
	} `json:"write_files"`
	Commands []string `json:"runcmd"`
	Users    []struct {
		Name, Passwd string
	} `json:"users"`
}

func (w *world) document(name string) document {
	w.t.Helper()
	s := w.secret(name)
	if s == nil {
		w.t.Fatalf("there is no Secret %s", name)
	}
	var d document
	if err := yaml.Unmarshal(s.Data["value"], &d); err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (d document) file(path string) string {
	for _, f := range d.Files {
		if f.Path == path {
			return f.Content
		}
	}
	return ""
}

func (d document) paths() (out []string) {
	for _, f := range d.Files {
		out = append(out, f.Permissions+" "+f.Path)
	}
	return out
}

// kubeadm is what kubeadm would read.
func (d document) kubeadm(t *testing.T, path string) *kubeadm.Documents {
	t.Helper()
	docs, err := kubeadm.Parse([]byte(d.file(path)))
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// states are the conditions of a config, each as "type=status reason: message".
func states(c *bootstrapv1.KubeadmConfig) (out []string) {
	for _, t := range []string{
		bootstrapv1.KubeadmConfigReadyCondition, bootstrapv1.KubeadmConfigDataSecretAvailableCondition,
		bootstrapv1.KubeadmConfigCertificatesAvailableCondition, clusterv1.PausedCondition,
	} {
		if found := conditions.Get(c, t); found != nil {
			line := fmt.Sprintf("%s=%s %s", found.Type, found.Status, found.Reason)
			if found.Message != "" {
				line += ": " + found.Message
			}
			out = append(out, line)
		}
	}
	return out
}

var madeStates = []string{"Ready=True Ready", "DataSecretAvailable=True Available", "CertificatesAvailable=True Available", "Paused=False NotPaused"}

func count(writes []string, what string) int {
	return len(slices.DeleteFunc(slices.Clone(writes), func(w string) bool { return w != what }))
}
