// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

func clientFor(t testing.TB, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// nodes are the existing Nodes, with the status of their Ready condition.
func nodes(t testing.TB, cfg *rest.Config) map[string]corev1.ConditionStatus {
	t.Helper()
	list, err := clientFor(t, cfg).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]corev1.ConditionStatus{}
	for _, n := range list.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				out[n.Name] = c.Status
			}
		}
	}
	return out
}

// started is a cluster that is closed with the test.
func started(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestAClusterHasTheNodesAndTheVersionThatWereAskedFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options     Options
		wantNodes   string
		wantVersion string
	}{
		"nothing was asked for": {Options{}, "map[control-plane-1:True]", DefaultVersion},
		"an older one with three of each": {
			Options{Version: "v1.33.1", ControlPlane: 3, Workers: 3},
			"map[control-plane-1:True control-plane-2:True control-plane-3:True worker-1:True worker-2:True worker-3:True]", "v1.33.1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Start(t, tc.options)
			if got := fmt.Sprint(nodes(t, cfg)); got != tc.wantNodes {
				t.Errorf("got Nodes %s, want %s", got, tc.wantNodes)
			}
			if v, err := clientFor(t, cfg).Discovery().ServerVersion(); err != nil || v.GitVersion != tc.wantVersion {
				t.Errorf("got version %v, %v, want %s", v, err, tc.wantVersion)
			}
		})
	}
}

func TestClustersRunSideBySideAndKnowOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	configs := make([]*rest.Config, 5)
	var starting sync.WaitGroup
	for i := range configs {
		starting.Go(func() { configs[i] = started(t, Options{}).Config() })
	}
	starting.Wait()
	for i, cfg := range configs {
		other := rest.CopyConfig(cfg)
		other.Host = configs[(i+1)%len(configs)].Host
		if _, err := clientFor(t, other).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
			t.Errorf("got %v at another cluster's address, want its certificate refused", err)
		}
		other.Insecure, other.CAData = true, nil
		if _, err := clientFor(t, other).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("got %v from a cluster of which one is not the administrator, want Unauthorized", err)
		}
	}
}

func TestFaultsComeAndGo(t *testing.T) {
	t.Parallel()
	c := started(t, Options{
		Workers: 1, Faults: []infrav1.ClusterFault{infrav1.ClusterFaultAPIServerRefuses},
		NodeFaults: map[string][]infrav1.MachineFault{"worker-1": {infrav1.MachineFaultNodeNotReady}},
	})
	if _, err := clientFor(t, c.Config()).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v, want the connection refused", err)
	}
	steps := map[string]error{"the cluster": c.SetFaults()}
	if got := nodes(t, c.Config())["worker-1"]; got != corev1.ConditionFalse {
		t.Errorf("got worker-1 Ready %s, want False", got)
	}
	steps["the worker"] = c.SetNodeFaults("worker-1")
	if got := nodes(t, c.Config())["worker-1"]; got != corev1.ConditionTrue {
		t.Errorf("got worker-1 Ready %s, want True", got)
	}
	steps["the control plane"] = c.SetNodeFaults("control-plane-1", infrav1.MachineFaultAPIServerHangs)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := clientFor(t, c.Config()).CoreV1().Nodes().List(ctx, metav1.ListOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want no answer", err)
	}
	for of, err := range steps {
		if err != nil {
			t.Errorf("faults of %s: %v", of, err)
		}
	}
	if err := c.SetNodeFaults("worker-2"); err == nil || err.Error() != `there is no Node "worker-2": choose of control-plane-1, worker-1` {
		t.Errorf("got %v for a Node that is not there", err)
	}
}

func TestADirectoryKeepsTheCluster(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kept")
	first, err := New(Options{Dir: dir, Version: "v1.35.2", Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	old := first.Config()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	if _, err := clientFor(t, old).CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := clientFor(t, old).CoreV1().Namespaces().Get(t.Context(), "mine", metav1.GetOptions{}); err == nil {
		t.Error("a closed cluster answers")
	}
	started(t, Options{Dir: dir, Workers: 2})
	if _, err := clientFor(t, old).CoreV1().Namespaces().Get(t.Context(), "mine", metav1.GetOptions{}); err != nil {
		t.Errorf("with the previous configuration: %v", err)
	}
	if got, want := fmt.Sprint(nodes(t, old)), "map[control-plane-1:True worker-1:True worker-2:True]"; got != want {
		t.Errorf("got Nodes %s, want %s", got, want)
	}
	if _, err := New(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "its infrastructure is held by") {
		t.Errorf("got %v from a directory whose cluster runs", err)
	}
}

func TestWhatCannotBeStartedIsNamed(t *testing.T) {
	t.Parallel()
	kept := filepath.Join(t.TempDir(), "kept")
	if err := started(t, Options{Dir: kept}).Close(); err != nil {
		t.Fatal(err)
	}
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, "cluster.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	spoiled := t.TempDir()
	t.Cleanup(func() { started(t, Options{Dir: spoiled}) })
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"a version that is none":  {Options{Version: "latest"}, `start a simulated cluster: version "latest" of Kubernetes: could not parse`},
		"a version that is old":   {Options{Version: "v1.20.0"}, "before v1.22"},
		"a bad version to keep":   {Options{Version: "latest", Dir: spoiled}, "could not parse"},
		"fewer than no Nodes":     {Options{Workers: -1}, "the numbers of Nodes must not be negative"},
		"another version":         {Options{Dir: kept, Version: "v1.35.0"}, "keeps a cluster of version v1.36.3, which cannot become v1.35.0: choose another directory"},
		"damage":                  {Options{Dir: damaged}, "cluster.json is damaged: put a copy of it back"},
		"a fault of an odd Node":  {Options{NodeFaults: map[string][]infrav1.MachineFault{"x": nil}}, `there is no Node "x"`},
		"a file as the directory": {Options{Dir: filepath.Join(damaged, "cluster.json")}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := New(tc.options); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestAKubeconfigIsForPrograms(t *testing.T) {
	t.Parallel()
	cfg, err := clientcmd.RESTConfigFromKubeConfig(started(t, Options{}).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	nodes(t, cfg)
}

// BenchmarkStart measures how long it takes until a cluster can be used.
func BenchmarkStart(b *testing.B) {
	for name, o := range map[string]Options{"alone": {}, "with ten workers": {Workers: 10}, "of three": {ControlPlane: 3}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c, err := New(o)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := c.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
