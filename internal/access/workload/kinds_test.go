// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// subscribed counts reported changes of definitions.
func subscribed(t *testing.T, f fleet) *atomic.Int32 {
	t.Helper()
	var told atomic.Int32
	src := f.Source(&metav1.PartialObjectMetadata{}, func(context.Context, client.ObjectKey, client.Object) []reconcile.Request {
		told.Add(1)
		return nil
	})
	if err := src.Start(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return &told
}

func TestDefinitionsAreWatchedWhileAKindIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		news, watching := make(chan string), atomic.Int32{}
		s.hostile = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != definitions {
				return false
			}
			watching.Add(1)
			defer watching.Add(-1)
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			for {
				select {
				case e := <-news:
					_, _ = fmt.Fprintln(w, e)
					w.(http.Flusher).Flush()
				case <-r.Context().Done():
					return true
				}
			}
		}
		f := startFleet(t, map[string]*server{"demo": s})
		f.AwaitKinds(keyOf("demo")) // not connected: nothing happens
		f.reconcile(t, "demo")
		synctest.Wait()
		told := subscribed(t, f)
		if time.Sleep(time.Minute); s.count(definitions) != 0 {
			t.Error("definitions are watched although no caller waits")
		}
		for range 5 { // callers that wait repeat the call
			f.AwaitKinds(keyOf("demo"))
			time.Sleep(time.Minute)
		}
		if s.count(definitions) != 1 || watching.Load() != 1 {
			t.Errorf("%d requests, %d open", s.count(definitions), watching.Load())
		}
		news <- `{"type":"ADDED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"widgets.example.com"}}}`
		if synctest.Wait(); told.Load() != 1 {
			t.Errorf("told %d times", told.Load())
		}
		if time.Sleep(2 * awaited); watching.Load() != 0 || s.count(definitions) != 1 {
			t.Errorf("no caller waits: %d requests, %d open", s.count(definitions), watching.Load())
		}
		f.AwaitKinds(keyOf("demo"))
		if time.Sleep(time.Second); watching.Load() != 1 {
			t.Error("who waits later is not heard")
		}
	})
}

func TestAServerThatShowsNoDefinitionsIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		s.hostile = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != definitions {
				return false
			}
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		f := startFleet(t, map[string]*server{"demo": s})
		f.reconcile(t, "demo")
		synctest.Wait()
		for asked := 1; asked < 3; asked++ {
			f.AwaitKinds(keyOf("demo"))
			if time.Sleep(time.Minute); s.count(definitions) != asked {
				t.Errorf("asked %d times, want %d", s.count(definitions), asked)
			}
		}
	})
}
