// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/server"
)

// start serves the sample and returns how to call it.
func start(t *testing.T) func(path string, req, resp any) {
	t.Helper()
	s, err := newServer(server.Options{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Start(t.Context()) }()
	select {
	case <-s.Ready():
	case err := <-stopped:
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(s.CABundle()) {
		t.Fatal("no authority")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	return func(path string, req, resp any) {
		t.Helper()
		body, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Post(s.URL()+path, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		data, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %s %v", path, answer.Status, data, err)
		}
		if err := json.Unmarshal(data, resp); err != nil {
			t.Fatal(err)
		}
	}
}

func path(hook, handler string) string {
	return catalog.GroupVersionHook{Group: hooksv1.GroupVersion().Group, Version: hooksv1.GroupVersion().Version, Hook: hook}.Path(handler)
}

func TestEveryHookHasAHandler(t *testing.T) {
	t.Parallel()
	var resp hooksv1.DiscoveryResponse
	start(t)(path("Discovery", ""), hooksv1.DiscoveryRequest{}, &resp)
	var got, want []string
	for _, h := range resp.Handlers {
		got = append(got, h.RequestHook.Hook)
	}
	for _, d := range catalog.Default().Hooks() {
		if !d.Singleton {
			want = append(want, d.Hook)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" || len(got) != 16 {
		t.Errorf("%d handlers (-want +got):\n%s", len(got), d)
	}
}

// blockingHooks are the hooks that hold a Cluster up and the names of their handlers.
var blockingHooks = map[string]string{
	"BeforeClusterCreate": "before-cluster-create", "BeforeClusterUpgrade": "before-cluster-upgrade", "BeforeControlPlaneUpgrade": "before-control-plane-upgrade",
	"AfterControlPlaneUpgrade": "after-control-plane-upgrade", "BeforeWorkersUpgrade": "before-workers-upgrade", "AfterWorkersUpgrade": "after-workers-upgrade",
	"AfterClusterUpgrade": "after-cluster-upgrade", "BeforeClusterDelete": "before-cluster-delete",
}

func TestClustersWaitWhileTheAnnotationHoldsThem(t *testing.T) {
	t.Parallel()
	call := start(t)
	held := hooksv1.CommonResponse{Status: hooksv1.ResponseStatusSuccess, Message: "held by annotation " + hold}
	bySetting := hooksv1.CommonResponse{Status: hooksv1.ResponseStatusSuccess, Message: "held by setting hold"}
	tests := map[string]struct {
		annotation string // %: the hook
		settings   map[string]string
		want       hooksv1.CommonRetryResponse
	}{
		"none without it":     {"", nil, hooksv1.CommonRetryResponse{CommonResponse: hooksv1.CommonResponse{Status: hooksv1.ResponseStatusSuccess}}},
		"none for others":     {"Other", nil, hooksv1.CommonRetryResponse{CommonResponse: hooksv1.CommonResponse{Status: hooksv1.ResponseStatusSuccess}}},
		"ten seconds":         {"true", nil, hooksv1.CommonRetryResponse{CommonResponse: held, RetryAfterSeconds: 10}},
		"as the setting says": {"Other,%", map[string]string{"retryAfterSeconds": "3"}, hooksv1.CommonRetryResponse{CommonResponse: held, RetryAfterSeconds: 3}},
		"no nonsense": {"%", map[string]string{"retryAfterSeconds": "-1"}, hooksv1.CommonRetryResponse{CommonResponse: hooksv1.CommonResponse{
			Status: hooksv1.ResponseStatusFailure, Message: "setting retryAfterSeconds is not a number from 1 to 3600"}}},
		"the setting holds all": {"", map[string]string{"hold": "%,Other"}, hooksv1.CommonRetryResponse{CommonResponse: bySetting, RetryAfterSeconds: 10}},
		"an error if requested": {"", map[string]string{"hold": "true", "fail": "%"}, hooksv1.CommonRetryResponse{CommonResponse: hooksv1.CommonResponse{
			Status: hooksv1.ResponseStatusFailure, Message: "setting fail has %"}}},
	}
	for name, tc := range tests {
		for hook, handler := range blockingHooks {
			cluster := clusterv1.Cluster{}
			if tc.annotation != "" {
				cluster.Annotations = map[string]string{hold: strings.ReplaceAll(tc.annotation, "%", hook)}
			}
			settings, want := map[string]string{}, tc.want
			for name, value := range tc.settings {
				settings[name] = strings.ReplaceAll(value, "%", hook)
			}
			want.Message = strings.ReplaceAll(want.Message, "%", hook)
			var got hooksv1.CommonRetryResponse
			call(path(hook, handler), map[string]any{"settings": settings, "cluster": cluster}, &got)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: %s (-want +got):\n%s", name, hook, d)
			}
		}
	}
}

// TestAStepIsHeldForAWhile, each step of each Cluster for itself.
func TestAStepIsHeldForAWhile(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	h := &holds{now: func() time.Time { return now }, since: map[string]time.Time{}}
	s, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := mayHold(h, s, hooksv1.AfterControlPlaneUpgrade, func(r *hooksv1.AfterControlPlaneUpgradeRequest) (*clusterv1.Cluster, string) {
		return &r.Cluster, r.KubernetesVersion
	}); err != nil {
		t.Fatal(err)
	}
	held := func(uid types.UID, version string, want bool) {
		t.Helper()
		req, resp := hooksv1.AfterControlPlaneUpgradeRequest{}, hooksv1.AfterControlPlaneUpgradeResponse{}
		req.Cluster.UID, req.KubernetesVersion, req.Settings = uid, version, map[string]string{"hold": "true", "holdSeconds": "30", "retryAfterSeconds": "5"}
		body, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path("AfterControlPlaneUpgrade", blockingHooks["AfterControlPlaneUpgrade"]), bytes.NewReader(body)))
		if err := json.Unmarshal(answer.Body.Bytes(), &resp); err != nil || resp.Status != hooksv1.ResponseStatusSuccess {
			t.Fatal(answer.Body, err)
		}
		if got := resp.RetryAfterSeconds == 5; got != want {
			t.Errorf("%s %s at %s: held %t, want %t", uid, version, now.Format(time.TimeOnly), got, want)
		}
	}
	held("a", "v1.33.0", true)
	now = now.Add(29 * time.Second)
	held("a", "v1.33.0", true)
	held("a", "v1.34.0", true)
	held("b", "v1.33.0", true)
	now = now.Add(time.Second)
	held("a", "v1.33.0", false)
	held("a", "v1.34.0", true)
	held("b", "v1.33.0", true)
	now = now.Add(25 * time.Hour)
	held("b", "v1.33.0", true)
	if len(h.since) != 1 {
		t.Errorf("%d steps are remembered, want the last", len(h.since))
	}
}

func TestAfterControlPlaneInitializedReportsCluster(t *testing.T) {
	t.Parallel()
	req, resp := hooksv1.AfterControlPlaneInitializedRequest{}, hooksv1.AfterControlPlaneInitializedResponse{}
	req.Cluster.Namespace, req.Cluster.Name = "default", "demo"
	start(t)(path("AfterControlPlaneInitialized", "after-control-plane-initialized"), req, &resp)
	if want := "the control plane of default/demo is up"; resp.Status != hooksv1.ResponseStatusSuccess || resp.Message != want {
		t.Errorf("got %s %s, want %s", resp.Status, resp.Message, want)
	}
}

const controlPlane = `{"apiVersion":"controlplane.cluster.x-k8s.io/v1beta2","kind":"KubeadmControlPlaneTemplate","spec":{"template":{"spec":{"kubeadmConfigSpec":{"clusterConfiguration":{"imageRepository":"%","newer":1}}}}}}`

func template(registry string) runtime.RawExtension {
	return runtime.RawExtension{Raw: []byte(strings.ReplaceAll(controlPlane, "%", registry))}
}

func TestTheVariableItDefinesSetsTheRegistry(t *testing.T) {
	t.Parallel()
	call := start(t)
	var defined hooksv1.DiscoverVariablesResponse
	call(path("DiscoverVariables", "discover-variables"), hooksv1.DiscoverVariablesRequest{}, &defined)
	if len(defined.Variables) != 1 || defined.Variables[0].Schema.OpenAPIV3Schema.Type != "string" {
		t.Fatalf("got %v, want a variable", defined.Variables)
	}
	req := hooksv1.GeneratePatchesRequest{
		Variables: []hooksv1.Variable{
			{Name: defined.Variables[0].Name, Value: apiextensionsv1.JSON{Raw: []byte(`"r.example.com/{cluster}"`)}},
			{Name: "builtin", Value: apiextensionsv1.JSON{Raw: []byte(`{"cluster":{"name":"demo"}}`)}},
		},
		Items: []hooksv1.GeneratePatchesRequestItem{{UID: "1", Object: template("registry.k8s.io")}, {UID: "2", Object: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Other"}`)}}},
	}
	var resp hooksv1.GeneratePatchesResponse
	call(path("GeneratePatches", "generate-patches"), req, &resp)
	want := []hooksv1.GeneratePatchesResponseItem{{UID: "1", PatchType: hooksv1.JSONPatchType, Patch: []byte(`[{"op":"add","path":"/spec/template/spec/kubeadmConfigSpec/clusterConfiguration/imageRepository","value":"r.example.com/demo"}]`)}}
	if d := cmp.Diff(want, resp.Items); d != "" {
		t.Errorf("patches (-want +got):\n%s", d)
	}
	req.Items[0].Object, resp = template("r.example.com/demo"), hooksv1.GeneratePatchesResponse{}
	call(path("GeneratePatches", "generate-patches"), req, &resp)
	if resp.Status != hooksv1.ResponseStatusSuccess || resp.Items != nil {
		t.Errorf("second call: got %v, want no patches", resp)
	}
}

func TestValidateTopologyRefusesOtherRegistries(t *testing.T) {
	t.Parallel()
	call := start(t)
	tests := map[string]struct {
		registry, allowed string
		want              hooksv1.ResponseStatus
	}{
		"any without the setting":       {"r.example.com/demo", "", hooksv1.ResponseStatusSuccess},
		"the registry itself":           {"r.example.com", "r.example.com", hooksv1.ResponseStatusSuccess},
		"one in it":                     {"r.example.com/demo", "r.example.com", hooksv1.ResponseStatusSuccess},
		"not one that begins alike":     {"r.example.community", "r.example.com", hooksv1.ResponseStatusFailure},
		"not Kubernetes' own, unstated": {"", "r.example.com", hooksv1.ResponseStatusFailure},
	}
	for name, tc := range tests {
		req := hooksv1.ValidateTopologyRequest{Items: []*hooksv1.ValidateTopologyRequestItem{{Object: template(tc.registry)}}}
		req.Settings = map[string]string{"allowedRegistry": tc.allowed}
		var resp hooksv1.ValidateTopologyResponse
		call(path("ValidateTopology", "validate-topology"), req, &resp)
		if resp.Status != tc.want || (tc.want == hooksv1.ResponseStatusFailure) != strings.Contains(resp.Message, "is not in r.example.com") {
			t.Errorf("%s: got %s %s, want %s", name, resp.Status, resp.Message, tc.want)
		}
	}
}

func TestUpgradesGoMinorByMinor(t *testing.T) {
	t.Parallel()
	call := start(t)
	tests := map[string]struct {
		from, workers, to         string
		controlPlane, workersPlan []string
		refused                   bool
	}{
		"one patch":                  {"v1.33.1", "v1.33.1", "v1.33.4", []string{"v1.33.4"}, []string{"v1.33.4"}, false},
		"one minor":                  {"v1.33.1", "v1.33.1", "v1.34.2", []string{"v1.34.2"}, []string{"v1.34.2"}, false},
		"three minors":               {"v1.31.1", "v1.31.1", "v1.34.2", []string{"v1.32.0", "v1.33.0", "v1.34.2"}, []string{"v1.32.0", "v1.33.0", "v1.34.2"}, false},
		"without workers":            {"v1.32.1", "", "v1.34.2", []string{"v1.33.0", "v1.34.2"}, nil, false},
		"workers that lag":           {"v1.33.1", "v1.31.0", "v1.34.2", []string{"v1.34.2"}, []string{"v1.34.2"}, false},
		"workers that are left":      {"v1.34.2", "v1.33.0", "v1.34.2", nil, []string{"v1.34.2"}, false},
		"nothing to do":              {"v1.34.2", "v1.34.2", "v1.34.2", nil, nil, false},
		"back":                       {"v1.34.2", "", "v1.33.0", nil, nil, true},
		"another major":              {"v1.34.2", "", "v2.0.0", nil, nil, true},
		"deeper than the limit":      {"v1.34.2", "", "v1.4000000000.0", nil, nil, true},
		"a version that is not one":  {"v1.34.2", "", "latest", nil, nil, true},
		"workers that are ahead too": {"v1.33.0", "v1.35.0", "v1.34.2", nil, nil, true},
	}
	steps := func(list []hooksv1.UpgradeStep) (versions []string) {
		for _, s := range list {
			versions = append(versions, s.Version)
		}
		return versions
	}
	for name, tc := range tests {
		req := hooksv1.GenerateUpgradePlanRequest{FromControlPlaneKubernetesVersion: tc.from, FromWorkersKubernetesVersion: tc.workers, ToKubernetesVersion: tc.to}
		var resp hooksv1.GenerateUpgradePlanResponse
		call(path("GenerateUpgradePlan", "generate-upgrade-plan"), req, &resp)
		if refused := resp.Status == hooksv1.ResponseStatusFailure; refused != tc.refused {
			t.Errorf("%s: got %s %s", name, resp.Status, resp.Message)
		}
		if d := cmp.Diff([][]string{tc.controlPlane, tc.workersPlan}, [][]string{steps(resp.ControlPlaneUpgrades), steps(resp.WorkersUpgrades)}); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestFilesChangeInPlace(t *testing.T) {
	t.Parallel()
	call := start(t)
	raw := func(spec string) runtime.RawExtension {
		return runtime.RawExtension{Raw: []byte(`{"kind":"Made","spec":` + spec + `}`)}
	}
	var machine hooksv1.CanUpdateMachineResponse
	call(path("CanUpdateMachine", "can-update-machine"), hooksv1.CanUpdateMachineRequest{
		Current: hooksv1.CanUpdateMachineRequestObjects{BootstrapConfig: raw(`{"clusterConfiguration":{"featureGates":{"A":true}},"files":[{"path":"/a"}],"users":[]}`)},
		Desired: hooksv1.CanUpdateMachineRequestObjects{BootstrapConfig: raw(`{"clusterConfiguration":{"dns":{}},"files":[{"path":"/a","content":"x"}],"users":[1]}`)},
	}, &machine)
	if got, want := string(machine.BootstrapConfigPatch.Patch), `[{"op":"remove","path":"/spec/clusterConfiguration/featureGates"},{"op":"add","path":"/spec/files/0/content","value":"x"}]`; got != want || machine.MachinePatch.Patch != nil {
		t.Errorf("machine: got %s %s, want %s", got, machine.Message, want)
	}
	var set hooksv1.CanUpdateMachineSetResponse
	call(path("CanUpdateMachineSet", "can-update-machine-set"), hooksv1.CanUpdateMachineSetRequest{
		Current: hooksv1.CanUpdateMachineSetRequestObjects{BootstrapConfigTemplate: raw(`{"template":{"spec":{"files":[1]}}}`)},
		Desired: hooksv1.CanUpdateMachineSetRequestObjects{BootstrapConfigTemplate: raw(`{"template":{"spec":{}}}`)},
	}, &set)
	if got, want := string(set.BootstrapConfigTemplatePatch.Patch), `[{"op":"remove","path":"/spec/template/spec/files"}]`; got != want {
		t.Errorf("machine set: got %s %s, want %s", got, set.Message, want)
	}
	req, done := hooksv1.UpdateMachineRequest{}, hooksv1.UpdateMachineResponse{}
	req.Desired.Machine.Name = "m"
	call(path("UpdateMachine", "update-machine"), req, &done)
	if done.Status != hooksv1.ResponseStatusSuccess || done.RetryAfterSeconds != 0 || done.Message != "m is updated" {
		t.Errorf("update: got %v", done)
	}
}

// TestUpdateTakesAsLongAsItsSetting updates a Machine twice, for two seconds each time.
func TestUpdateTakesAsLongAsItsSetting(t *testing.T) {
	t.Parallel()
	now := time.Now()
	h := &holds{now: func() time.Time { return now }, since: map[string]time.Time{}}
	for _, version := range []string{"v1.35.0", "v1.36.0"} {
		for _, step := range []struct {
			passes time.Duration
			again  int32
		}{{0, 2}, {1500 * time.Millisecond, 1}, {time.Second, 0}, {0, 0}} {
			now = now.Add(step.passes)
			req, resp := &hooksv1.UpdateMachineRequest{}, &hooksv1.UpdateMachineResponse{}
			req.SetSettings(map[string]string{"updateSeconds": "2"})
			req.Desired.Machine.UID, req.Desired.Machine.Spec.Version = "m", version
			if err := h.updateMachine(t.Context(), req, resp); err != nil || resp.RetryAfterSeconds != step.again {
				t.Errorf("%s, after %s: called again after %d s, error %v, want %d s", version, step.passes, resp.RetryAfterSeconds, err, step.again)
			}
		}
	}
	req := &hooksv1.UpdateMachineRequest{}
	req.SetSettings(map[string]string{"updateSeconds": "soon"})
	if err := h.updateMachine(t.Context(), req, &hooksv1.UpdateMachineResponse{}); err == nil || !strings.Contains(err.Error(), "setting updateSeconds is not a number") {
		t.Errorf("error %v", err)
	}
}

func TestRunWritesItsAuthorityBeforeItServes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := run(t.Context(), []string{"--address", "256.0.0.1:0", "--ca-out", file}); err == nil {
		t.Error("served on an address that is none")
	}
	data, err := os.ReadFile(file)
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(data) {
		t.Errorf("the file holds no authority: %v", err)
	}
}

// TestTheSampleStaysSmall holds it to what it shows: that an extension is little
// work: seventeen lines for each hook, all that is around them included.
func TestTheSampleStaysSmall(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	total, most := 0, 17*len(catalog.Default().Hooks())
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(src, []byte("\n"))
		if file == "main.go" && lines > 60 {
			t.Errorf("%s has %d lines, more than 60", file, lines)
		}
		total += lines
	}
	if total > most {
		t.Errorf("%d lines, more than %d", total, most)
	}
}
