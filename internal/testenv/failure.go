// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

const (
	// logLines and conditionLines bound what a failed test prints, so that the failure
	// itself stays in sight.
	logLines       = 50
	conditionLines = 80
	// reportTimeout is the timeout for reading objects from a plane that may be the
	// fault.
	reportTimeout = 10 * time.Second
)

// reportedKinds are the kinds whose conditions a failed test prints.
var reportedKinds = []schema.GroupVersionKind{
	clusterv1.GroupVersion().WithKind("Cluster"), clusterv1.GroupVersion().WithKind("MachineDeployment"), clusterv1.GroupVersion().WithKind("MachineSet"),
	clusterv1.GroupVersion().WithKind("MachinePool"), clusterv1.GroupVersion().WithKind("Machine"), clusterv1.GroupVersion().WithKind("ClusterClass"),
	controlplanev1.GroupVersion().WithKind("KubeadmControlPlane"), bootstrapv1.GroupVersion().WithKind("KubeadmConfig"),
	infrav1.GroupVersion().WithKind("LocalCluster"), infrav1.GroupVersion().WithKind("LocalMachine"),
	runtimev1.GroupVersion().WithKind("ExtensionConfig"),
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Version: "v1", Kind: "Pod"},
}

// bad are the conditions that report a problem, or something unfinished, by being True.
var bad = map[string]bool{"Paused": true, "Deleting": true, "RollingOut": true, "ScalingUp": true, "ScalingDown": true, "Remediating": true, "Updating": true}

// reportFailure prints, if the test fails, the end of the log of the plane that has the
// data directory, the conditions of its objects that may explain it, and the state of the
// machine. An empty namespace means all namespaces.
func reportFailure(t testing.TB, dataDir, namespace string) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the machine: %s\nconditions that may explain it:\n%sthe last lines of the log of the plane in %s:\n%s",
				machine(), conditionsOf(datadir.Dir(dataDir).Kubeconfig(), namespace), dataDir, lastLines(datadir.Dir(dataDir).Log()))
		}
	})
}

// machine describes how busy the machine is.
func machine() string {
	free := "unknown"
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
				free = strings.TrimSpace(rest)
			}
		}
	}
	return fmt.Sprintf("load %.1f on %d cores, %s of memory available, limits are multiplied by %.1f", load(), runtime.NumCPU(), free, Slowdown())
}

// lastLines returns the end of a log, without the lines in which gRPC reports that it
// connects to an etcd again.
func lastLines(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(b), "\n"), func(line string) bool { return strings.Contains(line, "grpc") })
	return strings.Join(lines[max(0, len(lines)-logLines):], "")
}

// conditionsOf lists the conditions of a plane's objects that do not have their normal
// status.
func conditionsOf(kubeconfig, namespace string) string {
	env, err := Connect(kubeconfig)
	if err != nil {
		return err.Error() + "\n"
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	var lines []string
	for _, gvk := range reportedKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := env.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err.Error() + "\n"
		}
		for _, obj := range list.Items {
			all, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions") // none is fine
			for _, c := range all {
				if c, ok := c.(map[string]any); ok && (c["status"] == "True") == bad[fmt.Sprint(c["type"])] {
					lines = append(lines, fmt.Sprintf("%s %s/%s: %v is %v, %v: %v\n", gvk.Kind, obj.GetNamespace(), obj.GetName(), c["type"], c["status"], c["reason"], c["message"]))
				}
			}
		}
	}
	if n := len(lines); n > conditionLines {
		lines = append(lines[:conditionLines], fmt.Sprintf("and %d more\n", n-conditionLines))
	}
	return strings.Join(lines, "")
}
