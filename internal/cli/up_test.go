// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/app/planeoptions"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

func parseUp(t *testing.T, args []string) upOptions {
	t.Helper()
	var got upOptions
	env := &Env{Env: command.Env{Name: "capstan", Out: io.Discard, Err: io.Discard, LookupEnv: func(string) (string, bool) { return "", false }}}
	cmd := newUp(env, func(_ context.Context, _ *Env, o upOptions) error { got = o; return nil })
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTheBackgroundProcessGetsTheSameOptions(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"the defaults": {"--data-dir=/data"},
		"everything": {"--data-dir=/data", "--simulated-dir=/simulated", "--containers-dir=/containers", "--listen=127.0.0.1:0", "--verbosity=4", "--etcd-servers=https://a:2379,https://b:2379", "--etcd-cafile=/ca",
			"--etcd-certfile=/crt", "--etcd-keyfile=/key", "--etcd-prefix=/p", "--providers=core,local", "--feature-gates=MachinePool=false,RuntimeSDK=true,PriorityQueue=true", `--additional-sync-machine-labels=^team$,"a{1,2}"`, "--additional-sync-machine-annotations=^x/", "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields", "--metrics-address=:1", "--pprof-address=:2", "--insecure-diagnostics", "--update-in-place", "--pods-reach-host", "--container-namespaces=a,b", "--log-file=/log",
			"--runtime-extension-client-cert-file=/client.crt", "--runtime-extension-client-key-file=/client.key", "--tracing-endpoint=127.0.0.1:4317"},
	}
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := parseUp(t, args)
			if want.arguments[1] != "--data-dir=/data" {
				t.Errorf("%v does not name the plane first, for those who list processes", want.arguments)
			}
			got := parseUp(t, want.arguments[1:])
			want.given, got.given = nil, nil // a background process compares nothing
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(upOptions{}, logr.Logger{}), cmp.Comparer(func(a, b *regexp.Regexp) bool { return a.String() == b.String() })); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPathsOfAPlaneAreAbsolute(t *testing.T) {
	t.Parallel()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{"plane.log": filepath.Join(dir, "plane.log"), "/var/log/plane": "/var/log/plane", "-": "-"} {
		o := parseUp(t, []string{"--data-dir", "data", "--log-file", given})
		if o.logFile != want || o.Flags["log-file"] != want || o.Dir != filepath.Join(dir, "data") {
			t.Errorf("data in %s, log in %s, for later commands %s; want %s", o.Dir, o.logFile, o.Flags["log-file"], want)
		}
	}
}

// ending is a plane that ends without a request.
type ending struct {
	err  chan error
	stop func(context.Context) error
}

func (ending) Addr() string                     { return "127.0.0.1:7443" }
func (ending) Kubeconfig() string               { return "kubeconfig" }
func (p ending) Err() <-chan error              { return p.err }
func (p ending) Stop(ctx context.Context) error { return p.stop(ctx) }

func TestAPlaneThatWasDeposedWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	hung := errors.New("the controllers did not end in time")
	for name, tc := range map[string]struct {
		why    error
		stop   func(context.Context) error
		starts int
	}{
		"when it has stopped":              {lifecycle.ErrDeposed, func(context.Context) error { return nil }, 2},
		"when its calls hung for a while":  {lifecycle.ErrDeposed, func(context.Context) error { time.Sleep(time.Minute); return hung }, 2},
		"not while something of it runs":   {lifecycle.ErrDeposed, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 1},
		"nor when it ended for other ills": {hung, func(context.Context) error { return nil }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var starts []planeoptions.Options
				env := &Env{Env: command.Env{Name: "capstan", Out: io.Discard, Err: io.Discard}, SetLog: func(io.Writer, int) {}}
				env.StartPlane = func(_ context.Context, o planeoptions.Options) (Plane, error) {
					starts = append(starts, o)
					p := ending{make(chan error, 1), tc.stop}
					p.err <- tc.why
					if len(starts) == 2 {
						return nil, hung
					}
					return p, nil
				}
				o := upOptions{logFile: "-"}
				o.Dir, o.Listen = dir, "127.0.0.1:0"
				if err := runUp(t.Context(), env, o); err == nil || len(starts) != tc.starts {
					t.Fatalf("started %d times, want %d; then %v", len(starts), tc.starts, err)
				}
				if last := starts[tc.starts-1]; tc.starts > 1 && (last.Listen != "127.0.0.1:7443" || !last.AwaitEtcd) {
					t.Errorf("started again by %+v, want the same address, and to wait for etcd", last)
				}
			})
		})
	}
}

func TestStatusShowsWhatIsKnown(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	two := int64(2)
	tests := map[string]struct {
		status planeStatus
		want   [][2]string
	}{
		"stopped": {planeStatus{State: "Stopped", DataDir: "/data", DiskBytes: 3 << 20, SimulatedDir: "/machines", SimulatedClusters: 3, IdleSimulatedClusters: 1},
			[][2]string{{"State", "Stopped"}, {"Data directory", "/data"}, {"On disk", "3 MiB"}, {"Simulated clusters", "3, 1 of which no plane runs, in /machines"}}},
		"unreachable": {planeStatus{State: "Unreachable", DataDir: "/data", PID: 42, Since: since, Address: "127.0.0.1:1", EtcdServers: []string{"https://a"}, Problem: "refused"},
			[][2]string{{"State", "Unreachable"}, {"Data directory", "/data"}, {"On disk", "0 MiB"}, {"Problem", "refused"}, {"Process", "42"},
				{"Since", "2026-01-02T03:04:05Z (1m30s)"}, {"API server", "https://127.0.0.1:1"}, {"Etcd", "https://a"}}},
		"one of several": {planeStatus{State: "Running", DataDir: "/data", PID: 42, Since: since, EtcdServers: []string{"https://a"}, Planes: []sharingPlane{
			{Host: "one", Dir: "/a", Address: "10.0.0.1:6443", Leads: true, LeadsSince: since}, {Host: "two", Dir: "/b", Address: "10.0.0.2:6443"}, {Host: "three", Dir: "/c", Address: "10.0.0.3:6443", Gone: true}}},
			[][2]string{{"State", "Running"}, {"Data directory", "/data"}, {"On disk", "0 MiB"}, {"Process", "42"}, {"Since", "2026-01-02T03:04:05Z (1m30s)"}, {"Etcd", "https://a"},
				{"Planes", "https://10.0.0.1:6443 on one in /a, leads since 2026-01-02T03:04:05Z (1m30s)"}, {"", "https://10.0.0.2:6443 on two in /b"}, {"", "https://10.0.0.3:6443 on three in /c, gone"}}},
		"running": {planeStatus{State: "Running", DataDir: "/data", PID: 42, Since: since, Providers: []string{"core", "local"}, MetricsAddress: "127.0.0.1:40001", PprofAddress: "127.0.0.1:40002", FeatureGates: "MachinePool=false", MemoryBytes: 5 << 20, Clusters: &two},
			[][2]string{{"State", "Running"}, {"Data directory", "/data"}, {"On disk", "0 MiB"}, {"Process", "42"}, {"Since", "2026-01-02T03:04:05Z (1m30s)"},
				{"Metrics", "127.0.0.1:40001"}, {"Profiles", "127.0.0.1:40002"}, {"Providers", "core, local"}, {"Feature gates", "MachinePool=false"}, {"Etcd", "embedded"}, {"Memory", "5 MiB"}, {"Clusters", "2"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, tc.status.table(since.Add(90*time.Second))); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}
