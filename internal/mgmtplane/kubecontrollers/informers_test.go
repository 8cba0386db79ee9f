// SPDX-License-Identifier: Apache-2.0

package kubecontrollers

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"
)

var secretsKind = corev1.SchemeGroupVersion.WithResource("secrets")

// follow uses the informer of a kind as a controller does, until the end of a channel.
func follow(t *testing.T, c *Objects, kind schema.GroupVersionResource, until <-chan struct{}) (i *informer, ended chan struct{}) {
	t.Helper()
	generic, err := c.ForResource(kind)
	if err != nil {
		t.Fatal(err)
	}
	monitor := generic.Informer().GetController()
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		monitor.Run(until)
	}()
	c.Start(nil)
	return generic.Informer().(*informer), ended
}

// TestInformerStopsWithItsLastUser: the informer of a kind that is no longer served would
// log the refusal until the process exits.
func TestInformerStopsWithItsLastUser(t *testing.T) {
	t.Parallel()
	c, _ := collecting(t)
	unwatched := corev1.SchemeGroupVersion.WithResource("events")
	one, two := make(chan struct{}), make(chan struct{})
	first, firstEnded := follow(t, c, unwatched, one)
	again, secondEnded := follow(t, c, unwatched, two)
	if first != again {
		t.Error("two controllers have two informers of a kind")
	}
	close(one)
	<-firstEnded
	if first.IsStopped() || closed(first.stopped) {
		t.Error("it stops while a controller follows its kind")
	}
	close(two)
	<-secondEnded
	if !closed(first.stopped) {
		t.Error("it runs while no controller follows its kind")
	}
	served, servedEnded := follow(t, c, unwatched, make(chan struct{}))
	if served == first || closed(served.stopped) {
		t.Error("a kind that is served again has the stopped informer")
	}
	c.Shutdown()
	if !closed(served.stopped) || closed(servedEnded) {
		t.Error("after Shutdown it runs, or its controller has ended")
	}
	c.Shutdown() // has no effect
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestUnusedInformerDoesNotRun: quotas ask for the informers of all kinds.
func TestUnusedInformerDoesNotRun(t *testing.T) {
	t.Parallel()
	c, _ := collecting(t)
	kind := corev1.SchemeGroupVersion.WithResource("events")
	if _, err := c.ForResource(kind); err != nil {
		t.Fatal(err)
	}
	c.Start(nil)
	if c.known[kind].started {
		t.Error("it runs")
	}
	shared := c.Shared(kind).(*informer)
	c.Start(nil)
	if !shared.started || shared != c.known[kind] {
		t.Error("a shared one does not run")
	}
}

// TestMemoryHoldsWhatCollectorNeeds: a management cluster has large annotations.
func TestMemoryHoldsWhatCollectorNeeds(t *testing.T) {
	t.Parallel()
	owner := &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "1"}
	secret := metadataOf("Secret", "s", owner)
	secret.Annotations, secret.Finalizers = map[string]string{"large": "text"}, []string{"f"}
	secret.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	c, _ := collecting(t, secret)
	found, ok, err := c.known[secretsKind].GetStore().GetByKey("ns/s")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	got := found.(*metav1.PartialObjectMetadata)
	if len(got.Annotations)+len(got.Labels)+len(got.ManagedFields) > 0 || len(got.OwnerReferences) != 1 || len(got.Finalizers) != 1 {
		t.Errorf("it holds %+v", got.ObjectMeta)
	}
	if obj, err := c.enter("other"); obj != "other" || err != nil {
		t.Errorf("an unrelated object: %v, %v", obj, err)
	}
}

