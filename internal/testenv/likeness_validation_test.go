// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// valid has objects that API servers accept.
//
//go:embed testdata/valid.yaml
var valid []byte

// validationDiffers are the objects, as KIND PATH=VALUE, that only one of both accepts.
var validationDiffers = []difference{
	{regexp.MustCompile(`^Pod .*spec\.serviceAccountName`), "its kubelets start Pods without an account"},
	{regexp.MustCompile(`^Pod .*spec\.preemptionPolicy`), "nothing is preempted, so no priority is computed"},
}

// brokenVariable holds the number of combinations of faults of each object. Without it
// there are 10, and a quarter of the faults.
const brokenVariable = "CAPSTAN_BROKEN_OBJECTS"

// TestValidationIsThatOfAnAPIServer sends objects of built-in kinds to an API server and to
// that of a simulated cluster: valid ones, those with one field removed or broken in each
// way, and random combinations of such faults. Both accept an object, or both refuse it.
func TestValidationIsThatOfAnAPIServer(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	genuine, simulated := newWriter(t, testenv.Foreign(t).Config), newWriter(t, simulatedCluster(t))
	sent, used := 0, map[*regexp.Regexp]bool{}
	compare := func(name string, obj map[string]any) (refusal string) {
		sent++
		want, got := genuine.refusal(t, obj), simulated.refusal(t, obj)
		if (want == "") == (got == "") {
			return want
		}
		if at := slices.IndexFunc(validationDiffers, func(d difference) bool { return d.path.MatchString(name) }); at >= 0 {
			used[validationDiffers[at].path] = true
			return want
		}
		t.Errorf("%s:\nan API server: %s\na simulated one: %s", name, cmp.Or(want, "accepted"), cmp.Or(got, "accepted"))
		return want
	}
	for _, w := range []writer{genuine, simulated} {
		w.create(t, "/api/v1/namespaces/default/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"s"}}`)
		w.create(t, "/apis/scheduling.k8s.io/v1/priorityclasses", `{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high"},"value":5}`)
	}
	combinations, complete := 10, false
	if text := os.Getenv(brokenVariable); text != "" {
		var err error
		if combinations, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		complete = true
	}
	random := rand.New(rand.NewSource(1))
	for doc := range bytes.SplitSeq(valid, []byte("\n---\n")) {
		obj := map[string]any{}
		if err := yaml.Unmarshal(doc, &obj); err != nil {
			t.Fatal(err)
		}
		kind := (&unstructured.Unstructured{Object: obj}).GetKind()
		if refusal := compare(kind, obj); refusal != "" {
			t.Errorf("%s of valid.yaml is not valid: %s", kind, refusal)
		}
		faults := faultsOf(nil, obj)
		for _, f := range faults {
			if complete || random.Intn(4) == 0 {
				compare(kind+" "+f.String(), f.in(obj))
			}
		}
		for range combinations {
			broken, name := obj, kind
			for range 2 + random.Intn(2) {
				f := faults[random.Intn(len(faults))]
				broken, name = f.in(broken), name+" "+f.String()
			}
			compare(name, broken)
		}
	}
	for _, d := range validationDiffers {
		if complete && !used[d.path] {
			t.Errorf("%s does not differ: take it off the list", d.path)
		}
	}
	t.Logf("%d objects", sent)
}

// fault is one change of an object. A value of nil removes what is at the path.
type fault struct {
	path  []any // names of fields, and indexes
	value any
}

func (f fault) String() string {
	var b strings.Builder
	for _, p := range f.path {
		fmt.Fprintf(&b, ".%v", p)
	}
	if f.value == nil {
		return b.String()[1:] + " removed"
	}
	raw, err := json.Marshal(f.value)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s=%.60s", b.String()[1:], raw)
}

// in returns a copy of an object with the fault.
func (f fault) in(obj map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(obj)
	f.set(out, f.path)
	return out
}

// set returns v with the fault at a path, or v if an earlier fault removed the path.
func (f fault) set(v any, path []any) any {
	switch at := v.(type) {
	case map[string]any:
		name, ok := path[0].(string)
		_, there := at[name]
		switch {
		case !ok || !there && len(path) > 1:
		case len(path) == 1 && f.value == nil:
			delete(at, name)
		case len(path) == 1:
			at[name] = runtime.DeepCopyJSONValue(f.value)
		default:
			at[name] = f.set(at[name], path[1:])
		}
	case []any:
		i, ok := path[0].(int)
		switch {
		case !ok || i >= len(at):
		case len(path) == 1 && f.value == nil:
			return slices.Delete(at, i, i+1)
		case len(path) == 1:
			at[i] = runtime.DeepCopyJSONValue(f.value)
		default:
			at[i] = f.set(at[i], path[1:])
		}
	}
	return v
}

// faultsOf lists the faults that v, which is at a path, can have.
func faultsOf(path []any, v any) (out []fault) {
	below := func(step any, v any) { out = append(out, faultsOf(append(slices.Clone(path), step), v)...) }
	become := func(values ...any) {
		for _, value := range values {
			out = append(out, fault{path, value})
		}
	}
	if len(path) == 1 && (path[0] == "apiVersion" || path[0] == "kind" || path[0] == "status") {
		return nil // decoding checks them, or they are dropped
	}
	if len(path) > 0 {
		become(nil)
	}
	switch v := v.(type) {
	case map[string]any:
		if len(path) > 1 {
			become(map[string]any{})
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below(key, v[key])
		}
		if one := first(v); one != nil && len(path) > 1 {
			for _, key := range []string{"A b", "", "/x", "x/", "..", strings.Repeat("a", 64), strings.Repeat("a", 254), "example.com/A_b"} {
				out = append(out, fault{append(slices.Clone(path), key), one})
			}
		}
	case []any:
		become([]any{}, append(slices.Clone(v), v[len(v)-1]))
		for i := range v {
			below(i, v[i])
		}
	case string:
		become("", " ", "x", "X", "A_ b", "a.b", "..", "/x", "x/..", "a:b", "-1", "0", "1", "1.5", "70000", "101%", "1Gi", "10.0.0.1", "010.0.0.1", "127.0.0.1", "::1", "10.0.0.1/8", "10.0.0.0/8", "fd00::/8", "Always", "Never", "None", "example.com/a", "a\nb", strings.Repeat("a", 64), strings.Repeat("a", 254))
	case float64, int64:
		become(int64(-1), int64(0), int64(1), int64(2), int64(101), int64(65536), int64(1<<31-1), "x", "101%")
	case bool:
		become(!v)
	}
	return out
}

// first returns the first value of a map that has no lists and objects.
func first(m map[string]any) (one any) {
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(m))) {
		one = m[key]
		switch one.(type) {
		case map[string]any, []any:
			return nil
		}
	}
	return one
}

// writer sends objects to an API server.
type writer struct {
	host string
	hc   *http.Client
}

func newWriter(t *testing.T, cfg *rest.Config) writer {
	t.Helper()
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return writer{cfg.Host, hc}
}

// refusal returns why a server would not create an object; empty if it would.
func (w writer) refusal(t *testing.T, obj map[string]any) string {
	t.Helper()
	u := &unstructured.Unstructured{Object: obj}
	k := kinds.Everywhere().ByKind(u.GroupVersionKind())
	path := "/apis/" + k.GroupVersion().String()
	if k.Group == "" {
		path = "/api/v1"
	}
	if k.Namespaced {
		path += "/namespaces/default"
	}
	body, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return w.create(t, path+"/"+k.Resource+"?dryRun=All", string(body))
}

// create posts an object, and returns why it was refused; empty if it was created.
func (w writer) create(t *testing.T, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var status struct{ Message string }
	if err := json.Unmarshal(raw, &status); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode == http.StatusCreated {
		return ""
	}
	return fmt.Sprintf("%d %.500s", resp.StatusCode, status.Message)
}
