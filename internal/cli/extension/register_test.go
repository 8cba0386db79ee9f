// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
)

const configsPath = "/apis/runtime.cluster.x-k8s.io/v1beta2/extensionconfigs"

// plane is a management cluster with ExtensionConfigs, whose controller discovers each
// when it is written, or reports a problem.
type plane struct {
	*testing.T
	mu         sync.Mutex // guards all below
	configs    map[string]*runtimev1.ExtensionConfig
	problem    string
	conflicts  int // of the next updates
	version    int
	kubeconfig string
}

func newPlane(t *testing.T, configs ...*runtimev1.ExtensionConfig) *plane {
	t.Helper()
	p := &plane{T: t, configs: map[string]*runtimev1.ExtensionConfig{}}
	for _, c := range configs {
		p.store(c, 1)
	}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(p.kubeconfig, []byte("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: '"+s.URL+"'}}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// store stores an ExtensionConfig as its controller leaves it.
func (p *plane) store(c *runtimev1.ExtensionConfig, generation int64) {
	p.version++
	c.ResourceVersion, c.Generation = fmt.Sprint(p.version), generation
	found := metav1.Condition{Type: runtimev1.ExtensionConfigDiscoveredCondition, Status: metav1.ConditionTrue, Reason: "Discovered", ObservedGeneration: generation}
	c.Status.Handlers = []runtimev1.ExtensionHandler{{Name: "a." + c.Name, RequestHook: runtimev1.GroupVersionHook{APIVersion: "hooks.runtime.cluster.x-k8s.io/v1alpha1", Hook: "BeforeClusterCreate"}, TimeoutSeconds: 10, FailurePolicy: runtimev1.FailurePolicyFail}}
	if p.problem != "" {
		found.Status, found.Reason, found.Message, c.Status.Handlers = metav1.ConditionFalse, "NotDiscovered", p.problem, nil
	}
	c.Status.Conditions = []metav1.Condition{found}
	p.configs[c.Name] = c
}

// ServeHTTP implements http.Handler.
func (p *plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := func(code int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(v); err != nil {
			p.Error(err)
		}
	}
	refuse := func(err *apierrors.StatusError) { answer(int(err.ErrStatus.Code), err.ErrStatus) }
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, configsPath), "/")
	old := p.configs[name]
	sent := &runtimev1.ExtensionConfig{}
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		if err := json.NewDecoder(r.Body).Decode(sent); err != nil {
			p.Error(err)
		}
	}
	resource := runtimev1.GroupVersion().WithResource("extensionconfigs").GroupResource()
	switch {
	case r.URL.Path == "/api":
		answer(http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case r.URL.Path == "/apis":
		version := metav1.GroupVersionForDiscovery{GroupVersion: "runtime.cluster.x-k8s.io/v1beta2", Version: "v1beta2"}
		answer(http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{{Name: "runtime.cluster.x-k8s.io", Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}}})
	case r.URL.Path == "/apis/runtime.cluster.x-k8s.io/v1beta2":
		answer(http.StatusOK, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "runtime.cluster.x-k8s.io/v1beta2", APIResources: []metav1.APIResource{{Name: "extensionconfigs", Kind: "ExtensionConfig", Verbs: metav1.Verbs{"get", "list"}}}})
	case !strings.HasPrefix(r.URL.Path, configsPath):
		http.NotFound(w, r)
	case r.Method == http.MethodPost:
		p.store(sent, 1)
		answer(http.StatusCreated, sent)
	case name == "":
		list := runtimev1.ExtensionConfigList{TypeMeta: metav1.TypeMeta{APIVersion: "runtime.cluster.x-k8s.io/v1beta2", Kind: "ExtensionConfigList"}}
		for _, c := range p.configs {
			list.Items = append(list.Items, *c)
		}
		answer(http.StatusOK, list)
	case old == nil:
		refuse(apierrors.NewNotFound(resource, name))
	case r.Method == http.MethodPut && (p.conflicts > 0 || sent.ResourceVersion != old.ResourceVersion):
		p.conflicts--
		refuse(apierrors.NewConflict(resource, name, errors.New("another client was faster")))
	case r.Method == http.MethodPut:
		generation := old.Generation
		if !reflect.DeepEqual(old.Spec, sent.Spec) {
			generation++
		}
		p.store(sent, generation)
		answer(http.StatusOK, sent)
	case r.Method == http.MethodDelete:
		delete(p.configs, name)
		answer(http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	default:
		old.TypeMeta = metav1.TypeMeta{APIVersion: "runtime.cluster.x-k8s.io/v1beta2", Kind: "ExtensionConfig"}
		answer(http.StatusOK, old)
	}
}

// run runs a command line on the plane.
func (p *plane) run(args ...string) (stdout, stderr string, err error) {
	p.Helper()
	return execute(p.T, "", p.kubeconfig, args...)
}

