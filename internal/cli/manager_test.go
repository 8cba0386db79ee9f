// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/capstan-dev/capstan/internal/app/manager"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// TestManagerAcceptsFlagsOfUpstreamsManifests reads what upstream's manifests have, and
// what their users add.
func TestManagerAcceptsFlagsOfUpstreamsManifests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args        []string
		wantIgnored []string
		wantMetrics string
		wantErr     string
	}{
		"none": {},
		"those of the manifests": {
			args: []string{"--leader-elect", "--diagnostics-address=:8443", "--insecure-diagnostics=false",
				"--feature-gates=MachinePool=true,ClusterTopology=false,RuntimeSDK=false,MachineSetPreflightChecks=true,MachineWaitForVolumeDetachConsiderVolumeAttachments=true,PriorityQueue=false,ReconcilerRateLimiting=false,InPlaceUpdates=false,MachineTaintPropagation=false,KubeadmBootstrapFormatIgnition=true"},
			wantMetrics: ":8443",
		},
		"those that have no effect": {
			args: []string{"--machineset-preflight-checks=KubeadmVersionSkew,ControlPlaneIsStable", "--remote-connection-grace-period=50s",
				"--remote-conditions-grace-period=5m", "--machine-concurrency=100", "--kubeadmcontrolplane-concurrency=10"},
			wantIgnored: []string{"--kubeadmcontrolplane-concurrency", "--machine-concurrency", "--machineset-preflight-checks", "--remote-conditions-grace-period", "--remote-connection-grace-period"},
		},
		"a value of another type": {args: []string{"--cluster-concurrency=many"}, wantErr: "invalid argument"},
		"an unknown one":          {args: []string{"--pod-concurrency=1"}, wantErr: "unknown flag"},
		"an invalid pattern":      {args: []string{"--additional-sync-machine-labels=["}, wantErr: "give regular expressions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := &Env{Env: command.Env{Name: "capstan-manager", Out: io.Discard, Err: io.Discard}}
			if err := newManager(env).ParseFlags(tc.args); (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
			var metrics string
			f := pflag.NewFlagSet("", pflag.ContinueOnError)
			f.ParseErrorsAllowlist.UnknownFlags = true
			(&manager.Config{}).AddFlags(f)
			ignored := upstreamFlags(f, &metrics)
			if err := f.Parse(tc.args); (err != nil) && tc.wantErr == "" {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantIgnored, ignored()); diff != "" {
				t.Errorf("ignored flags (-want +got):\n%s", diff)
			}
			if metrics != tc.wantMetrics {
				t.Errorf("metrics at %q, want %q", metrics, tc.wantMetrics)
			}
		})
	}
}

func TestManagerRefusesWrongCommandLines(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	for args, tc := range map[string]struct {
		status int
		says   string
	}{
		"extra":               {2, `unknown command "extra"`},
		"--nonsense":          {2, "unknown flag: --nonsense"},
		"--webhook-service a": {2, `--webhook-service "a": give it as NAMESPACE/NAME`},
		"--webhook-service a/b/c --install=false": {2, `--webhook-service "a/b/c": give it as NAMESPACE/NAME`},
		"--webhook-service A/b --install=false":   {2, "give it as NAMESPACE/NAME"},
		"--webhook-service /b --install=false":    {2, "give it as NAMESPACE/NAME"},
		"--webhook-service a/1b --install=false":  {2, "give it as NAMESPACE/NAME"},
		"--webhook-service a/b":                   {2, "--webhook-service needs --install=false"},
		"--kubeconfig " + none:                    {1, "read kubeconfig " + none + ": "},
		"--kubeconfig " + none + " -v 4 --v=2":    {1, "read kubeconfig " + none + ": "},
	} {
		var out, said bytes.Buffer
		env := &Env{Env: command.Env{Name: "capstan-manager", Out: &out, Err: &said, LookupEnv: func(string) (string, bool) { return "", false }}, SetLog: func(io.Writer, int) {}}
		if status := RunManager(t.Context(), env, strings.Fields(args)); status != tc.status || !strings.HasPrefix(said.String(), "capstan-manager: ") || !strings.Contains(said.String(), tc.says) || out.Len() > 0 {
			t.Errorf("%s: status %d, said %q, printed %q; want status %d, %q", args, status, said.String(), out.String(), tc.status, tc.says)
		}
	}
	var out, said bytes.Buffer
	env := &Env{Env: command.Env{Name: "capstan-manager", Out: &out, Err: &said, LookupEnv: func(string) (string, bool) { return "", false }}}
	if status := RunManager(t.Context(), env, []string{"--version"}); status != 0 || !strings.HasPrefix(out.String(), "capstan-manager version ") || said.Len() > 0 {
		t.Errorf("version: status %d, printed %q, said %q", status, out.String(), said.String())
	}
	env.Out = full{}
	if status := RunManager(t.Context(), env, []string{"--help"}); status != 1 || !strings.Contains(said.String(), "write the output: no space left on device") {
		t.Errorf("help to a full device: status %d, said %q", status, said.String())
	}
}

// TestManagerUsesTheKubeconfigThatIsNamed, before that of the environment.
func TestManagerUsesTheKubeconfigThatIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	named, variable := filepath.Join(dir, "named"), filepath.Join(dir, "variable")
	for file, server := range map[string]string{named: "https://named:1", variable: "https://variable:1"} {
		if err := os.WriteFile(file, kubeconfigFor(server), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := &Env{Env: command.Env{LookupEnv: func(name string) (string, bool) { return variable, name == "KUBECONFIG" }}}
	for flag, want := range map[string]string{named: "https://named:1", "": "https://variable:1"} {
		if cfg, err := managerConfig(env, flag); err != nil || cfg.Host != want {
			t.Errorf("--kubeconfig %q: %v, want %s", flag, err, want)
		}
	}
}
