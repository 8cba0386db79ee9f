// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

const (
	corePath  = "/apis/cluster.x-k8s.io/v1beta2/namespaces/mine/"
	planePath = "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/mine/"
)

// fleet are the objects of the management cluster, by path.
func fleet() map[string]string {
	object := func(version, kind, name, more string) string {
		return fmt.Sprintf(`{"apiVersion":"%s/v1beta2","kind":"%s","metadata":{"name":"%s","namespace":"mine","resourceVersion":"1","generation":1},%s}`, version, kind, name, more)
	}
	const core, kcp = "cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"
	done := `"status":{"observedGeneration":1,"replicas":2,"readyReplicas":2,"availableReplicas":2,"upToDateReplicas":2}`
	paused := strings.Replace(object(kcp, "KubeadmControlPlane", "paused", `"spec":{"replicas":1}`), `"name":"paused"`, `"name":"paused","annotations":{"cluster.x-k8s.io/paused":"true","a":"b"}`, 1)
	return map[string]string{
		corePath + "machinedeployments/a":         object(core, "MachineDeployment", "a", `"spec":{"replicas":2},`+done),
		corePath + "machinedeployments/b":         object(core, "MachineDeployment", "b", `"spec":{"replicas":3,"paused":true},`+done),
		corePath + "machinesets/s":                strings.Replace(object(core, "MachineSet", "s", `"spec":{"replicas":2}`), `"name":"s"`, `"name":"s","ownerReferences":[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineDeployment","name":"a","uid":"u","controller":true}]`, 1),
		corePath + "clusters/c":                   object(core, "Cluster", "c", `"spec":{}`),
		planePath + "kubeadmcontrolplanes/cp":     object(kcp, "KubeadmControlPlane", "cp", `"spec":{"replicas":1,"rollout":{"after":"2030-01-01T00:00:00Z"}}`),
		planePath + "kubeadmcontrolplanes/paused": paused,
	}
}

