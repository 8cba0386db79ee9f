// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/server"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// serve serves an extension with handlers of all outcomes, and returns its URL and the file
// with its certificate.
func serve(t *testing.T) (url, ca string) {
	t.Helper()
	s, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	upgrade := func(_ context.Context, _ *hooksv1.BeforeClusterUpgradeRequest, resp *hooksv1.BeforeClusterUpgradeResponse) error {
		resp.Message = "\x1b[2J"
		return nil
	}
	err = errors.Join(
		server.Handle(s, hooksv1.BeforeClusterCreate, func(_ context.Context, req *hooksv1.BeforeClusterCreateRequest, resp *hooksv1.BeforeClusterCreateResponse) error {
			if req.Settings["freeze"] == "true" {
				resp.Message, resp.RetryAfterSeconds = "no new clusters in "+req.Cluster.Namespace, 30
			}
			return nil
		}, server.Name("freeze")),
		server.Handle(s, hooksv1.BeforeClusterDelete, func(context.Context, *hooksv1.BeforeClusterDeleteRequest, *hooksv1.BeforeClusterDeleteResponse) error {
			return errors.New("the backup is too old")
		}, server.Name("refuse")),
		server.Handle(s, hooksv1.BeforeClusterUpgrade, upgrade, server.Name("first")), server.Handle(s, hooksv1.BeforeClusterUpgrade, upgrade, server.Name("second")),
		server.Handle(s, hooksv1.GeneratePatches, func(_ context.Context, req *hooksv1.GeneratePatchesRequest, resp *hooksv1.GeneratePatchesResponse) error {
			for _, item := range req.Items {
				resp.Items = append(resp.Items, hooksv1.GeneratePatchesResponseItem{UID: item.UID, PatchType: hooksv1.JSONMergePatchType, Patch: []byte(`{"a":"` + "\u202e" + `"}`)})
			}
			return nil
		}, server.Name("label")),
	)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewTLSServer(s)
	t.Cleanup(h.Close)
	ca = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return h.URL, ca
}

// execute runs extension with standard input and KUBECONFIG.
func execute(t *testing.T, in, kubeconfig string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return executeLine(t, in, kubeconfig, append([]string{"extension"}, args...)...)
}

// executeLine is execute for a whole command line.
func executeLine(t *testing.T, in, kubeconfig string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, said bytes.Buffer
	env := &command.Env{Name: "capstan", In: strings.NewReader(in), Out: &out, Err: &said, Now: time.Now, LookupEnv: func(name string) (string, bool) { return kubeconfig, name == "KUBECONFIG" && kubeconfig != "" }}
	root := &cobra.Command{Use: "capstan", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(New(env))
	root.SetOut(&out)
	root.SetErr(&said)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), said.String(), err
}

func TestCallPrintsTheAnswerAndWhatItMeans(t *testing.T) {
	t.Parallel()
	url, ca := serve(t)
	for name, tc := range map[string]struct {
		hook      string
		args      []string
		out, said []string
		err       string
	}{
		"one that does not block":   {"BeforeClusterCreate", nil, []string{"status: Success\n"}, []string{"freeze.extension answered in ", "It does not block\n"}, ""},
		"one that blocks":           {"beforeclustercreate", []string{"--setting", "freeze=true", "-o", "json"}, []string{`"retryAfterSeconds": 30`, `"message": "no new clusters in demo"`}, []string{"It blocks, and wants to be asked again in 30s\n"}, ""},
		"one that fails":            {"BeforeClusterDelete", nil, []string{"status: Failure\n"}, nil, "refuse.extension answered Failure: the backup is too old"},
		"one of two":                {"BeforeClusterUpgrade", []string{"--handler", "second"}, []string{"status: Success\n"}, []string{"second.extension answered in "}, ""},
		"by its full name":          {"BeforeClusterUpgrade", []string{"--handler", "first.extension"}, []string{"status: Success\n"}, []string{"first.extension answered in "}, ""},
		"patches":                   {"GeneratePatches", nil, []string{"patchType: JSONMergePatch\n"}, []string{"items[0], JSONMergePatch: {\"a\":\"\\u202e\"}\n"}, ""},
		"discovery":                 {"Discovery", nil, []string{"name: freeze\n", "name: second\n"}, nil, ""},
		"a name that it lacks":      {"BeforeClusterUpgrade", []string{"--handler", "third"}, nil, nil, "the extension has no handler third for BeforeClusterUpgrade, but first, second"},
		"a hook that it lacks":      {"AfterClusterUpgrade", nil, nil, nil, "the extension has no handler for AfterClusterUpgrade, but first (BeforeClusterUpgrade), freeze (BeforeClusterCreate), "},
		"an authority of its own":   {"BeforeClusterCreate", []string{"--ca-file", ca + ".none"}, nil, nil, "read --ca-file: "},
		"a time that is too short":  {"BeforeClusterCreate", []string{"--timeout", "1ns"}, nil, nil, "discover the extension: "},
		"a key that is not there":   {"BeforeClusterCreate", []string{"--client-cert-file", ca, "--client-key-file", ca + ".none"}, nil, nil, ".none"},
		"a certificate of a system": {"BeforeClusterCreate", []string{"--ca-file", "/dev/null"}, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, _, err := execute(t, "", "", "call", tc.hook, "--example")
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"call", tc.hook, "--url", url, "--ca-file", ca}
			if tc.hook != "Discovery" {
				args = append(args, "--file", "-")
			}
			out, said, err := execute(t, request, "", append(args, tc.args...)...)
			if name == "a certificate of a system" {
				if err == nil || !strings.Contains(err.Error(), "certificate") {
					t.Errorf("error %v", err)
				}
				return
			}
			if (err == nil) != (tc.err == "") || err != nil && (!strings.Contains(err.Error(), tc.err) || errors.As(err, new(command.UsageError))) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			for _, want := range tc.out {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in %s", want, out)
				}
			}
			for _, want := range tc.said {
				if !strings.Contains(said, want) {
					t.Errorf("no %q in %s", want, said)
				}
			}
			if strings.ContainsAny(said, "\x1b\u202e") || len(tc.out) == 0 && out != "" {
				t.Errorf("printed %q, said %q", out, said)
			}
		})
	}
	if _, _, err := execute(t, "{}", "", "call", "BeforeClusterUpgrade", "--url", url, "--ca-file", ca, "--file", "-"); !errors.As(err, new(command.UsageError)) || !strings.Contains(err.Error(), "choose one with --handler: first, second") {
		t.Errorf("several handlers: error %v", err)
	}
}

