// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// counted makes c count what it reads.
func counted(c *Client) *int {
	reads := 0
	c.mgmt = interceptor.NewClient(c.mgmt, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, obj, opts...)
		},
	})
	return &reads
}

// write changes an object as its controller would.
func write(t *testing.T, c *Client, o Object, value any, path ...string) {
	t.Helper()
	if err := c.change(t.Context(), o.GroupVersionKind(), o.ObjectKey, false, func(obj *unstructured.Unstructured) error { return set(obj, value, path...) }); err != nil {
		t.Error(err)
	}
}

// TestAWaitReadsWhenSomethingHasChanged has a rollout take an hour.
func TestAWaitReadsWhenSomethingHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := newClient(t, world), object(t, "md/owned")
		reads, told, done := counted(c), []string(nil), make(chan error, 1)
		go func() { done <- c.Wait(t.Context(), o, func(text string) { told = append(told, text) }) }()
		time.Sleep(time.Minute)
		atFirst := *reads
		time.Sleep(time.Hour)
		if *reads != atFirst || atFirst > 2 {
			t.Errorf("%d reads at first, and %d while nothing changed; want at most 2, and none", atFirst, *reads-atFirst)
		}
		write(t, c, o, int64(1), "status", "upToDateReplicas")
		time.Sleep(time.Minute)
		write(t, c, o, int64(1), "status", "availableReplicas")
		if err := <-done; err != nil {
			t.Error(err)
		}
		if d := cmp.Diff([]string{"Waiting for 1 of 1 machines to be up to date", "Waiting for 1 of 1 machines to be available"}, told); d != "" {
			t.Errorf("told (-want +got):\n%s", d)
		}
	})
}

// TestAWaitEnds with its context, and with a pause.
func TestAWaitEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		act  func(*testing.T, *Client, Object)
		want string
	}{
		"when time is over":     {act: func(*testing.T, *Client, Object) {}, want: "still waiting for 1 of 1 machines to be up to date"},
		"when a user pauses it": {act: func(t *testing.T, c *Client, o Object) { write(t, c, o, true, "spec", "paused") }, want: "it is paused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, o := newClient(t, world), object(t, "md/owned")
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- c.Wait(ctx, o, func(string) {}) }()
				time.Sleep(time.Minute)
				tc.act(t, c, o)
				if err := <-done; err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			})
		})
	}
}

// TestAWaitForAClusterSeesItsParts has the control plane change, and then workers.
func TestAWaitForAClusterSeesItsParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, kcp, md := newClient(t, world), object(t, "kcp/plain"), object(t, "md/md")
		done := make(chan error, 1)
		go func() {
			done <- c.WaitUpgraded(t.Context(), client.ObjectKey{Namespace: "ns", Name: "plain"}, "v1.34.0", func(string) {})
		}()
		for _, step := range []func(){
			func() { write(t, c, kcp, "v1.34.0", "spec", "version") },
			func() { write(t, c, kcp, "v1.34.0", "status", "version") },
			func() { write(t, c, md, "v1.34.0", "spec", "template", "spec", "version") },
		} {
			time.Sleep(time.Minute)
			select {
			case err := <-done:
				t.Fatalf("ended too early: %v", err)
			default:
			}
			step()
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
