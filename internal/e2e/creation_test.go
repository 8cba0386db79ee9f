// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/template"
)

// losing is a connection that is lost at a creation.
type losing struct {
	http.RoundTripper
	left *atomic.Int32 // creations that still succeed
}

func (l losing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && r.URL.Query().Get("dryRun") == "" && l.left.Add(-1) < 0 {
		return nil, errors.New("the connection is lost")
	}
	return l.RoundTripper.RoundTrip(r)
}

// TestADeletionTakesAlongWhatAnInterruptedCreationMade ends creations after some of
// their seven objects: the Cluster must own the rest, or refer to it.
func TestADeletionTakesAlongWhatAnInterruptedCreationMade(t *testing.T) {
	t.Parallel()
	for _, made := range []int32{1, 3, 6} {
		t.Run(fmt.Sprintf("%d objects", made), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			left := &atomic.Int32{}
			left.Store(made)
			cfg := rest.CopyConfig(f.Config)
			cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return losing{rt, left} })
			c, err := clusterctl.New(cfg)
			f.must(err)
			doc, err := clusterctl.Generate(clusterctl.GenerateOptions{Name: "c", Namespace: f.Namespace, KubernetesVersion: "v1.36.3", Template: template.LocalMachinePool(), WorkerMachines: new(int32(1))})
			f.must(err)
			silent := func(clusterctl.Event) {}
			if err := c.Create(t.Context(), doc, silent); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("made so far: %d of 7 objects", made)) {
				t.Fatalf("error %v", err)
			}
			if have := len(f.objectsOf("c")); have < int(made) {
				t.Errorf("%d objects, want those that were made", have)
			}
			f.must(c.DeleteCluster(t.Context(), f.key("c")))
			f.must(c.WaitDeleted(t.Context(), f.key("c"), silent))
			f.eventually(func() error {
				if left := f.objectsOf("c"); len(left) > 0 {
					return fmt.Errorf("left behind: %v", left)
				}
				return nil
			})
		})
	}
}
