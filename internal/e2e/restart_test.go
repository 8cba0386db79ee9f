// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// quiet is for how long nothing may change until all is at rest. What the
// controllers put off they put off for less.
const quiet = 4 * time.Second

// TestARestartWritesNothing restarts a plane whose cluster is as it should be.
// A status that was taken back would show, too: each write makes a new version.
func TestARestartWritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plane, f := startOn(t, dir)
	f.create("c", shape{controlPlane: 3, workers: 2})
	f.becomes("c")
	before := f.atRest()

	if err := plane.Stop(); err != nil {
		t.Fatal(err)
	}
	plane, f = startOn(t, dir)
	f.eventually(func() error { return f.nodesAre("c", "v1.36.3", 5) })
	if diff := cmp.Diff(before, f.atRest()); diff != "" {
		t.Errorf("versions before and after a stop (-before +after):\n%s", diff)
	}

	plane.Kill()
	plane, f = startOn(t, dir)
	f.eventually(func() error { return f.nodesAre("c", "v1.36.3", 5) })
	if diff := cmp.Diff(before, f.atRest()); diff != "" {
		t.Errorf("versions before and after a crash (-before +after):\n%s", diff)
	}

	// It was not quiet because nobody looks after the cluster any more.
	modify(f, "c-workers", &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(3)) })
	f.becomes("c")
	if err := plane.Stop(); err != nil {
		t.Fatal(err)
	}
}

// startOn starts a plane of the test's own.
func startOn(t *testing.T, dir string) (*testenv.Process, fleet) {
	t.Helper()
	p, err := testenv.Up(t, "--data-dir="+dir, "--listen=127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	env, err := testenv.Connect(datadir.Dir(dir).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	env.Namespace = metav1.NamespaceDefault
	return p, fleet{t, env}
}

// atRest waits until nothing has changed for a while, and returns the versions
// of all objects.
func (f fleet) atRest() map[string]string {
	f.Helper()
	var last map[string]string
	var since time.Time
	f.eventually(func() error {
		now, err := f.versions()
		if err != nil {
			return err
		}
		if diff := cmp.Diff(last, now); diff != "" {
			last, since = now, time.Now()
			return fmt.Errorf("still changing (-before +after):\n%s", diff)
		}
		if time.Since(since) < quiet {
			return fmt.Errorf("at rest for less than %s", quiet)
		}
		return nil
	})
	return last
}

// versions returns the resource version of every object of the plane.
func (f fleet) versions() (map[string]string, error) {
	d, err := discovery.NewDiscoveryClientForConfig(f.Config)
	if err != nil {
		return nil, err
	}
	groups, err := d.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, group := range groups {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		if gv.Group == "admissionregistration.k8s.io" {
			continue // names a port, which another program may have taken meanwhile
		}
		for _, r := range group.APIResources {
			if !slices.Contains(r.Verbs, "watch") || r.Name == "endpoints" {
				continue // not stored, or long replaced by something that is
			}
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(gv.WithKind(r.Kind + "List"))
			if err := f.Client.List(f.Context(), list); err != nil {
				return nil, fmt.Errorf("list %s: %w", r.Name, err)
			}
			for _, obj := range list.Items {
				versions[fmt.Sprintf("%s %s/%s", r.Name, obj.Namespace, obj.Name)] = obj.ResourceVersion
			}
		}
	}
	return versions, nil
}
