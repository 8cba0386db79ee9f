// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// fill fills a cluster with the objects that kubeadm and a number of nodes
// create.
func fill(b testing.TB, c *cluster, nodes int) {
	b.Helper()
	add := func(obj apiserver.Object) {
		if err := c.Store().Add(obj); err != nil {
			b.Fatal(err)
		}
	}
	for i := range nodes {
		n := node(fmt.Sprintf("node-%d", i))
		for _, kind := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: "True", Reason: "KubeletReady", Message: "kubelet is posting ready status"})
		}
		n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.34.2", OSImage: "simulated", KernelVersion: "6.12.0", ContainerRuntimeVersion: "containerd://2.2.0"}
		add(n)
		for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
			p := pod(fmt.Sprintf("%s-node-%d", name, i), map[string]string{"tier": "control-plane", "component": name})
			p.Namespace = "kube-system"
			p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
			add(p)
		}
	}
	for i := range 10 {
		add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: fmt.Sprintf("config-%d", i)}, Data: map[string]string{"config": strings.Repeat("setting: value\n", 100)}})
		add(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("role-%d", i)}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}})
	}
}

func BenchmarkGet(b *testing.B) {
	c := start(b)
	fill(b, c, 3)
	nodes := clientset(b, c.admin(b)).CoreV1().Nodes()
	for b.Loop() {
		if _, err := nodes.Get(b.Context(), "node-1", metav1.GetOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkListOf50Nodes(b *testing.B) {
	c := start(b)
	fill(b, c, 50)
	nodes := clientset(b, c.admin(b)).CoreV1().Nodes()
	for b.Loop() {
		if list, err := nodes.List(b.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 50 {
			b.Fatal(err)
		}
	}
}

func BenchmarkMergePatch(b *testing.B) {
	c := start(b)
	fill(b, c, 3)
	nodes := clientset(b, c.admin(b)).CoreV1().Nodes()
	for i := 0; b.Loop(); i++ {
		patch := []byte(`{"metadata":{"annotations":{"n":"` + strconv.Itoa(i) + `"}}}`)
		if _, err := nodes.Patch(b.Context(), "node-1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkServerSideApply(b *testing.B) {
	c := start(b)
	fill(b, c, 3)
	nodes := clientset(b, c.admin(b)).CoreV1().Nodes()
	for i := 0; b.Loop(); i++ {
		intent := applycorev1.Node("node-1").WithAnnotations(map[string]string{"n": strconv.Itoa(i)})
		if _, err := nodes.Apply(b.Context(), intent, metav1.ApplyOptions{FieldManager: "bench", Force: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAdd is a write of the machine simulation.
func BenchmarkAdd(b *testing.B) {
	c := start(b)
	for i := 0; b.Loop(); i++ {
		p := pod(fmt.Sprintf("p-%d", i), nil)
		if err := c.Store().Add(p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIdleClusters reports the cost of a cluster that has three nodes and one
// client, which watches nodes and pods. It creates them once, for any b.N.
func BenchmarkIdleClusters(b *testing.B) {
	const clusters = 500
	dir, before := b.TempDir(), used()
	listeners := apiserver.NewListeners(discard())
	kept := make([]*cluster, 0, clusters)
	var watches []io.Closer
	for i := range clusters {
		c := serve(b, listeners, func(o *apiserver.Options) {
			o.Journal = store.FileAt(filepath.Join(dir, strconv.Itoa(i)), discard())
		})
		fill(b, c, 3)
		cfg := c.admin(b)
		hc, err := rest.HTTPClientFor(cfg)
		if err != nil {
			b.Fatal(err)
		}
		for _, kind := range []string{"nodes", "pods"} {
			watches = append(watches, open(b, hc, cfg.Host+"/api/v1/"+kind+"?watch=true"))
		}
		kept = append(kept, c)
	}
	after := used()
	for b.Loop() {
		runtime.KeepAlive(kept)
	}
	b.ReportMetric(float64(after.heap-before.heap)/(1<<20), "heap-MiB")
	b.ReportMetric(float64(after.resident-before.resident)/(1<<20), "resident-MiB")
	for _, w := range watches {
		_ = w.Close()
	}
	for _, c := range kept {
		c.Close()
	}
	if err := listeners.Close(); err != nil {
		b.Error(err)
	}
}

func open(b *testing.B, hc *http.Client, url string) io.Closer {
	b.Helper()
	resp, err := hc.Get(url) // closed by the caller
	if err != nil {
		b.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		b.Fatal(err)
	}
	return resp.Body
}

type memory struct{ heap, resident int64 }

// used is what the process holds after a collection.
func used() memory {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := memory{heap: int64(m.HeapAlloc + m.StackInuse)}
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(statm)); len(f) > 1 {
			pages, _ := strconv.ParseInt(f[1], 10, 64)
			u.resident = pages * int64(os.Getpagesize())
		}
	}
	return u
}