func TestCallRefusesWrongFlagsBeforeRequests(t *testing.T) {
	t.Parallel()
	const call = "call BeforeClusterCreate "
	for args, want := range map[string]string{
		"call":                              "the name of one hook is needed: capstan extension call HOOK",
		"call a b":                          "the name of one hook is needed",
		"call BeforeClustrCreate --example": "BeforeClusterCreate",
		call + "-o xml":                     `--output "xml" is not known: use json or yaml`,
		call + "--file -":                   "the extension is needed: one of --url, --config and --handler HANDLER.NAME",
		call + "--file - --url https://127.0.0.1:1 --config x":                  "the extension is needed: one of",
		call + "--url https://127.0.0.1:1":                                      "the request is needed: --file REQUEST",
		call + "--handler a.policy":                                             "the request is needed: --file REQUEST",
		call + "--file - --url https://127.0.0.1:1 --timeout 31s":               "the limit of a call is 30s",
		call + "--file - --url https://127.0.0.1:1 --timeout -1s":               "--timeout -1s",
		call + "--file - --url https://127.0.0.1:1 --client-key-file k":         "--client-cert-file and --client-key-file go together",
		call + "--file - --config x --ca-file c":                                "--ca-file is for a URL",
		call + "--file - --url https://127.0.0.1:1 --service-address 127.0.0.1": "--service-address is for an ExtensionConfig with a Service",
		call + "--file - --url https://127.0.0.1:1 --ca-file=":                  "--ca-file without a value",
		call + "--file - --config= --url https://127.0.0.1:1":                   "--config without a value",
		"test":                           "the URL of an extension, or the name of one ExtensionConfig, is needed",
		"test a b":                       "is needed",
		"test a --hooks=":                "--hooks without a value",
		"test a --hooks Nonsense":        "--hooks: ",
		"test a -o xml":                  `--output "xml" is not known`,
		"test --list extra":              "unknown command",
		"test a --ca-file x":             "--ca-file is for a URL",
		"register":                       "the name of one ExtensionConfig is needed",
		"register a":                     "one of --url and --service is needed",
		"register a --url u --service s": "one of --url and --service is needed",
		"register a --url u --ca-file c --inject-ca-from-secret s/t": "only one of them can be the source of the certificates",
		"register a --url u --ca-file=":                              "--ca-file without a value",
		"register a --url u --namespace-selector=":                   "--namespace-selector without a value",
		"register a --url u --namespace-selector a=(":                `--namespace-selector "a=("`,
		"register a --service s":                                     `--service "s": the namespace is missing`,
		"register a --url u -o wide":                                 `--output "wide" is not known`,
		"unregister":                                                 "the name of one ExtensionConfig is needed",
		"unregister a b":                                             "the name of one ExtensionConfig is needed",
		"list -o yaml":                                               `--output "yaml" is not known: use json`,
		"openapi -o xml":                                             `--output "xml" is not known`,
		"openapi extra":                                              "unknown command",
	} {
		out, _, err := execute(t, "", "", strings.Fields(args)...)
		if !errors.As(err, new(command.UsageError)) || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s: error %v, printed %q; want misuse with %q", args, err, out, want)
		}
	}
	for args, want := range map[string]string{
		call + "--file nowhere.yaml --url https://127.0.0.1:1": "read the request: open nowhere.yaml: ",
		call + "--file - --config x":                           "no management cluster: name one with --kubeconfig or --data-dir",
		"register a --url u --ca-file nowhere":                 "read --ca-file: open nowhere: ",
		"test x --request A=nowhere":                           "read --request A: open nowhere: ",
	} {
		if _, _, err := execute(t, "{}", "", strings.Fields(args)...); err == nil || !strings.HasPrefix(err.Error(), want) || errors.As(err, new(command.UsageError)) {
			t.Errorf("%s: error %v, want %s", args, err, want)
		}
	}
}