func TestRegisterCreatesOrChanges(t *testing.T) {
	t.Parallel()
	const handlers = "HANDLER   HOOK                           TIMEOUT   POLICY\na.x       BeforeClusterCreate/v1alpha1   10s       Fail\n"
	p := newPlane(t)
	p.conflicts = 1
	for _, step := range []struct {
		args []string
		said string
		want runtimev1.ExtensionConfigSpec
	}{
		{[]string{"--url", "https://a", "--setting", "a=b,c", "--setting", "d="}, "created", runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: "https://a"}, Settings: map[string]string{"a": "b,c", "d": ""}}},
		{[]string{"--url", "https://a", "--setting", "a=b,c", "--setting", "d="}, "as it was", runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: "https://a"}, Settings: map[string]string{"a": "b,c", "d": ""}}},
		{[]string{"--service", "ns/s:8443/p", "--namespace-selector", "env=prod"}, "changed", runtimev1.ExtensionConfigSpec{
			ClientConfig: runtimev1.ClientConfig{Service: runtimev1.ServiceReference{Namespace: "ns", Name: "s", Port: new(int32(8443)), Path: "/p"}}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}},
		}},
	} {
		out, said, err := p.run(append([]string{"register", "x"}, step.args...)...)
		if err != nil || out != handlers || !strings.HasPrefix(said, "Management cluster: ") || !strings.HasSuffix(said, "\nExtensionConfig x is "+step.said+"\n") {
			t.Fatalf("%q: %v, printed %q, said %q", step.args, err, out, said)
		}
		if diff := cmp.Diff(step.want, p.configs["x"].Spec); diff != "" || p.configs["x"].Annotations[registeredAt] == "" {
			t.Errorf("%q: spec (-want +got):\n%s", step.args, diff)
		}
	}
}

// TestRegisterKeepsWhatTheControllerInjects, and only while it is injected.
func TestRegisterKeepsWhatTheControllerInjects(t *testing.T) {
	t.Parallel()
	c := config("x", "", "")
	c.Annotations = map[string]string{runtimev1.InjectCAFromSecretAnnotation: "a/b", "theirs": "stays"}
	c.Spec.ClientConfig.CABundle = []byte("injected")
	p := newPlane(t, c)
	for _, step := range []struct {
		args         []string
		bundle, from string
	}{{[]string{"--inject-ca-from-secret", "c/d"}, "injected", "c/d"}, {nil, "", ""}} {
		if _, _, err := p.run(append([]string{"register", "x", "--url", "https://a"}, step.args...)...); err != nil {
			t.Fatal(err)
		}
		got := p.configs["x"]
		if string(got.Spec.ClientConfig.CABundle) != step.bundle || got.Annotations[runtimev1.InjectCAFromSecretAnnotation] != step.from || got.Annotations["theirs"] != "stays" {
			t.Errorf("%q: bundle %q, annotations %v", step.args, got.Spec.ClientConfig.CABundle, got.Annotations)
		}
	}
}

func TestRegisterReportsWhatIsNotDiscovered(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.problem = "server a:443: refused\x1b[2J"
	out, said, err := p.run("register", "x", "--url", "https://a", "--wait", "300ms")
	if err == nil || err.Error() != "extension x is registered but not discovered: "+p.problem || out != "" || !strings.Contains(said, "Not discovered yet: server a:443: refused\\x1b[2J\n") {
		t.Errorf("%v, printed %q, said %q", err, out, said)
	}
	if out, said, err := p.run("register", "x", "--url", "https://a", "--wait", "0"); err != nil || out != "" || !strings.HasSuffix(said, "Inspect it with: capstan extension list x\n") {
		t.Errorf("without a wait: %v, printed %q, said %q", err, out, said)
	}
	p.configs["x"].Annotations["cluster.x-k8s.io/paused"] = "true"
	if _, _, err := p.run("register", "x", "--url", "https://a"); err == nil || err.Error() != "ExtensionConfig x is paused: remove its annotation cluster.x-k8s.io/paused" {
		t.Errorf("a paused one: error %v", err)
	}
}

func TestRegisterPrintsTheObject(t *testing.T) {
	t.Parallel()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, []byte("PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"", "yaml", "json"} {
		args := []string{"register", "x", "--url", "https://a", "--ca-file", ca, "--dry-run"}
		if format != "" {
			args = append(args, "-o", format)
		}
		out, said, err := execute(t, "", "", args...)
		var got runtimev1.ExtensionConfig
		if err := errors.Join(err, yaml.UnmarshalStrict([]byte(out), &got)); err != nil || said != "" || got.Kind != "ExtensionConfig" || string(got.Spec.ClientConfig.CABundle) != "PEM" || got.Annotations != nil || strings.HasPrefix(out, "{") != (format == "json") {
			t.Errorf("%s: %v, said %q, printed %s", format, err, said, out)
		}
	}
	p := newPlane(t)
	out, _, err := p.run("register", "x", "--url", "https://a", "-o", "yaml")
	if err != nil || !strings.HasPrefix(out, "apiVersion: runtime.cluster.x-k8s.io/v1beta2\nkind: ExtensionConfig\n") || !strings.Contains(out, "name: a.x\n") {
		t.Errorf("%v, printed %s", err, out)
	}
}

