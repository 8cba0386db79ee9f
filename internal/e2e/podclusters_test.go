// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/host/ociimages/programs"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/loopback"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// clusterClients are the toolbox, and kubectl with the kubeconfig that a plane made for a
// simulated cluster, as a provider or an autoscaler would use it.
const clusterClients = `
apiVersion: v1
kind: Pod
metadata: {name: box, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: server, image: IMAGE}]
---
apiVersion: v1
kind: Pod
metadata: {name: nodes, namespace: default}
spec:
  restartPolicy: Never
  containers:
  - name: kubectl
    image: example.com/kubectl:v1
    args: [get, nodes, --output=name, --cache-dir=/tmp, --kubeconfig=/cluster/value]
    securityContext: {runAsNonRoot: true, runAsUser: 65532, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: cluster, mountPath: /cluster, readOnly: true}]
  volumes: [{name: cluster, secret: {secretName: demo-kubeconfig}}]
`

// claimingCluster names an address of the host as the endpoint of a cluster.
const claimingCluster = `
apiVersion: infrastructure.capstan.dev/v1beta2
kind: LocalCluster
metadata: {name: claim, namespace: default}
spec: {simulated: {}, controlPlaneEndpoint: {host: HOST, port: 6443}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: claim, namespace: default}
spec:
  controlPlaneEndpoint: {host: HOST, port: 6443}
  infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalCluster, name: claim}
`

// hostListener answers on an address of simulated clusters that belongs to no cluster, as
// another process of the host can.
func hostListener(t *testing.T) netip.AddrPort {
	t.Helper()
	for range 100 {
		at := loopback.Candidate(rand.Uint32())
		ln, err := net.Listen("tcp", at.String())
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, "the host")
				_ = c.Close()
			}
		}()
		return at
	}
	t.Fatal("no address of the loopback is free")
	return netip.AddrPort{}
}

// TestPodsReachOnlyClustersOfTheirPlane: with the kubeconfig of a simulated cluster a Pod
// works as any client does, and it reaches nothing else of the host's loopback, also if
// objects name it.
func TestPodsReachOnlyClustersOfTheirPlane(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	b := newBoxLab(t)
	dir := filepath.Dir(b.kubeconfig)
	importImage(t, dir, kubectlImage(t))
	if out, err := exec.CommandContext(t.Context(), testenv.Binary(t), "create", "cluster", "demo", "--data-dir", dir, "--worker-machine-count", "2").CombinedOutput(); err != nil {
		t.Fatalf("create a cluster: %v\n%s", err, out)
	}
	endpoint, code := b.does("get", "cluster", "demo", "--output=jsonpath={.spec.controlPlaneEndpoint.host}:{.spec.controlPlaneEndpoint.port}")
	if at, err := netip.ParseAddrPort(endpoint); code != 0 || err != nil || !loopback.Allowed(at) {
		t.Fatalf("the endpoint is %s, %v", endpoint, err)
	}
	b.create(clusterClients)
	b.runs("box")
	testenv.Eventually(t, func() error {
		pod, err := b.pod("nodes")
		if err == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			err = fmt.Errorf("Pod nodes has the status %+v", pod.Status)
		}
		return err
	})
	if out, _ := b.does("logs", "nodes"); strings.Count(out, "node/demo-") != 3 {
		t.Errorf("in a Pod, the Nodes of the cluster are %q, want three", out)
	}

	other := hostListener(t)
	b.create(strings.ReplaceAll(claimingCluster, "HOST", other.Addr().String()))
	testenv.Eventually(t, func() error {
		log, err := os.ReadFile(datadir.Dir(dir).Log())
		if want := other.String() + ": bind: address already in use"; err != nil || !strings.Contains(string(log), want) {
			return fmt.Errorf("the claim of %s is not refused by %q, %w", other, want, err)
		}
		return nil
	})
	if out, code := b.does("delete", "cluster", "demo", timeout()); code != 0 {
		t.Fatal(out)
	}
	const reset = "connection reset by peer"
	for to, want := range map[string]string{
		other.String(): reset, endpoint: reset, // the cluster is deleted
		"127.0.0.1:" + plainPort(t, b.env.Config.Host): "connection refused", // at the loopback of the Pod
	} {
		if got := b.box("box", "dial", to); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", to, got, want)
		}
	}
	for _, to := range []string{other.String(), endpoint} {
		want := "connect to " + to + ": " + to + " is not for Pods: "
		testenv.Eventually(t, func() error {
			events, _ := b.does("events", "--for=pod/box")
			log, err := os.ReadFile(datadir.Dir(dir).Log())
			// Events of one reason are a series, which has the text of its first.
			if !strings.Contains(events, "ConnectionsRefused") || !strings.Contains(events, " is not for Pods: ") {
				return fmt.Errorf("no Event reports refused connections: %s", events)
			}
			if err != nil || !strings.Contains(string(log), want) {
				return fmt.Errorf("the log, %w, has no %q", err, want)
			}
			return nil
		})
	}
}

// plainPort is the port of a URL.
func plainPort(t *testing.T, url string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// kubectlImage writes an archive of an image of the kubectl of this host.
func kubectlImage(t *testing.T) string {
	t.Helper()
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	i, err := programs.Image(runtime.GOARCH, []string{kubectl}, programs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "image")
	if err := programs.Write(dir, "example.com/kubectl:v1", i); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, runtime.GOARCH+".tar")
}
