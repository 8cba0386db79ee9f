// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// ownPlane is a plane of the test alone, which it may stop.
type ownPlane struct {
	*testing.T
	dir, metrics string
	process      *testenv.Process
}

// start starts the plane and returns its clusters, in the namespace default.
func (p *ownPlane) start(flags ...string) fleet {
	p.Helper()
	process, err := testenv.Up(p.T, append(flags, "--data-dir="+p.dir, "--listen=127.0.0.1:0", "--metrics-address="+p.metrics, "--insecure-diagnostics")...)
	if err != nil {
		p.Fatal(err)
	}
	p.process = process
	env, err := testenv.Connect(datadir.Dir(p.dir).Kubeconfig())
	if err != nil {
		p.Fatal(err)
	}
	env.Namespace = metav1.NamespaceDefault
	return fleet{p.T, env}
}

func (p *ownPlane) stop() error { return p.process.Stop() }

func (p *ownPlane) crash() error { p.process.Kill(); return nil }

func TestARestartWritesNothingThatChangesNothing(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	p := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	f := p.start()
	clusters := map[string]int{"large": 5, "small": 2} // and their Nodes
	f.create("large", shape{controlPlane: 3, workers: 2})
	f.create("small", shape{workers: 1})
	for name := range clusters {
		f.becomes(name)
	}
	before := f.quiet()
	for _, end := range []func() error{p.stop, p.crash} {
		f.must(end())
		f = p.start()
		f.eventually(func() error { return p.steady(f, slices.Sorted(maps.Keys(clusters)), before) })
		if diff := cmp.Diff(before, f.quiet()); diff != "" {
			t.Fatalf("objects (-before +after):\n%s", diff)
		}
		for name, nodes := range clusters {
			f.must(f.settled(name))
			f.must(f.nodesAre(name, "v1.36.3", nodes))
		}
	}
}

func TestACrashOnTheWayUpCostsNothing(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	p := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	f := p.start()
	for _, objects := range []int{9, 30} { // of about 45
		name := fmt.Sprintf("after-%d", objects)
		f.create(name, shape{controlPlane: 3, workers: 2})
		f.eventually(func() error {
			if have := len(f.objectsOf(name)); have < objects && f.settled(name) != nil {
				return fmt.Errorf("%d objects, want %d", have, objects)
			}
			return nil
		})
		before := f.uids(name, every)
		f.must(p.crash())
		f = p.start()
		f.becomes(name)
		after := f.uids(name, every)
		for _, uid := range before {
			if !slices.Contains(after, uid) {
				t.Errorf("Machine %s was replaced; there are %v", uid, after)
			}
		}
		// A Cluster may report from before the crash that it is healthy, a moment
		// before its machines answer again.
		f.eventually(func() error { return f.nodesAre(name, "v1.36.3", 5) })
	}
}

// quiet returns everything once nothing has changed for longer than status writes
// are delayed, by one controller after the other.
func (f fleet) quiet() map[string]map[string]any {
	f.Helper()
	const length = 2 * time.Second
	last, since := f.everything(), time.Now()
	f.eventually(func() error {
		if now := f.everything(); !equality.Semantic.DeepEqual(last, now) {
			last, since = now, time.Now()
		}
		if time.Since(since) < length {
			return errors.New("objects still change")
		}
		return nil
	})
	return last
}

// steady returns what the controllers still have to do. Each of them must have
// reconciled every object of its kind, and be connected to the clusters.
func (p *ownPlane) steady(f fleet, clusters []string, objects map[string]map[string]any) error {
	m, err := scrape(p.metrics)
	if err != nil {
		return err
	}
	var busy []error
	done := map[string]float64{}
	for series, value := range m {
		name, labels, _ := strings.Cut(series, "{")
		switch {
		case (name == "workqueue_depth" || name == "controller_runtime_active_workers") && value > 0:
			busy = append(busy, fmt.Errorf("%s is %v", series, value))
		case name == "controller_runtime_reconcile_total":
			_, controller, _ := strings.Cut(labels, `controller="`)
			controller, _, _ = strings.Cut(controller, `"`)
			done[controller] += value
		}
	}
	for _, name := range clusters {
		if m[fmt.Sprintf("capi_cluster_cache_connection_up{cluster_name=%q,cluster_namespace=%q}", name, f.Namespace)] != 1 {
			busy = append(busy, fmt.Errorf("there is no connection to %s", name))
		}
	}
	for object := range objects {
		kind, _, _ := strings.Cut(object, " ")
		done[strings.ToLower(kind)]--
	}
	for controller, surplus := range done {
		if surplus < 0 && m[fmt.Sprintf("controller_runtime_active_workers{controller=%q}", controller)] == 0 && hasController(m, controller) {
			busy = append(busy, fmt.Errorf("controller %s has %v objects to reconcile", controller, -surplus))
		}
	}
	return errors.Join(busy...)
}

func hasController(m map[string]float64, name string) bool {
	_, ok := m[fmt.Sprintf("controller_runtime_active_workers{controller=%q}", name)]
	return ok
}

// scrape reads metrics as "name{labels}" -> value.
func scrape(addr string) (map[string]float64, error) {
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	m := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		series, value, ok := strings.Cut(lines.Text(), "} ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			m[series+"}"] = v
		}
	}
	return m, lines.Err()
}

// notOurs are kinds that the API server writes about itself.
var notOurs = []string{"Lease", "Event", "APIService", "FlowSchema", "PriorityLevelConfiguration"}

// everything returns every object of the plane, by kind, namespace and name.
func (f fleet) everything() map[string]map[string]any {
	f.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(f.Config)
	f.must(err)
	lists, err := d.ServerPreferredResources()
	f.must(err)
	c, err := dynamic.NewForConfig(f.Config)
	f.must(err)
	all := map[string]map[string]any{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		f.must(err)
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(notOurs, r.Kind) {
				continue
			}
			objects, err := c.Resource(gv.WithResource(r.Name)).List(f.Context(), metav1.ListOptions{})
			f.must(err)
			for i := range objects.Items {
				o := &objects.Items[i]
				o.SetManagedFields(nil)
				all[r.Kind+" "+o.GetNamespace()+"/"+o.GetName()] = o.Object
			}
		}
	}
	return all
}
