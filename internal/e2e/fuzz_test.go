// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// fuzzVariable holds how long random objects are written. By default it is two rounds.
const fuzzVariable = "CAPSTAN_FUZZ"

// onlyTried are the groups whose objects configure an API server itself: one at random
// can refuse all other requests, as on any cluster. They are written as dry runs.
var onlyTried = []string{"admissionregistration.k8s.io", "apiregistration.k8s.io", "flowcontrol.apiserver.k8s.io"}

// TestRandomObjectsOfAllKindsAreHandled writes random objects, most of them not valid, of
// all kinds that a plane and a simulated cluster of it serve, changes them and deletes
// them. Nothing panics, and the plane has as many goroutines and as much memory after each
// round. "make fuzz" runs it for as long as FUZZ says.
func TestRandomObjectsOfAllKindsAreHandled(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	var length time.Duration
	if text := os.Getenv(fuzzVariable); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := time.Now().UnixNano()
	if text := os.Getenv(fuzzVariable + "_SEED"); text != "" || length == 0 {
		seed, _ = strconv.ParseInt(text, 10, 64) // 0 by default
	}
	t.Logf("seed %d", seed)
	p := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	profiles, log := testenv.FreeAddress(t), datadir.Dir(p.dir).Log()
	f := p.start("--pprof-address=" + profiles)
	f.create("c", shape{workers: 1})
	f.becomes("c")
	random := rand.New(rand.NewSource(seed))
	servers := []*fuzzed{newFuzzed(f, f.Config, random), newFuzzed(f, f.workloadConfig("c"), random)}
	var first usage
	start, written, accepted := time.Now(), 0, 0
	for round := 0; round < 2 || time.Since(start) < length; round++ {
		for _, s := range servers {
			n, ok := s.round(t)
			written, accepted = written+n, accepted+ok
		}
		if how, exited := p.process.Exit(); exited {
			t.Fatalf("round %d: the plane has exited: %s", round, how)
		}
		if text, err := os.ReadFile(log); err != nil || bytes.Contains(text, []byte("Observed a panic")) {
			at := max(0, bytes.Index(text, []byte("Observed a panic"))-500)
			t.Fatalf("round %d: %v, a panic in the log: %s", round, err, text[at:min(len(text), at+5000)])
		}
		if time.Since(start) < length/4 || first.goroutines == 0 { // caches are full then
			first = usageOf(t, profiles)
			continue
		}
		testenv.Eventually(t, func() error { return usageOf(t, profiles).exceeds(first) })
	}
	t.Logf("%d objects, %d accepted; %+v, then %+v", written, accepted, first, usageOf(t, profiles))
	f.becomes("c")
	f.remove("c")
}

// usage is what a plane has after a collection of garbage.
type usage struct{ goroutines, bytes int }

var (
	goroutineCount = regexp.MustCompile(`goroutine profile: total (\d+)`)
	heapSize       = regexp.MustCompile(`# HeapAlloc = (\d+)`)
)

