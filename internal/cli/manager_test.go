// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
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