func TestUnregisterDeletesOne(t *testing.T) {
	t.Parallel()
	p := newPlane(t, config("x", "", ""), config("y", "", ""))
	if _, said, err := p.run("unregister", "x"); err != nil || !strings.HasSuffix(said, "ExtensionConfig x is deleted: its hooks are not called any more\n") || len(p.configs) != 1 {
		t.Errorf("%v, said %q, left %d", err, said, len(p.configs))
	}
	if _, _, err := p.run("unregister", "x"); err == nil || err.Error() != "there is no ExtensionConfig x: see `capstan extension list`" {
		t.Errorf("again: error %v", err)
	}
	if _, said, err := p.run("unregister", "x", "--ignore-not-found"); err != nil || !strings.HasSuffix(said, "There is no ExtensionConfig x\n") {
		t.Errorf("again, ignored: %v, said %q", err, said)
	}
}

func TestListIsOfAllOrOfThoseNamed(t *testing.T) {
	t.Parallel()
	p := newPlane(t, config("y", "", ""), config("x", "", ""))
	for args, want := range map[string]string{"list": "x x y y", "list y": "y y", "list y x": "x x y y"} {
		out, said, err := p.run(strings.Fields(args)...)
		var got []string
		for line := range strings.Lines(out) {
			got = append(got, strings.Fields(line)[0])
		}
		if text := strings.Join(got[1:], " "); err != nil || text != want || !strings.HasPrefix(said, "How calls went is not known here: the controllers run elsewhere") {
			t.Errorf("%s: %v, rows of %s, said %q", args, err, text, said)
		}
	}
	out, _, err := p.run("list", "x", "-o", "json")
	var list struct{ Extensions []extensionInfo }
	if json.Unmarshal([]byte(out), &list) != nil || err != nil || len(list.Extensions) != 1 || list.Extensions[0].Discovered != "True" || list.Extensions[0].Handlers[0].Name != "a.x" {
		t.Errorf("%v, %s", err, out)
	}
	if _, _, err := p.run("list", "x", "z"); err == nil || err.Error() != "there is no ExtensionConfig z: see `capstan extension list`" {
		t.Errorf("one that is not there: error %v", err)
	}
	none := newPlane(t)
	if out, said, err := none.run("list"); err != nil || out != "" || said != "No extension is registered: see `capstan extension register --help`\n" {
		t.Errorf("none: %v, printed %q, said %q", err, out, said)
	}
	if out, _, err := none.run("list", "-o", "json"); err != nil || out != "{\n  \"extensions\": []\n}\n" {
		t.Errorf("none, for programs: %v, printed %q", err, out)
	}
}

func TestShellIsOfferedConfigsHandlersAndHooks(t *testing.T) {
	t.Parallel()
	hostile := config("y", "", "")
	hostile.Spec.ClientConfig.URL = "https://y\n\x1b[2J"
	p := newPlane(t, hostile, config("x", "", ""))
	for args, want := range map[string]string{
		"register ":                           "x\thttps://host:9443\ny\thttps://y \\x1b[2J\n:4\n",
		"list x ":                             "y\thttps://y \\x1b[2J\n:4\n",
		"unregister x ":                       ":4\n",
		"call BeforeClusterCreate --handler ": "a.x\tBeforeClusterCreate\na.y\tBeforeClusterCreate\n:4\n",
		"call BeforeClusterDelete --handler ": ":4\n",
		"call --config ":                      "x\thttps://host:9443\ny\thttps://y \\x1b[2J\n:4\n",
		"call BeforeClusterCreate ":           ":4\n",
		"list -o ":                            "json\n:4\n",
	} {
		out, _, err := p.completions(strings.Split(args, " "))
		if err != nil || out != want {
			t.Errorf("%q: %v, offered %q, want %q", args, err, out, want)
		}
	}
	if out, _, err := p.completions([]string{"call", ""}); err != nil || !strings.Contains(out, "BeforeClusterCreate\t") || !strings.HasSuffix(out, ":4\n") {
		t.Errorf("hooks: %v, offered %q", err, out)
	}
}

// completions are what a shell is offered for the last word.
func (p *plane) completions(words []string) (stdout, stderr string, err error) {
	p.Helper()
	return executeLine(p.T, "", p.kubeconfig, append([]string{cobra.ShellCompRequestCmd, "extension"}, words...)...)
}
