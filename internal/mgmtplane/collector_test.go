// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"

	"github.com/capstan-dev/capstan/internal/mgmtplane/kubecontrollers"
)

// The second handler of errors waits a millisecond after the last error, whose time
// it stores for the process. An error at virtual time would make the planes of
// other tests wait for decades.
func init() { utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] }

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// servedKinds is an API server that serves Secrets, and Widgets at times.
type servedKinds struct {
	discovery.ServerResourcesInterface
	*meta.DefaultRESTMapper
	*metadatafake.FakeMetadataClient

	mu       sync.Mutex // guards what follows
	served   bool       // Widgets
	requests int        // of Widgets
	watches  []*watch.FakeWatcher
}

func newServedKinds() *servedKinds {
	s := &servedKinds{
		DefaultRESTMapper:  meta.NewDefaultRESTMapper(nil),
		FakeMetadataClient: metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()),
	}
	s.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	s.Add(widgets.GroupVersion().WithKind("Widget"), meta.RESTScopeNamespace)
	s.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, s.request(a)
	})
	s.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w := watch.NewFake()
		if err := s.request(a); err != nil {
			return true, nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if a.GetResource() == widgets {
			s.watches = append(s.watches, w)
		}
		return true, w, nil
	})
	return s
}

func (s *servedKinds) request(a clienttesting.Action) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.GetResource() != widgets {
		return nil
	}
	s.requests++
	if !s.served {
		return apierrors.NewNotFound(widgets.GroupResource(), "")
	}
	return nil
}

// serve defines Widgets, or deletes their definition, which ends their watches.
func (s *servedKinds) serve(served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = served
	if !served {
		for _, w := range s.watches {
			w.Stop()
		}
		s.watches = nil
	}
}

func (s *servedKinds) watched() bool {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.watches, func(w *watch.FakeWatcher) bool { return !w.IsStopped() })
}

// requestsIn counts the requests of Widgets in a time.
func (s *servedKinds) requestsIn(d time.Duration) int {
	s.mu.Lock()
	s.requests = 0
	s.mu.Unlock()
	<-time.After(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func (s *servedKinds) Reset() {}

func (s *servedKinds) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	verbs := metav1.Verbs{"delete", "list", "watch"}
	list := []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: verbs}}}}
	if s.served {
		list = append(list, &metav1.APIResourceList{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Namespaced: true, Verbs: verbs}}})
	}
	return list, nil
}

func TestCollectorRequestsOnlyServedKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The handlers of client-go sleep until a time after the start of the
		// process before they report an error. A bubble starts in 2000.
		<-time.After(100 * 365 * 24 * time.Hour)
		s := newServedKinds()
		objects := kubecontrollers.NewObjects(s, s)
		typed, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		informing := make(chan struct{})
		gc, err := garbagecollector.NewGarbageCollector(ctx, typed, objects, s, nil, objects, informing)
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() { gc.Run(ctx, 1, time.Minute) })
		running.Go(func() { gc.Sync(ctx, s, gcSyncPeriod) })
		close(informing)
		ended := make(chan struct{})
		close(ended)
		// A kind that is defined again is followed again, as often as it is.
		for range 3 {
			s.serve(true)
			<-time.After(time.Minute)
			if !gc.GetDependencyGraphBuilder().IsResourceSynced(widgets) {
				t.Error("the collector does not follow Widgets that are served")
			}
			other, err := objects.ForResource(widgets)
			if err != nil {
				t.Fatal(err)
			}
			other.Informer().GetController().Run(ended)
			if !s.watched() {
				t.Error("the collector stopped to follow Widgets when another controller did")
			}
			s.serve(false)
			// What only lists a kind does not follow it.
			if _, err := objects.ForResource(widgets); err != nil {
				t.Fatal(err)
			}
			objects.Start(nil)
			<-time.After(time.Minute)
			if n := s.requestsIn(10 * time.Minute); n > 0 {
				t.Errorf("%d requests in 10 minutes of a kind that is no longer served", n)
			}
		}
		cancel()
		running.Wait()
		objects.Shutdown()
	})
}
