// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

func TestStatusOfAPlan(t *testing.T) {
	t.Parallel()
	for then, want := range map[int32]int{3: 0, 2: 0, 1: 2, 0: 2} {
		p := &planv1.Plan{Clusters: []planv1.Cluster{{Pools: []planv1.Pool{{Name: "pool", Before: 2, Then: then}}}}}
		if got := exit(status(p)); got != want {
			t.Errorf("a pool of 2, then %d: status %d, want %d", then, got, want)
		}
	}
	for name, tc := range map[string]struct {
		of   planv1.Summary
		want int
	}{
		"nothing":                 {planv1.Summary{}, 0},
		"kept, changed, created":  {planv1.Summary{Kept: 1, Changed: 1, Created: 1}, 0},
		"transient":               {planv1.Summary{Transient: 1}, 0},
		"replaced":                {planv1.Summary{Replaced: 1}, 2},
		"deleted":                 {planv1.Summary{Deleted: 1}, 2},
		"not predicted":           {planv1.Summary{NotPredicted: 1}, 3},
		"deleted, not predicted":  {planv1.Summary{Deleted: 1, NotPredicted: 1}, 3},
		"replaced, not predicted": {planv1.Summary{Replaced: 1, NotPredicted: 1}, 3},
	} {
		if got := exit(status(&planv1.Plan{Summary: tc.of})); got != tc.want {
			t.Errorf("%s: status %d, want %d", name, got, tc.want)
		}
	}
}

// exit is the status of the program after an error: 2 is that of misuse.
func exit(err error) int {
	var s command.StatusError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &s):
		return s.Status
	case errors.As(err, new(command.UsageError)):
		return 2
	}
	return 1
}

// execute runs the command plan without a management cluster.
func execute(t *testing.T, args ...string) error {
	t.Helper()
	return executeAll(t, append([]string{"plan"}, args...)...)
}

// executeAll runs a command without a management cluster.
func executeAll(t *testing.T, args ...string) error {
	t.Helper()
	var out bytes.Buffer
	env := &command.Env{In: strings.NewReader(""), Out: &out, Err: io.Discard, Now: time.Now, LookupEnv: func(string) (string, bool) { return "", false }}
	cmd := &cobra.Command{Use: "capstan"}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return command.Misuse(err) }) // as the program does
	cmd.AddCommand(New(env), NewApply(env))
	cmd.SetArgs(append(args, "--kubeconfig", filepath.Join(t.TempDir(), "none")))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	return cmd.ExecuteContext(t.Context())
}

// TestMisuseHasStatusOne checks that misuse never has the status of a plan.
func TestMisuseHasStatusOne(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no change":               {nil, "-f FILE, -k FOLDER, --set"},
		"a file and a deletion":   {[]string{"-f", "a", "--delete", "cluster/a"}, "one plan for each"},
		"a field and a deletion":  {[]string{"--set", "cluster/a", "--delete", "cluster/a", "b=c"}, "one plan for each"},
		"a deletion with a field": {[]string{"--delete", "cluster/a", "b=c"}, `"b=c"`},
		"a file and a folder":     {[]string{"-f", "a", "-k", "b"}, "one plan for each"},
		"two changes":             {[]string{"-f", "a", "--set", "cluster/a", "b=c"}, "one plan for each"},
		"arguments without --set": {[]string{"-f", "a", "b=c"}, `"b=c"`},
		"no time":                 {[]string{"-f", "a", "--for", "0s"}, "--for 0s"},
		"an unknown flag":         {[]string{"-f", "a", "--none"}, "--none"},
		"a value of a flag":       {[]string{"-f", "a", "--for", "x"}, "--for"},
		"an output":               {[]string{"-f", "a", "-o", "xml"}, "xml"},
		"a kubeconfig":            {[]string{"-f", "a"}, "none"},
	} {
		if err := execute(t, tc.args...); exit(err) != 1 || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: status %d, error %v", name, exit(err), err)
		}
	}
}