// TestQuotasCountInInformersOfCollector: only kinds of which a quota measures more than
// the number are in memory as a whole.
func TestQuotasCountInInformersOfCollector(t *testing.T) {
	t.Parallel()
	c, _ := collecting(t)
	q := countedInformers{informers.NewSharedInformerFactory(fake.NewClientset(), 0), c}
	for resource, counted := range map[string]bool{"secrets": true, "configmaps": true, "pods": false, "services": false, "persistentvolumeclaims": false} {
		generic, err := q.ForResource(corev1.SchemeGroupVersion.WithResource(resource))
		if err != nil {
			t.Fatal(err)
		}
		if _, shared := generic.Informer().(*informer); shared != counted {
			t.Errorf("%s: counted by the collector's informer: %v", resource, shared)
		}
	}
}

// TestControllersWaitForTheirFirstObject: without one they cost nothing, and a stop ends
// the wait.
func TestControllersWaitForTheirFirstObject(t *testing.T) {
	t.Parallel()
	c, _ := collecting(t)
	client := fake.NewClientset()
	quotas, err := NewQuotas(client, c, make(chan struct{}))
	if err != nil {
		t.Fatal(err)
	}
	workloads, err := NewWorkloads(client, nil, c.Shared)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(quotas.Run(ctx), workloads.Run(ctx)); err != nil || len(client.Actions()) > 0 {
		t.Errorf("got %v, %d requests", err, len(client.Actions()))
	}
	for _, kind := range append([]schema.GroupVersionResource{{Version: "v1", Resource: "resourcequotas"}}, kinds...) {
		if i := c.known[kind]; i == nil || i.uses == 0 {
			t.Errorf("nothing reports the first of %s", kind.Resource)
		}
	}
}

// listing is a discovery that counts its requests.
type listing struct {
	discovery.ServerResourcesInterface
	requests int
	err      error
}

func (l *listing) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	l.requests++
	return []*metav1.APIResourceList{{GroupVersion: "v1"}}, l.err
}

// TestDiscoveryAnswersFromMemory: the collector asks every three seconds.
func TestDiscoveryAnswersFromMemory(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	of := &listing{}
	d := NewDiscovery(of, func() time.Time { return now })
	for _, step := range []struct {
		what  string
		after time.Duration
		mark  bool
		err   error
		want  int // requests in all
	}{
		{what: "the first", want: 1},
		{what: "later", after: time.Hour, want: 1},
		{what: "a definition has changed", mark: true, want: 2},
		{what: "while that settles", after: settles, want: 3},
		{what: "when it has", after: time.Second, want: 3},
		{what: "a partial answer", mark: true, err: errors.New("v1: unavailable"), want: 4},
		{what: "after it", after: time.Hour, want: 4}, // of the last whole one
	} {
		now = now.Add(step.after)
		if step.mark {
			d.Mark()
		}
		of.err = step.err
		lists, err := d.ServerPreferredResources()
		if len(lists) != 1 || !errors.Is(err, step.err) || of.requests != step.want {
			t.Errorf("%s: %d requests, want %d; %v, %v", step.what, of.requests, step.want, lists, err)
		}
	}
}

// TestObjectsOfNoNamespaceAreReadFromAPIServer: dependents in any namespace may mean them.
func TestObjectsOfNoNamespaceAreReadFromAPIServer(t *testing.T) {
	t.Parallel()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	node := metadataOf("Node", "n", nil)
	node.Namespace, node.UID = "", "1"
	dependent := metadataOf("Node", "other", &metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "1"})
	dependent.Namespace = ""
	client := metadatafake.NewSimpleMetadataClient(scheme, node, dependent)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	c := NewObjects(client, staticMapper{mapper})
	nodes := corev1.SchemeGroupVersion.WithResource("nodes")
	i := c.Shared(nodes)
	c.Start(nil)
	t.Cleanup(c.Shutdown)
	cache.WaitForCacheSync(t.Context().Done(), i.HasSynced)
	if _, err := c.Resource(nodes).Get(t.Context(), "n", metav1.GetOptions{}); err != nil || reads(client) != 1 {
		t.Errorf("%d reads, %v, want one", reads(client), err)
	}
	if c.Mapper() != (staticMapper{mapper}) {
		t.Error("another mapper resolves the versions")
	}
}
