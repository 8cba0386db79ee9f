// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

// kubeconfigFor is a kubeconfig for a server.
func kubeconfigFor(server string) []byte {
	return []byte("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: '" + server + "'}}]}")
}

// hold holds a data directory as a plane does, until the end of the test.
func hold(t *testing.T, h datadir.Holder) (datadir.Dir, *datadir.Lock) {
	t.Helper()
	dir := datadir.Dir(filepath.Join(t.TempDir(), "data"))
	lock, err := datadir.Acquire(dir, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Release() }) // some tests release it
	return dir, lock
}

// answering is a plane's API server with two Clusters, and three Pods of which one has not
// started.
func answering(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := map[string]string{
			"/version": `{"gitVersion":"v1.36.3"}`,
			"/apis/cluster.x-k8s.io/v1beta2/clusters": `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"remainingItemCount":1},"items":[{"metadata":{"name":"a"}}]}`,
			"/api/v1/pods":     `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"p","namespace":"x"},"status":{"conditions":[{"type":"Ready","status":"True"}]}},{"metadata":{"name":"q","namespace":"x"},"status":{"phase":"Succeeded"}},{"metadata":{"name":"r","namespace":"x"},"status":{"reason":"Evicted","message":"no\u001b[2J\nroom"}}]}`,
			"/capstan/members": `[{"name":"m","host":"h","dir":"/d","address":"127.0.0.1:6443","since":"2026-01-02T03:04:05Z","leads":true}]`,
		}[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestStatusEndsAsThePlaneIs(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(other.Close)
	ready := time.Now()
	for name, tc := range map[string]struct {
		holder datadir.Holder
		server string // of the kubeconfig
		free   bool   // the plane has ended
		state  string
		status int
		table  []string
	}{
		"stopped":          {datadir.Holder{Problem: "etcd: disk full"}, "", true, "Stopped", 3, []string{"State: Stopped", "Problem: etcd: disk full"}},
		"starting":         {datadir.Holder{PID: os.Getpid(), Version: "v1"}, "", false, "Starting", 4, []string{"State: Starting", "Version: v1", "Etcd: embedded"}},
		"stopping":         {datadir.Holder{PID: os.Getpid(), Ready: ready, Problem: "cut off\x1b[2J"}, "", false, "Stopping", 4, []string{"State: Stopping", `Problem: cut off\x1b[2J`}},
		"running":          {datadir.Holder{PID: os.Getpid(), Ready: ready, Address: "127.0.0.1:1"}, answering(t), false, "Running", 0, []string{"State: Running", "Kubernetes: v1.36.3", "Clusters: 2", "Pods: 3, 1 of which not ready", `x/r: Evicted: no\x1b[2J`, "room", "API server: https://127.0.0.1:1"}},
		"one of several":   {datadir.Holder{PID: os.Getpid(), Ready: ready, EtcdServers: []string{"https://a"}}, answering(t), false, "Running", 0, []string{"Etcd: https://a", "Planes: https://127.0.0.1:6443 on h in /d, leads"}},
		"silent":           {datadir.Holder{PID: os.Getpid(), Ready: ready}, gone.URL, false, "Unreachable", 4, []string{"State: Unreachable"}},
		"another server":   {datadir.Holder{PID: os.Getpid(), Ready: ready}, other.URL, false, "Unreachable", 4, []string{"Problem: ask the API server for its version: "}},
		"no kubeconfig":    {datadir.Holder{PID: os.Getpid(), Ready: ready}, "", false, "Unreachable", 4, []string{"Problem: read kubeconfig: "}},
		"never started":    {datadir.Holder{}, "", true, "Stopped", 3, []string{"State: Stopped", "On disk: 0 MiB"}},
		"without its name": {datadir.Holder{PID: 1 << 30, Ready: ready}, answering(t), false, "Running", 0, []string{"Process: 1073741824"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, lock := hold(t, tc.holder)
			if tc.server != "" {
				if err := os.WriteFile(dir.Kubeconfig(), kubeconfigFor(tc.server), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if tc.free {
				if err := lock.Release(); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			status, said := run(t.Context(), t, &Env{Env: command.Env{Out: &out}}, "status", "--data-dir", string(dir))
			if status != tc.status || (said == "") != (status == 0) {
				t.Errorf("status %d, want %d, said %q", status, tc.status, said)
			}
			text := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " ")
			for _, want := range tc.table {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			out.Reset()
			status, _ = run(t.Context(), t, &Env{Env: command.Env{Out: &out}}, "status", "--data-dir", string(dir), "-o", "json")
			var got planeStatus
			if err := json.Unmarshal(out.Bytes(), &got); err != nil || status != tc.status || got.State != tc.state || got.DataDir != string(dir) {
				t.Errorf("status %d, %v, %+v, want %s", status, err, got, tc.state)
			}
		})
	}
	if status, said := run(t.Context(), t, &Env{Env: command.Env{Out: full{}}}, "status", "--data-dir", filepath.Join(t.TempDir(), "none")); status == 0 || !strings.Contains(said, "no space left on device") {
		t.Errorf("to a full device: status %d, said %q", status, said)
	}
}

// TestDownWaitsForTheLock of a process, and reports one that does not end.
func TestDownWaitsForTheLock(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	env := &Env{Env: command.Env{Out: &out, Err: &out}}
	none := datadir.Dir(filepath.Join(t.TempDir(), "none"))
	if err := runDown(t.Context(), env, downOptions{dir: string(none)}); err != nil || out.String() != "No management plane runs on "+string(none)+"\n" {
		t.Errorf("no plane: %v, said %q", err, out.String())
	}
	unnamed, _ := hold(t, datadir.Holder{})
	if err := runDown(t.Context(), env, downOptions{dir: string(unnamed)}); err == nil || !strings.Contains(err.Error(), "is held, but its lock does not say by which process") {
		t.Errorf("an unnamed process: error %v", err)
	}
	ended := exec.CommandContext(t.Context(), "true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	other, _ := hold(t, datadir.Holder{PID: ended.Process.Pid})
	if err := runDown(t.Context(), env, downOptions{dir: string(other)}); err == nil || !strings.HasPrefix(err.Error(), "stop process ") {
		t.Errorf("a process that ended: error %v", err)
	}
	for name, tc := range map[string]struct {
		script string
		o      downOptions
		free   bool // the lock, when the process ends
		cancel bool
		want   string
	}{
		"one that ends":         {"exec sleep 60", downOptions{timeout: time.Minute}, true, false, ""},
		"one that is killed":    {"trap '' TERM; echo; while :; do sleep 1; done", downOptions{timeout: 50 * time.Millisecond, force: true}, true, false, ""},
		"one that does not":     {"exec sleep 60", downOptions{timeout: 50 * time.Millisecond}, false, false, "has not stopped in 50ms: give it more --timeout, or kill it with --force; nothing is lost by that"},
		"an impatient caller":   {"exec sleep 60", downOptions{timeout: time.Minute}, false, true, "context canceled"},
		"one without a timeout": {"exec sleep 60", downOptions{}, false, false, "has not stopped in 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			process := exec.CommandContext(t.Context(), "sh", "-c", "echo; "+tc.script)
			started, err := process.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := process.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := started.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			dir, lock := hold(t, datadir.Holder{PID: process.Process.Pid})
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = process.Wait() // a signal ends it
				if tc.free {
					_ = lock.Release()
				}
			}()
			t.Cleanup(func() { _ = process.Process.Kill(); <-done })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.cancel {
				cancel()
			}
			var out bytes.Buffer
			tc.o.dir = string(dir)
			err = runDown(ctx, &Env{Env: command.Env{Out: &out}}, tc.o)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) || err == nil && !strings.HasPrefix(out.String(), "Management plane stopped after ") {
				t.Errorf("%v, said %q", err, out.String())
			}
		})
	}
}

func TestFollowPrintsTheReportsOfAStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ reports, out, said, err string }{
		"a start":          {`{"progress":"Starting etcd"}` + "\n" + `{"progress":"\u001b[2J"}` + "\n" + `{"ready":"ready at x"}` + "\n" + `{"progress":"later"}` + "\n", "ready at x\n", "Starting etcd\n\\x1b[2J\n", ""},
		"a failure":        {`{"progress":"Starting etcd"}` + "\n" + `{"error":"  no disk \n"}` + "\n", "", "Starting etcd\n", "no disk"},
		"an early end":     {`{"progress":"Starting etcd"}` + "\n", "", "Starting etcd\n", "the management plane ended before it was ready"},
		"no report at all": {"", "", "", "the management plane ended before it was ready"},
		"another program":  {"usage: x\n", "", "", "read report of the background process: invalid character"},
	} {
		var out, said bytes.Buffer
		err := follow(&Env{Env: command.Env{Out: &out, Err: &said}}, io.NopCloser(strings.NewReader(tc.reports)))
		if out.String() != tc.out || said.String() != tc.said || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, printed %q, said %q", name, err, out.String(), said.String())
		}
	}
}

