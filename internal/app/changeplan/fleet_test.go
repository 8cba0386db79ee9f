// SPDX-License-Identifier: Apache-2.0

package changeplan_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/access/shards"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
)

// rolled is a class whose workers have another bootstrap template.
const rolled = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: fleet, namespace: default}
spec:
  workers:
    machineDeployments:
    - {class: worker, bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: join2}}, infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: host}}}
`

// labelled is the class with a label for its workers.
var labelled = strings.Replace(strings.Replace(rolled, "join2", "join", 1), "class: worker,", "class: worker, metadata: {labels: {tier: gold}},", 1)

// otherJoin is the template of rolled.
const otherJoin = `
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: join2, namespace: default}
spec: {template: {spec: {files: [{path: /etc/motd, content: hello}], joinConfiguration: {nodeRegistration: {name: '{{ ds.meta_data.local_hostname }}'}}}}}
`

var uids = regexp.MustCompile(`"(uid-[0-9]+)"`)

// cloned are the objects of Cluster demo as those of a Cluster in another namespace.
func cloned(all []client.Object, namespace string) (clones []client.Object, err error) {
	for _, obj := range all {
		if shards.ClusterOf(obj) != "demo" {
			continue
		}
		text, err := json.Marshal(obj)
		if err != nil {
			return nil, err
		}
		of := strings.ReplaceAll(uids.ReplaceAllString(string(text), `"$1-`+namespace+`"`), `"namespace":"default"`, `"namespace":"`+namespace+`"`)
		clone := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
		if err := json.Unmarshal([]byte(of), clone); err != nil {
			return nil, err
		}
		if c, is := clone.(*clusterv1.Cluster); is {
			c.Spec.Topology.ClassRef.Namespace = "default"
		}
		clones = append(clones, clone)
	}
	return clones, nil
}

// BenchmarkPlanOfAClass makes the plan of a change of a class for a fleet. It prints
// CPU seconds for each Cluster, the largest heap and the time until the first Cluster
// is done. PLAN_CLUSTERS is the number of Clusters.
func BenchmarkPlanOfAClass(b *testing.B) {
	count := 40
	if n := os.Getenv("PLAN_CLUSTERS"); n != "" {
		var err error
		if count, err = strconv.Atoi(n); err != nil {
			b.Fatal(err)
		}
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(160 << 20)) // as the command does
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for _, bc := range []struct {
		name   string
		size   int // control plane machines, and workers
		change []changeplan.Write
		want   planv1.Summary // of each Cluster
	}{
		{"labels-1+1", 1, []changeplan.Write{applied(b, labelled)}, planv1.Summary{Kept: 1, Changed: 1}},
		{"workers-1+1", 1, []changeplan.Write{applied(b, otherJoin), applied(b, rolled)}, planv1.Summary{Kept: 1, Replaced: 1}},
		{"labels-3+3", 3, []changeplan.Write{applied(b, labelled)}, planv1.Summary{Kept: 3, Changed: 3}},
		{"workers-3+3", 3, []changeplan.Write{applied(b, otherJoin), applied(b, rolled)}, planv1.Summary{Kept: 3, Replaced: 3}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			m := served(b, fleet(b, bc.size, count))
			for b.Loop() {
				before, heap, first, start := cpu(), uint64(0), time.Duration(0), time.Now()
				p := plan(b, m, changeplan.Options{Progress: func(done, _ int, _ planv1.Cluster) {
					if done == 1 {
						first = time.Since(start)
					}
					heap = max(heap, heapBytes())
				}}, bc.change...)
				if s := p.Summary; s.Replaced != bc.want.Replaced*count || s.Kept != bc.want.Kept*count || s.Changed != bc.want.Changed*count {
					b.Fatalf("the plan: %+v\n%.3000s", s, text(b, p))
				}
				b.ReportMetric((cpu()-before).Seconds()/float64(count), "CPU-s/Cluster")
				b.ReportMetric(float64(heap)/(1<<20), "MiB-heap")
				b.ReportMetric(first.Seconds(), "s-first")
			}
		})
	}
}

// fleet are the objects of so many Clusters of a class, each in a namespace of its own
// and with so many control plane machines and workers.
func fleet(t testing.TB, size, clusters int) []client.Object {
	t.Helper()
	n := fmt.Sprintf("replicas: %d", size)
	all, err := steady([]byte(strings.NewReplacer("replicas: 1", n, "replicas: 2", n).Replace(classes)))
	if err != nil {
		t.Fatal(err)
	}
	fleet := all
	for i := 1; i < clusters; i++ {
		clones, err := cloned(all, fmt.Sprintf("ns-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		fleet = append(fleet, clones...)
	}
	return fleet
}

// cpu is the CPU time of the process so far.
func cpu() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // fails only for invalid arguments
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
