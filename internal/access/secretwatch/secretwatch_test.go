// SPDX-License-Identifier: Apache-2.0

package secretwatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// secretsAPI serves watches of Secrets, each of one Secret, and nothing else.
type secretsAPI struct {
	metadata.Interface
	metadata.Getter

	namespace string
	mu        *sync.Mutex // guards open
	open      map[string]*watch.FakeWatcher
}

func (a secretsAPI) Resource(r schema.GroupVersionResource) metadata.Getter {
	if r.Resource != "secrets" {
		panic(r)
	}
	return a
}

func (a secretsAPI) Namespace(namespace string) metadata.ResourceInterface {
	a.namespace = namespace
	return a
}

func (a secretsAPI) List(_ context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (a secretsAPI) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		return nil, errors.New("lists only")
	}
	w, of := watch.NewFake(), a.namespace+" "+o.FieldSelector
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[of] != nil {
		return nil, fmt.Errorf("%s is watched twice", of)
	}
	a.open[of] = w
	context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.open, of)
	})
	return w, nil
}

func (a secretsAPI) change(of string) {
	a.mu.Lock()
	w := a.open[of]
	a.mu.Unlock()
	w.Modify(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: of, ResourceVersion: "2"}})
}

// watched is a set of watches, and the queue to which they add requests.
type watched struct {
	*testing.T
	*Watches
	*Follower
	api   secretsAPI
	woken queue
}

func newWatched(t *testing.T) *watched {
	api := secretsAPI{mu: &sync.Mutex{}, open: map[string]*watch.FakeWatcher{}}
	all := New(api)
	return &watched{t, all, all.Follower(), api, workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())}
}

func (w *watched) expect(want ...string) {
	w.Helper()
	synctest.Wait()
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	if got := slices.Sorted(maps.Keys(w.api.open)); !slices.Equal(got, want) {
		w.Errorf("watches %q, want %q", got, want)
	}
}

func (w *watched) triggered(want ...string) {
	w.Helper()
	synctest.Wait()
	var got []string
	for w.woken.Len() > 0 {
		req, _ := w.woken.Get()
		w.woken.Done(req)
		got = append(got, req.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.Errorf("reconciled %q, want %q", got, want)
	}
}

func TestOneSecretIsWatchedOnceForAllThatNameIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		defer w.woken.ShutDown()
		ctx, cancel := context.WithCancel(t.Context())
		a, b := client.ObjectKey{Namespace: "ns", Name: "a"}, client.ObjectKey{Namespace: "ns", Name: "b"}
		w.Follow(client.ObjectKey{Name: "early"}, a)
		w.expect() // no controller has started yet
		if err := w.Start(ctx, w.woken); err != nil {
			t.Fatal(err)
		}
		w.expect("ns metadata.name=a")

		w.Follow(client.ObjectKey{Name: "late"}, a)
		w.Follow(client.ObjectKey{Name: "other"}, b)
		w.expect("ns metadata.name=a", "ns metadata.name=b")
		w.api.change("ns metadata.name=a")
		w.triggered("early", "late")
		w.api.change("ns metadata.name=b")
		w.triggered("other")

		w.Follow(client.ObjectKey{Name: "early"}, b) // instead of a
		w.expect("ns metadata.name=a", "ns metadata.name=b")
		w.api.change("ns metadata.name=a")
		w.triggered("late")

		w.Follow(client.ObjectKey{Name: "late"}, client.ObjectKey{})
		w.Follow(client.ObjectKey{Name: "late"}, client.ObjectKey{})
		w.expect("ns metadata.name=b")

		ended := make(chan error, 1)
		go func() { ended <- w.Wait(ctx) }()
		cancel()
		if err := <-ended; err != nil { // synctest fails if a goroutine is left
			t.Error(err)
		}
		w.expect()
		w.Follow(client.ObjectKey{Name: "late"}, a)
		w.expect()
	})
}

func TestOneObjectMayNameSeveralSecrets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		defer w.woken.ShutDown()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a, b := client.ObjectKey{Namespace: "ns", Name: "a"}, client.ObjectKey{Namespace: "ns", Name: "b"}
		if err := w.Start(ctx, w.woken); err != nil {
			t.Fatal(err)
		}
		other := w.Watches.Follower()
		other.Follow(client.ObjectKey{Name: "idle"}, a) // its controller has not started
		w.Follow(client.ObjectKey{Name: "one"}, a, b, client.ObjectKey{})
		w.expect("ns metadata.name=a", "ns metadata.name=b")
		w.api.change("ns metadata.name=a")
		w.triggered("one")
		w.Follow(client.ObjectKey{Name: "one"}, b)
		w.expect("ns metadata.name=a", "ns metadata.name=b") // the other one still names it
		other.Follow(client.ObjectKey{Name: "idle"})
		w.expect("ns metadata.name=b")
	})
}

func TestWithoutWatchesNothingIsFollowed(t *testing.T) {
	t.Parallel()
	var none *Watches
	f := none.Follower()
	f.Follow(client.ObjectKey{Name: "ext"}, client.ObjectKey{Namespace: "ns", Name: "a"})
	if err := f.Start(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
