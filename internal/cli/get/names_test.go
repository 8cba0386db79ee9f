// SPDX-License-Identifier: Apache-2.0

package get

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// withClusters is a management cluster with the Clusters a and b in the namespace fleet.
func withClusters(w http.ResponseWriter, r *http.Request) {
	const object = `{"kind":"Cluster","apiVersion":"cluster.x-k8s.io/v1beta2","metadata":{"name":"%s","namespace":"fleet","managedFields":[{"manager":"x"}]}}`
	w.Header().Set("Content-Type", "application/json")
	name := path.Base(r.URL.Path)
	switch table := strings.Contains(r.Header.Get("Accept"), "as=Table"); {
	case name == "clusters" && table:
		_, _ = io.WriteString(w, strings.Replace(tableOfOne("a", "x", "1"), `"rows":[`, `"rows":[{"cells":["b","y",2,"z"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"b","namespace":"fleet"}}},`, 1))
	case name == "clusters":
		_, _ = fmt.Fprintf(w, `{"kind":"ClusterList","apiVersion":"cluster.x-k8s.io/v1beta2","metadata":{"resourceVersion":"7"},"items":[`+object+","+object+"]}", "a", "b")
	case name != "a" && name != "b":
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	case table:
		_, _ = io.WriteString(w, tableOfOne(name, "x", "1"))
	default:
		_, _ = fmt.Fprintf(w, object, name)
	}
}

func TestListPrintsEachFormatAsKubectlDoes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "template")
	if err := os.WriteFile(file, []byte("{.metadata.name}!"), 0o600); err != nil {
		t.Fatal(err)
	}
	const names = "jsonpath={.items[*].metadata.name}"
	for name, tc := range map[string]struct {
		args      []string
		out, says string
		err       string
	}{
		"names":                        {[]string{"clusters", "-o", "name"}, "cluster.cluster.x-k8s.io/a\ncluster.cluster.x-k8s.io/b\n", "", ""},
		"one name":                     {[]string{"cluster", "a", "-o", "name"}, "cluster.cluster.x-k8s.io/a\n", "", ""},
		"a list of all":                {[]string{"cl", "-o", names}, "a b", "", ""},
		"a list of some":               {[]string{"cl", "b", "a", "-o", names}, "b a", "", ""},
		"a list of one of two":         {[]string{"cl", "b", "none", "-o", names}, "b", "", "there is no Cluster none in namespace fleet"},
		"a list of none of two":        {[]string{"cl", "no", "none", "-o", names}, "", "", "there is no Cluster no in namespace fleet\nthere is no Cluster none in namespace fleet"},
		"one is no list":               {[]string{"cl", "a", "-o", "jsonpath={.metadata.name}"}, "a", "", ""},
		"a field that is missing":      {[]string{"cl", "a", "-o", "jsonpath={.spec.x}", "--allow-missing-template-keys=false"}, "", "", "spec is not found"},
		"a template of Go":             {[]string{"cl", "a", "--template", "{{.kind}}"}, "Cluster", "", ""},
		"a template in a file":         {[]string{"cl", "a", "-o", "jsonpath-file=" + file}, "a!", "", ""},
		"a template in no file":        {[]string{"cl", "a", "-o", "go-template-file", "--template", file + ".none"}, "", "", "read the template of --output go-template-file: open "},
		"values as JSON":               {[]string{"cl", "a", "-o", "jsonpath-as-json={.metadata.name}"}, "[\n    \"a\"\n]\n", "", ""},
		"YAML":                         {[]string{"cl", "a", "-o", "yaml"}, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata:\n  name: a\n  namespace: fleet\n", "", ""},
		"YAML with the managers":       {[]string{"cl", "a", "-o", "yaml", "--show-managed-fields"}, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata:\n  managedFields:\n  - manager: x\n  name: a\n  namespace: fleet\n", "", ""},
		"a table of some":              {[]string{"cl", "b", "a", "--no-headers"}, "b     x     1000000\na     x     1000000\n", "", ""},
		"a table of all":               {[]string{"cl"}, "NAME   PHASE   COUNT\nb      y       2\na      x       1000000\n", "", ""},
		"a table of one of two":        {[]string{"cl", "none", "a"}, "NAME   PHASE   COUNT\na      x       1000000\n", "", "there is no Cluster none in namespace fleet"},
		"a name that is part of a URL": {[]string{"cl", "../clusters"}, "", "", "there is no Cluster ../clusters in namespace fleet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, says, err := against(t.Context(), t, withClusters, tc.args...)
			if diff := cmp.Diff(tc.out, out) + cmp.Diff(tc.says, says); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

func TestListSaysWhatIsNotThere(t *testing.T) {
	t.Parallel()
	empty := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[],"rows":[]}`)
	}
	for args, want := range map[string]string{"machines": "No resources found in fleet namespace.\n", "machines -A": "No resources found\n", "ma -n other -l a=b": "No resources found in other namespace.\n"} {
		if out, says, err := against(t.Context(), t, empty, strings.Fields(args)...); out != "" || says != want || err != nil {
			t.Errorf("%s: printed %q, said %q, %v", args, out, says, err)
		}
	}
	for code, want := range map[int]string{http.StatusNotFound: "MachinePool", http.StatusForbidden: "list machinepools: ", http.StatusInternalServerError: "list machinepools: "} {
		_, _, err := against(t.Context(), t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }, "machinepools")
		if err == nil || !strings.Contains(err.Error(), want) || errors.As(err, new(*clusterctl.NotInstalledError)) != (code == http.StatusNotFound) {
			t.Errorf("status %d: error %v", code, err)
		}
	}
}

// transport is a function that answers requests.
type transport func(*http.Request) (int, string)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	code, body := f(r)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// TestWatchPausesBeforeItStartsAgain, after each way to end.
func TestWatchPausesBeforeItStartsAgain(t *testing.T) {
	t.Parallel()
	const gone = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
	for name, answer := range map[string]transport{
		"the watch is refused":    func(*http.Request) (int, string) { return http.StatusGone, gone },
		"its first event is that": func(*http.Request) (int, string) { return http.StatusOK, `{"type":"ERROR","object":` + gone + "}" },
		"it ends without events":  func(*http.Request) (int, string) { return http.StatusOK, "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				watches := 0
				c, err := rest.UnversionedRESTClientFor(&rest.Config{
					Host: "http://plane", QPS: -1, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
					Transport: transport(func(r *http.Request) (int, string) {
						if r.URL.Query().Get("watch") == "" {
							return http.StatusOK, tableOfOne("a", "one", "5")
						}
						if watches++; watches > 100 {
							cancel()
						}
						return answer(r)
					}),
				})
				if err != nil {
					t.Fatal(err)
				}
				p, err := new(printFlags).printer(false)
				if err != nil {
					t.Fatal(err)
				}
				w := &watching{env: &command.Env{Out: &bytes.Buffer{}}, c: c, r: resources()[0], o: listOptions{namespace: "fleet"}, p: p}
				if err := w.run(ctx); err == nil || ctx.Err() == nil || watches < 9 || watches > 11 {
					t.Errorf("%d watches in ten seconds, error %v", watches, err)
				}
			})
		})
	}
}