func TestChangeReadsTheCommandLine(t *testing.T) {
	t.Parallel()
	scheme, err := controllers.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for gvk := range scheme.AllKnownTypes() {
		if scope := meta.RESTScopeNamespace; gvk.Kind == "Cluster" || gvk.Kind == "KubeadmControlPlane" || gvk.Kind == "ConfigMap" {
			mapper.Add(gvk, scope)
		} else if gvk.Kind == "Namespace" {
			mapper.Add(gvk, meta.RESTScopeRoot)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).Build()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"all.yaml":     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: other}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: c}\n",
		"empty.yaml":   "# nothing\n",
		"unnamed.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a}\n",
		"foreign.yaml": "apiVersion: none.example/v1\nkind: None\nmetadata: {name: a}\n",
		"cut.yaml":     "apiVersion: v1\nkind: [",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		files  string
		set    string
		delete []string
		args   []string
		want   []string // the objects in JSON
		refuse string   // in the error
	}{
		"a file": {files: "all.yaml", want: []string{
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"ns"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","namespace":"other"}}`,
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"c"}}`,
		}},
		"no object":          {files: "empty.yaml", refuse: "there is no object"},
		"no name":            {files: "unnamed.yaml", refuse: "ConfigMap without metadata.name"},
		"a kind not served":  {files: "foreign.yaml", refuse: "None a: the management cluster does not serve this kind"},
		"a file that is cut": {files: "cut.yaml", refuse: "cut.yaml"},
		"a file not found":   {files: "none.yaml", refuse: "none.yaml"},
		"a field of a Cluster": {set: "cluster/a", args: []string{"spec.topology.version=v1.37.0", "spec.paused=true"}, want: []string{
			`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"a","namespace":"ns"},"spec":{"paused":true,"topology":{"version":"v1.37.0"}}}`,
		}},
		"a number": {set: "KubeadmControlPlane/a", args: []string{"spec.replicas=3"}, want: []string{
			`{"apiVersion":"controlplane.cluster.x-k8s.io/v1beta2","kind":"KubeadmControlPlane","metadata":{"name":"a","namespace":"ns"},"spec":{"replicas":3}}`,
		}},
		"an object as a value": {set: "cluster/a", args: []string{`spec.a={"b":[1]}`}, want: []string{
			`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"a","namespace":"ns"},"spec":{"a":{"b":[1]}}}`,
		}},
		"deletions": {delete: []string{"cluster/a", "KubeadmControlPlane/b"}, want: []string{
			`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"a","namespace":"ns"}}`,
			`{"apiVersion":"controlplane.cluster.x-k8s.io/v1beta2","kind":"KubeadmControlPlane","metadata":{"name":"b","namespace":"ns"}}`,
		}},
		"a deletion of another kind": {delete: []string{"pod/a"}, refuse: "--delete: "},
		"another kind":               {set: "pod/a", args: []string{"a=b"}, refuse: "is not one of cluster, clusterclass, "},
		"no kind":                    {set: "a", args: []string{"a=b"}, refuse: "is not KIND/NAME"},
		"no name to set":             {set: "cluster/", args: []string{"a=b"}, refuse: "is not KIND/NAME"},
		"no field":                   {set: "cluster/a", refuse: "name what to set"},
		"no value":                   {set: "cluster/a", args: []string{"spec.a"}, refuse: "want FIELD=VALUE"},
		"below a value":              {set: "cluster/a", args: []string{"spec.a=b", "spec.a.c=d"}, refuse: "spec.a.c=d"},
		"another object":             {set: "cluster/a", args: []string{"metadata.name=b"}, refuse: "metadata.name=b: a change sets fields of spec, a label or an annotation"},
		"another namespace":          {set: "cluster/a", args: []string{"metadata.namespace=b"}, refuse: "metadata.namespace=b: a change sets"},
		"all metadata":               {set: "cluster/a", args: []string{`metadata={"name":"b"}`}, refuse: "a change sets"},
		"another kind of object":     {set: "cluster/a", args: []string{"kind=Machine"}, refuse: "kind=Machine: a change sets"},
		"another version":            {set: "cluster/a", args: []string{"apiVersion=v1"}, refuse: "apiVersion=v1: a change sets"},
		"status":                     {set: "cluster/a", args: []string{"status.phase=Deleting"}, refuse: "status.phase=Deleting: a change sets"},
		"an empty part":              {set: "cluster/a", args: []string{"spec..a=b"}, refuse: "want FIELD=VALUE"},
		"a label with dots": {set: "cluster/a", args: []string{`metadata.labels={"a.b/c":"d"}`, "metadata.annotations.e=f"}, want: []string{
			`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"annotations":{"e":"f"},"labels":{"a.b/c":"d"},"name":"a","namespace":"ns"}}`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options{target: target{namespace: "ns"}, set: tc.set, deletes: tc.delete}
			kind := types.MergePatchType
			if tc.files != "" {
				o.files, kind = []string{filepath.Join(dir, tc.files)}, types.ApplyPatchType
			}
			all, err := o.change(t.Context(), &command.Env{In: strings.NewReader("")}, c, tc.args)
			if tc.refuse != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refuse) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range all {
				text, err := w.Object.MarshalJSON()
				if err != nil || w.Delete != (tc.delete != nil) || !w.Delete && w.Patch != kind {
					t.Errorf("patch %s, error %v", w.Patch, err)
				}
				got = append(got, strings.TrimSpace(string(text)))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