// TestReporterWritesWhatFollowReads, in the process that its parent waits for.
func TestReporterWritesWhatFollowReads(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("no disk")} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var out, said bytes.Buffer
		env := &Env{Env: command.Env{Out: &out, Err: &said}}
		fd, err := syscall.Dup(int(w.Fd())) // the reporter closes it
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		report := env.reporter(fd)
		report.progress("Starting")
		if failure == nil {
			report.ready("ready")
		} else {
			report.failed(failure)
		}
		err = follow(env, r)
		if want := map[bool]string{true: "ready\n"}[failure == nil]; out.String() != want || said.String() != "Starting\n" || (err == nil) != (failure == nil) || err != nil && err.Error() != failure.Error() {
			t.Errorf("%v: %v, printed %q, said %q", failure, err, out.String(), said.String())
		}
	}
	var out, said bytes.Buffer
	direct := (&Env{Env: command.Env{Out: &out, Err: &said}}).reporter(0)
	direct.progress("Starting")
	direct.failed(errors.New("it is printed as the error of the command"))
	direct.ready("ready")
	if diff := cmp.Diff([]string{"ready\n", "Starting\n"}, []string{out.String(), said.String()}); diff != "" {
		t.Errorf("on a terminal (-want +got):\n%s", diff)
	}
}