func TestRequestsAreReadStrictly(t *testing.T) {
	t.Parallel()
	hook, err := catalog.Default().Named("BeforeClusterCreate")
	if err != nil {
		t.Fatal(err)
	}
	const head = "apiVersion: hooks.runtime.cluster.x-k8s.io/v1alpha1\nkind: BeforeClusterCreateRequest\n"
	const cluster = "cluster: {metadata: {name: a}}\n"
	for name, tc := range map[string]struct{ text, want string }{
		"the whole":              {head + cluster, ""},
		"without a head":         {cluster, ""},
		"JSON":                   {`{"cluster": {"metadata": {"name": "a"}}}`, ""},
		"after a comment":        {"# a request\n---\n" + head + cluster + "---\n# the end\n", ""},
		"empty":                  {"", "it is empty"},
		"only comments":          {"# nothing\n---\n# nothing\n", "it is empty"},
		"null":                   {"null\n", "it is empty"},
		"two":                    {cluster + "---\n" + cluster, "it has 2 documents: one request is sent at a time"},
		"a list":                 {"- a\n", "it is not an object"},
		"no YAML":                {"a: [", "it is neither YAML nor JSON"},
		"a key twice":            {cluster + cluster, "it is neither YAML nor JSON"},
		"an unknown field":       {cluster + "clustr: {}\n", `unknown field "clustr": see ` + "`capstan extension call BeforeClusterCreate --example`"},
		"a field of other case":  {"Cluster: {}\n", `unknown field "Cluster"`},
		"another type":           {"cluster: a\n", "cannot unmarshal"},
		"of another hook":        {strings.Replace(head, "Create", "Delete", 1), "it is a BeforeClusterDeleteRequest: BeforeClusterCreate takes a BeforeClusterCreateRequest"},
		"of another version":     {strings.Replace(head, "v1alpha1", "v9", 1), "its apiVersion is hooks.runtime.cluster.x-k8s.io/v9: BeforeClusterCreate has hooks.runtime.cluster.x-k8s.io/v1alpha1"},
		"of no version":          {"apiVersion: a/b/c\n", "unexpected GroupVersion string"},
		"a bomb":                 {"a: &a [x, x]\nb: &b [*a, *a]\ncluster: *b\n", "cannot unmarshal array"},
		"a separator and a text": {"---\n" + cluster, ""},
	} {
		request, of, err := decodeRequest([]byte(tc.text), hook)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
		if err == nil && (request.(*hooksv1.BeforeClusterCreateRequest).Cluster.Name != "a" || of.GroupVersionHook != hook.GroupVersionHook) {
			t.Errorf("%s: %+v of %s", name, request, of)
		}
	}
}

func TestAdviceIsForServicesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	ref := &transport.Service{Namespace: "ns", Name: "s", Path: "/p"}
	for name, tc := range map[string]struct {
		found  bool
		reason error
		want   bool
	}{
		"a connection":          {true, &transport.Error{Reason: transport.Connection}, true},
		"a timeout":             {true, &transport.Error{Reason: transport.Timeout}, true},
		"a given address":       {false, &transport.Error{Reason: transport.Connection}, false},
		"an answer":             {true, errors.New("status 500"), false},
		"nothing of the server": {true, context.Canceled, false},
	} {
		x := &target{endpoint: transport.Endpoint{Service: ref}, services: &finder{found: tc.found}}
		got := x.advice(tc.reason)
		if (got != "") != tc.want || tc.want && (!strings.Contains(got, "kubectl -n ns port-forward service/s 9443:443\n") || !strings.HasSuffix(got, "https://127.0.0.1:9443/p")) {
			t.Errorf("%s: %q", name, got)
		}
	}
	x := &target{endpoint: transport.Endpoint{Service: ref}}
	if got := x.url(); got != "https://s.ns.svc/p" && got != "https://s.ns.svc:443/p" {
		t.Errorf("the URL of the Service is %s", got)
	}
	if got := address(runtimev1.ClientConfig{Service: runtimev1.ServiceReference{Namespace: "ns", Name: "s", Port: new(int32(8443)), Path: "p"}}); got != "service ns/s:8443/p" {
		t.Errorf("its address is %s", got)
	}
}

// TestExtensionThatDoesNotAnswerIsNamed with the cause.
func TestExtensionThatDoesNotAnswerIsNamed(t *testing.T) {
	t.Parallel()
	gone := httptest.NewTLSServer(http.NotFoundHandler())
	gone.Close()
	odd := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>\x1b[2J")) }))
	t.Cleanup(odd.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: odd.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{gone.URL: "connection refused", odd.URL: "server " + strings.TrimPrefix(odd.URL, "https://")} {
		if _, _, err := execute(t, "{}", "", "call", "BeforeClusterCreate", "--url", url, "--ca-file", ca, "--file", "-"); err == nil || !strings.HasPrefix(err.Error(), "discover the extension: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", url, err, want)
		}
	}
}