// against runs a command line against a management cluster with the fleet, and returns
// what it writes there: the path, with what the request asks for, and the object.
func against(t *testing.T, args ...string) (stdout, stderr string, wrote []string, err error) {
	t.Helper()
	objects := fleet()
	resources := func(version string, kinds ...string) string {
		var all []string
		for _, kind := range kinds {
			all = append(all, fmt.Sprintf(`{"name":"%ss","singularName":"","namespaced":true,"kind":"%s","verbs":["get","list","update","watch"]}`, strings.ToLower(kind), kind))
		}
		return `{"kind":"APIResourceList","groupVersion":"` + version + `","resources":[` + strings.Join(all, ",") + "]}"
	}
	group := func(name string) string {
		return fmt.Sprintf(`{"name":"%s","versions":[{"groupVersion":"%[1]s/v1beta2","version":"v1beta2"}],"preferredVersion":{"groupVersion":"%[1]s/v1beta2","version":"v1beta2"}}`, name)
	}
	discovery := map[string]string{
		"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": resources("v1"),
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[` + group("cluster.x-k8s.io") + "," + group("controlplane.cluster.x-k8s.io") + "]}",
		path.Dir(path.Dir(path.Dir(corePath + "x"))):  resources("cluster.x-k8s.io/v1beta2", "Cluster", "MachineDeployment", "MachineSet", "MachinePool"),
		path.Dir(path.Dir(path.Dir(planePath + "x"))): resources("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane"),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := discovery[r.URL.Path]
		object, exists := objects[r.URL.Path]
		switch {
		case ok:
		case r.URL.Query().Get("watch") != "":
			<-r.Context().Done()
		case exists && r.Method == http.MethodPut:
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			answer = string(body)
			wrote = append(wrote, strings.TrimSpace(path.Base(r.URL.Path)+" "+r.URL.RawQuery+" "+answer))
		case exists:
			answer = object
		default:
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, []byte("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, namespace: mine}}], clusters: [{name: c, cluster: {server: '"+server.URL+"'}}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	env := &command.Env{Name: "capstan", Out: &out, Err: &said, Now: func() time.Time { return now }, LookupEnv: func(name string) (string, bool) { return config, name == "KUBECONFIG" }}
	root, upgrade := &cobra.Command{Use: "capstan", SilenceErrors: true, SilenceUsage: true}, &cobra.Command{Use: "upgrade"}
	upgrade.AddCommand(NewUpgradeCluster(env))
	root.AddCommand(New(env), Alpha(env), NewScale(env), upgrade)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), said.String(), wrote, err
}

// TestVerbsWriteWhatUpstreamsCommandsDo, and report it for each object.
func TestVerbsWriteWhatUpstreamsCommandsDo(t *testing.T) {
	t.Parallel()
	const named = "Management cluster: "
	for line, tc := range map[string]struct {
		out, said string
		wrote     []string // parts of each write
		err       string
	}{
		"rollout pause md/a":                                {"MachineDeployment mine/a is paused\n", named, []string{`a  {`, `"paused":true`}, ""},
		"alpha rollout pause machinedeployment/a":           {"MachineDeployment mine/a is paused\n", named, []string{`"paused":true`}, ""},
		"rollout pause kcp/cp":                              {"KubeadmControlPlane mine/cp is paused\n", named, []string{`"cluster.x-k8s.io/paused":"true"`}, ""},
		"rollout pause cluster/c":                           {"Cluster mine/c is paused\n", named, []string{`"spec":{"paused":true}`}, ""},
		"rollout resume md/b":                               {"MachineDeployment mine/b is resumed\n", named, []string{`"spec":{"replicas":3}`}, ""},
		"rollout resume kcp/paused":                         {"KubeadmControlPlane mine/paused is resumed\n", named, []string{`"annotations":{"a":"b"}`}, ""},
		"rollout restart machinedeployments/a":              {"MachineDeployment mine/a replaces its machines\n", named, []string{`"rollout":{"after":"2026-01-02T03:04:05Z"}`}, ""},
		"scale md/a --replicas 5":                           {"MachineDeployment mine/a is scaled from 2 to 5\n", named, []string{`"replicas":5`}, ""},
		"scale md/a --replicas 0":                           {"MachineDeployment mine/a is scaled from 2 to 0\n", named, []string{`"replicas":0`}, ""},
		"scale md/a --replicas 5 --dry-run":                 {"MachineDeployment mine/a is scaled from 2 to 5 (dry run: nothing is changed)\n", named, []string{"dryRun=All", `"replicas":5`}, ""},
		"scale md/a --replicas 5 --current-replicas 2":      {"MachineDeployment mine/a is scaled from 2 to 5\n", named, []string{`"replicas":5`}, ""},
		"scale md/a --replicas 5 --current-replicas 3":      {"", named, nil, "is asked for 2 machines, not for 3: nothing was changed"},
		"scale ms/s --replicas 5":                           {"", named, nil, "belongs to MachineDeployment a, which says how many machines it has: scale that one"},
		"rollout pause md/b":                                {"", named, nil, "MachineDeployment mine/b is paused already"},
		"rollout resume md/a":                               {"", named, nil, "MachineDeployment mine/a is not paused"},
		"rollout restart md/b":                              {"", named, nil, "MachineDeployment mine/b is paused: resume it first"},
		"rollout restart kcp/cp":                            {"", named, nil, "will be rolled out at 2030-01-01T00:00:00Z (spec.rollout.after)"},
		"rollout pause md/none md/b md/a":                   {"MachineDeployment mine/a is paused\n", named, []string{`"paused":true`}, "there is no MachineDeployment none in namespace mine\nMachineDeployment mine/b is paused already"},
		"rollout pause md/a -n other":                       {"", named, nil, "there is no MachineDeployment a in namespace other"},
		"rollout status md/a --wait=false":                  {"MachineDeployment mine/a has rolled out: 2 machines\n", "", nil, ""},
		"rollout status md/a":                               {"MachineDeployment mine/a has rolled out: 2 machines\n", "", nil, ""},
		"rollout status md/b":                               {"", "", nil, "MachineDeployment mine/b: it is paused: nothing continues until it is resumed"},
		"rollout status md/b --wait=false":                  {"MachineDeployment mine/b is paused, and not rolled out: ", "", nil, ""},
		"rollout status kcp/cp --timeout 1ns":               {"", "", nil, "KubeadmControlPlane mine/cp: still waiting for "},
		"rollout status mp/none --wait=false":               {"", "", nil, "there is no MachinePool none in namespace mine"},
		"upgrade cluster none --kubernetes-version v1.37.0": {"", named, nil, "none"},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			out, said, wrote, err := against(t, strings.Fields(line)...)
			if !strings.HasPrefix(out, tc.out) || tc.out == "" && out != "" || !strings.HasPrefix(said, tc.said) || tc.said == "" && said != "" {
				t.Errorf("printed %q, said %q; want %q, %q", out, said, tc.out, tc.said)
			}
			if (err == nil) != (tc.err == "") || err != nil && (!strings.Contains(err.Error(), tc.err) || errors.As(err, new(command.UsageError))) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if len(wrote) != min(1, len(tc.wrote)) {
				t.Fatalf("%d writes: %q", len(wrote), wrote)
			}
			for _, part := range tc.wrote {
				if !strings.Contains(wrote[0], part) {
					t.Errorf("it wrote %s, want %s", wrote[0], part)
				}
			}
		})
	}
}

func TestWrongObjectsAreMisuseBeforeRequests(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"rollout pause":                                 "an object is needed: capstan rollout pause KIND/NAME...",
		"rollout restart cluster/c":                     `kind "cluster" is not one of machinedeployment, kubeadmcontrolplane`,
		"rollout pause machineset/s":                    `kind "machineset" is not one of `,
		"rollout pause md/a pod/p":                      `"pod/p": kind "pod" is not one of `,
		"rollout resume md":                             `"md" is not KIND/NAME, such as machinedeployment/workers`,
		"rollout restart md/":                           "is not KIND/NAME",
		"rollout status cluster/c":                      `kind "cluster" is not one of `,
		"rollout status machinedeploymnet/a":            `did you mean "machinedeployment"?`,
		"rollout status":                                "an object is needed",
		"scale md/a":                                    "--replicas is required: the number of machines, 0 or more",
		"scale md/a --replicas -1":                      "--replicas is required",
		"scale md/a md/b --replicas 1":                  "one object is needed: capstan scale KIND/NAME --replicas N",
		"scale --replicas 1":                            "an object is needed",
		"scale cluster/c --replicas 1":                  `kind "cluster" is not one of `,
		"upgrade cluster":                               "the name of one cluster is needed",
		"upgrade cluster a":                             "--kubernetes-version is needed, such as v1.34.1",
		"upgrade cluster a b":                           "the name of one cluster is needed",
		"upgrade cluster a --kubernetes-version=":       "--kubernetes-version is needed",
		"rollout pause md/a --namespace=":               "--namespace without a value",
		"scale md/a --replicas 1 --kubeconfig-context=": "--kubeconfig-context without a value",
	} {
		out, said, wrote, err := against(t, strings.Fields(line)...)
		if !errors.As(err, new(command.UsageError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want misuse with %q", line, err, want)
		}
		if diff := cmp.Diff([]string{"", ""}, []string{out, said}); diff != "" || wrote != nil {
			t.Errorf("%s: wrote %q, output (-want +got):\n%s", line, wrote, diff)
		}
	}
}
