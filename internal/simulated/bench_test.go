// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkIdleClusters starts 500 clusters of one control plane machine and one
// worker, and reports what they hold when no client talks to them.
func BenchmarkIdleClusters(b *testing.B) {
	const clusters = 500
	for b.Loop() {
		b.StopTimer()
		l := newLab(b)
		before, goroutines := heap(), runtime.NumGoroutine()
		b.StartTimer()
		for i := range clusters {
			l.cluster = clusterSpec{Namespace: "ns", Name: fmt.Sprintf("c-%d", i), UID: types.UID(fmt.Sprintf("bench-%d", i))}
			var err error
			if l.endpoint, err = l.b.ensureCluster(l.cluster); err != nil {
				b.Fatal(err)
			}
			l.bringUp(i)
		}
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/clusters/1024, "KiB/cluster")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/clusters, "goroutines/cluster")
		b.ReportMetric(float64(b.Elapsed().Milliseconds())/clusters, "ms/cluster")
		if err := l.b.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func (l *lab) bringUp(i int) {
	l.t.Helper()
	for _, m := range []machineSpec{l.machine("cp", l.initData()), l.machine("w", l.workerData())} {
		m.Cluster, m.UID = l.cluster.Name, types.UID(fmt.Sprintf("%s-%d", m.Name, i))
		if s := l.ensure(m); !s.Done() {
			l.t.Fatalf("machine %s is at %s: %s", m.Name, s.Stage, s.Message)
		}
		if m.Name == "cp" {
			l.directToken()
		}
	}
}

// directToken creates a token without a client, whose connections would count.
func (l *lab) directToken() {
	l.t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + goodID}, Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte(goodID), "token-secret": []byte(goodRest), "auth-extra-groups": []byte("system:bootstrappers:kubeadm:default-node-token"),
			"usage-bootstrap-signing": []byte("true"), "usage-bootstrap-authentication": []byte("true"),
		},
	}
	if err := l.b.clusters[l.cluster.Key()].server.Store().Add(s); err != nil {
		l.t.Fatal(err)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// BenchmarkRestart opens 100 clusters of one control plane machine and one worker
// that another process has run, as many at a time as reconcilers do.
func BenchmarkRestart(b *testing.B) {
	const clusters, workers = 100, 10
	l := newLab(b)
	var specs []clusterSpec
	for i := range clusters {
		l.cluster = clusterSpec{Namespace: "ns", Name: fmt.Sprintf("c-%d", i), UID: types.UID(fmt.Sprintf("bench-%d", i))}
		var err error
		if l.endpoint, err = l.b.ensureCluster(l.cluster); err != nil {
			b.Fatal(err)
		}
		l.bringUp(i)
		specs = append(specs, l.cluster)
	}
	for b.Loop() {
		b.StopTimer()
		if err := l.b.Close(); err != nil {
			b.Fatal(err)
		}
		var err error
		if l.b, err = New(Options{Dir: l.dir, Unsynced: true}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		var group sync.WaitGroup
		for w := range workers {
			group.Go(func() {
				for i := w; i < clusters; i += workers {
					if err := l.b.resumeCluster(specs[i]); err != nil {
						b.Error(err)
					}
				}
			})
		}
		group.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/clusters, "µs/cluster")
}