func usageOf(t *testing.T, profiles string) usage {
	t.Helper()
	read := func(path string, number *regexp.Regexp) int {
		resp, err := http.Get("http://" + profiles + "/debug/pprof/" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }() // read to its end
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		match := number.FindSubmatch(text)
		if match == nil {
			t.Fatalf("%s: no %s in %.300s", path, number, text)
		}
		n, err := strconv.Atoi(string(match[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return usage{bytes: read("heap?gc=1&debug=1", heapSize), goroutines: read("goroutine?debug=1", goroutineCount)}
}

// exceeds returns how u is larger than an earlier usage, with room for what runs now and
// then.
func (u usage) exceeds(first usage) error {
	if u.goroutines > first.goroutines*6/5+50 || u.bytes > first.bytes*3/2 {
		return fmt.Errorf("%+v, want about %+v", u, first)
	}
	return nil
}

func (f fleet) workloadConfig(name string) *rest.Config {
	f.Helper()
	secret := &corev1.Secret{}
	f.must(f.Client.Get(f.Context(), f.key(certs.SecretName(name, certs.Kubeconfig)), secret))
	cfg, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	f.must(err)
	return cfg
}

// fuzzed is an API server, and what it serves.
type fuzzed struct {
	*rand.Rand
	client  dynamic.Interface
	kinds   []metav1.APIResource // with group and version
	schemas map[string]map[string]any
	of      map[schema.GroupVersionKind]map[string]any
}

func newFuzzed(f fleet, cfg *rest.Config, random *rand.Rand) *fuzzed {
	f.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	s := &fuzzed{Rand: random, schemas: map[string]map[string]any{}, of: map[schema.GroupVersionKind]map[string]any{}}
	var err error
	s.client, err = dynamic.NewForConfig(cfg)
	f.must(err)
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	f.must(err)
	_, lists, err := d.ServerGroupsAndResources()
	f.must(err)
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		f.must(err)
		for _, r := range l.APIResources {
			if !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "create") {
				r.Group, r.Version = gv.Group, gv.Version
				s.kinds = append(s.kinds, r)
			}
		}
	}
	paths, err := d.OpenAPIV3().Paths()
	f.must(err)
	for _, doc := range paths {
		raw, err := doc.Schema("application/json")
		f.must(err)
		var content struct {
			Components struct{ Schemas map[string]map[string]any }
		}
		f.must(json.Unmarshal(raw, &content))
		for name, one := range content.Components.Schemas {
			s.schemas[name] = one
			kinds, _ := one["x-kubernetes-group-version-kind"].([]any)
			for _, k := range kinds {
				k := k.(map[string]any)
				s.of[schema.GroupVersionKind{Group: k["group"].(string), Version: k["version"].(string), Kind: k["kind"].(string)}] = one
			}
		}
	}
	return s
}

// round writes objects of each kind and deletes them, and returns how many of them were
// accepted.
func (s *fuzzed) round(t *testing.T) (written, accepted int) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	type made struct {
		client dynamic.ResourceInterface
		name   string
	}
	var all []made
	for _, i := range s.Perm(len(s.kinds)) {
		r := s.kinds[i]
		gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Name}
		var c dynamic.ResourceInterface = s.client.Resource(gvr)
		if r.Namespaced {
			c = s.client.Resource(gvr).Namespace(metav1.NamespaceDefault)
		}
		var options metav1.CreateOptions
		if slices.Contains(onlyTried, r.Group) {
			options.DryRun = []string{metav1.DryRunAll}
		}
		for range 3 {
			obj := s.object(r)
			written++
			out, err := c.Create(ctx, obj, options)
			if err != nil {
				continue
			}
			accepted++
			if out.GetName() == "" || options.DryRun != nil {
				continue
			}
			all = append(all, made{c, out.GetName()})
			change, err := json.Marshal(map[string]any{"spec": s.object(r).Object["spec"], "metadata": map[string]any{"labels": map[string]any{"a": s.text()}}})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.Patch(ctx, out.GetName(), types.MergePatchType, change, metav1.PatchOptions{}) // it may be refused
		}
	}
	for _, m := range all {
		_ = m.client.Delete(ctx, m.name, metav1.DeleteOptions{}) // it may be deleted
		_, _ = m.client.Patch(ctx, m.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	}
	return written, accepted
}

// object returns a random object of a kind, with a valid name most of the time.
func (s *fuzzed) object(r metav1.APIResource) *unstructured.Unstructured {
	gvk := schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	obj, _ := s.value(s.of[gvk], 0).(map[string]any)
	if obj == nil {
		obj = map[string]any{}
	}
	u := &unstructured.Unstructured{Object: obj}
	if _, ok := obj["metadata"].(map[string]any); !ok || s.Intn(10) > 0 {
		obj["metadata"] = map[string]any{}
	}
	u.SetGroupVersionKind(gvk)
	u.SetName(fmt.Sprintf("fuzz-%d", s.Intn(5)))
	u.SetResourceVersion("")
	if r.Name == "customresourcedefinitions" {
		u.SetName("fuzzes.example.com")
	}
	if r.Namespaced {
		u.SetNamespace(metav1.NamespaceDefault)
	}
	return u
}

const maxFuzzDepth = 12

// value returns a random value of a schema, of another type now and then.
func (s *fuzzed) value(of map[string]any, depth int) any {
	for range 5 {
		name, _ := of["$ref"].(string)
		if all, ok := of["allOf"].([]any); ok && len(all) == 1 {
			name, _ = all[0].(map[string]any)["$ref"].(string)
		}
		if name == "" {
			break
		}
		of = s.schemas[strings.TrimPrefix(name, "#/components/schemas/")]
	}
	if s.Intn(60) == 0 {
		return []any{s.text(), s.number(), true, nil, []any{}, map[string]any{}}[s.Intn(6)]
	}
	if enum, ok := of["enum"].([]any); ok && s.Intn(10) > 0 {
		return enum[s.Intn(len(enum))]
	}
	switch of["type"] {
	case "object":
		return s.fields(of, depth)
	case "array":
		list := []any{}
		items, _ := of["items"].(map[string]any)
		for range min(s.Intn(4), maxFuzzDepth-depth) {
			list = append(list, s.value(items, depth+1))
		}
		return list
	case "integer", "number":
		return s.number()
	case "boolean":
		return s.Intn(2) == 0
	}
	if s.Intn(4) == 0 && of["type"] == nil {
		return s.number()
	}
	if of["format"] == "date-time" && s.Intn(10) > 0 {
		return "2026-08-01T12:00:00Z"
	}
	return s.text()
}

func (s *fuzzed) fields(of map[string]any, depth int) map[string]any {
	out := map[string]any{}
	required, _ := of["required"].([]any)
	properties, _ := of["properties"].(map[string]any)
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names) // the same with the same seed
	for _, name := range names {
		must := slices.Contains(required, any(name)) || name == "spec"
		if must && s.Intn(50) > 0 || depth < maxFuzzDepth && s.Intn(depth+2) == 0 {
			out[name] = s.value(properties[name].(map[string]any), depth+1)
		}
	}
	if more, ok := of["additionalProperties"].(map[string]any); ok {
		for range s.Intn(3) {
			out[s.text()] = s.value(more, depth+1)
		}
	}
	return out
}

func (s *fuzzed) number() any {
	return []any{int64(0), int64(1), int64(2), int64(3), int64(80), int64(-1), int64(70000), int64(1<<31 - 1), int64(1<<63 - 1), 0.5}[s.Intn(10)]
}

var fuzzTexts = []string{
	"a", "b", "c", "default", "fuzz-0", "a.example.com", "example.com/a", "v1", "v1.36.3", "Cluster", "c-workers", "fuzzes", "Fuzz", "10.0.0.1", "127.0.0.1", "10.0.0.0/8", "::1",
	"https://127.0.0.1:1", "5%", "1Gi", "* * * * *", "TZ=0", "@every 1ns", "{{ range 99999999 }}x{{ end }}", "^(a{1,1000}){1,1000}$", "self == oldSelf", "", " ", "..", "a/../b", "\x00", "ü", "A_B",
	"AAAA", "Equal", "Exists", "In", "Always", "true", "string", "object", strings.Repeat("a", 64), strings.Repeat("a", 300), strings.Repeat("a.", 5000),
}

func (s *fuzzed) text() string { return fuzzTexts[s.Intn(len(fuzzTexts))] }