func TestDetachIsContentWithAPlaneOfTheSameFlags(t *testing.T) {
	t.Parallel()
	dir, _ := hold(t, datadir.Holder{PID: os.Getpid(), Ready: time.Now(), Address: "127.0.0.1:7443", Flags: map[string]string{"providers": "[core]", "listen": "127.0.0.1:0"}})
	if err := os.WriteFile(dir.Kubeconfig(), kubeconfigFor(answering(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		flags map[string]string
		given []string
		want  string
	}{
		"none given":      {map[string]string{"providers": "[core,local]"}, nil, ""},
		"the same":        {map[string]string{"providers": "[core]"}, []string{"providers"}, ""},
		"another":         {map[string]string{"providers": "[core,local]"}, []string{"providers"}, `runs with --providers "[core]", not "[core,local]": stop it with "capstan down --data-dir ` + string(dir) + `" and start it again, or leave --providers out`},
		"its address":     {map[string]string{"listen": "127.0.0.1:7443"}, []string{"listen"}, ""},
		"another port":    {map[string]string{"listen": "127.0.0.1:1"}, []string{"listen"}, `runs with --listen "127.0.0.1:0", not "127.0.0.1:1"`},
		"a flag it lacks": {map[string]string{"x": "y"}, []string{"x"}, `runs with --x "", not "y"`},
	} {
		var out bytes.Buffer
		o := upOptions{given: tc.given}
		o.Dir, o.Flags = string(dir), tc.flags
		err := detach(t.Context(), &Env{Env: command.Env{Out: &out}}, o)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) || err == nil && !strings.Contains(out.String(), " at https://127.0.0.1:7443, kubeconfig "+dir.Kubeconfig()) {
			t.Errorf("%s: %v, printed %q", name, err, out.String())
		}
	}
	busy, _ := hold(t, datadir.Holder{PID: 42})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	o := upOptions{}
	o.Dir = string(busy)
	if err := detach(ctx, &Env{}, o); err == nil || !strings.Contains(err.Error(), "process 42 holds "+string(busy)+" and does not answer (it is not ready): stop it with \"capstan down --force --data-dir "+string(busy)+"\"") {
		t.Errorf("one that starts: error %v", err)
	}
	o.Dir, o.logFile = filepath.Join(t.TempDir(), "new"), "-"
	if err := detach(t.Context(), &Env{}, o); !errors.As(err, new(command.UsageError)) {
		t.Errorf("a log to no terminal: error %v, want misuse", err)
	}
}
