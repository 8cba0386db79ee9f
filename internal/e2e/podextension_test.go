// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// inAPod is what an extension's release installs. Its Service has another port than
// the Pod, and its certificate is the plane's.
const inAPod = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: hooks, namespace: default}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: hooks, namespace: default}
spec: {secretName: hooks, dnsNames: [hooks.default.svc], issuerRef: {name: hooks}}
---
apiVersion: v1
kind: Service
metadata: {name: hooks, namespace: default}
spec:
  selector: {app: hooks}
  ports: [{port: 8443, targetPort: hooks}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: hooks, namespace: default}
spec:
  selector: {matchLabels: {app: hooks}}
  template:
    metadata: {labels: {app: hooks}}
    spec:
      containers:
      - name: extension
        image: example.com/extension:v1
        args: [--address=0.0.0.0:9443, --cert-file=/certs/tls.crt, --key-file=/certs/tls.key]
        ports: [{name: hooks, containerPort: 9443}]
        readinessProbe: {tcpSocket: {port: hooks}, periodSeconds: 1}
        volumeMounts: [{name: certs, mountPath: /certs, readOnly: true}]
      volumes: [{name: certs, secret: {secretName: hooks}}]
---
apiVersion: runtime.cluster.x-k8s.io/v1beta2
kind: ExtensionConfig
metadata: {name: hooks, annotations: {runtime.cluster.x-k8s.io/inject-ca-from-secret: default/hooks}}
spec:
  clientConfig: {service: {name: hooks, namespace: default, port: 8443}}
  settings: {hold: BeforeClusterCreate, retryAfterSeconds: "1"}
`

// TestAnExtensionInAPodSteersACluster: the plane discovers its handlers through its
// Service, calls them before it creates a cluster, waits as they answer, and
// continues.
func TestAnExtensionInAPodSteersACluster(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	needSandboxes(t)
	dir := t.TempDir()
	if _, err := testenv.Up(t, "--data-dir="+dir, "--listen=127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	env, err := testenv.Connect(filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	importImage(t, dir, programImage(t, "example.com/extension:v1", "sample-extension"))
	objects, err := template.Objects([]byte(inAPod))
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "hooks"}}
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
			return err
		}
		if d := conditions.Get(config, runtimev1.ExtensionConfigDiscoveredCondition); d == nil || d.Status != metav1.ConditionTrue {
			return fmt.Errorf("Discovered is %+v", d)
		}
		return nil
	})

	if out, err := exec.CommandContext(t.Context(), testenv.Binary(t), "create", "cluster", "c", "--data-dir", dir, "--flavor", "topology", "--wait=false").CombinedOutput(); err != nil {
		t.Fatalf("create cluster: %v\n%s", err, out)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	is := func(condition string, status metav1.ConditionStatus, says string) func() error {
		return func() error {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
				return err
			}
			if c := conditions.Get(cluster, condition); c == nil || c.Status != status || !strings.Contains(c.Message, says) {
				return fmt.Errorf("%s is %+v, want %s %q", condition, c, status, says)
			}
			return nil
		}
	}
	testenv.Eventually(t, is(clusterv1.ClusterTopologyReconciledCondition, metav1.ConditionFalse, "held by setting hold"))
	if cluster.Spec.InfrastructureRef.IsDefined() {
		t.Errorf("the infrastructure %+v was made before it might", cluster.Spec.InfrastructureRef)
	}

	before := config.DeepCopy()
	delete(config.Spec.Settings, "hold")
	if err := env.Client.Patch(t.Context(), config, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, is(clusterv1.ClusterAvailableCondition, metav1.ConditionTrue, ""))

	// A plan asks the handlers whose answers decide. This process has no route to the Pod.
	class := &clusterv1.ClusterClass{}
	if err := env.Client.Get(t.Context(), cluster.GetClassKey(), class); err != nil {
		t.Fatal(err)
	}
	external := fmt.Appendf(nil, `{"spec":{"patches":[{"name":"external","external":{"generatePatchesExtension":"generate-patches.hooks"}}]}}`)
	if err := env.Client.Patch(t.Context(), class, client.RawPatch(types.MergePatchType, external)); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		out, err := exec.CommandContext(t.Context(), testenv.Binary(t), "plan", "--set", "cluster/c", "spec.topology.version=v1.36.9", "--data-dir", dir).CombinedOutput()
		if text := string(out); err == nil || !strings.Contains(text, "is replaced by") || strings.Contains(text, "not predicted") {
			return fmt.Errorf("plan: %v\n%s", err, text)
		}
		return nil
	})
}
