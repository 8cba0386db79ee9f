// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/host/ociimages/programs"
	"github.com/capstan-dev/capstan/internal/host/pods"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// served is what a provider's release installs: a Deployment whose image cannot be
// pulled, a Service before it, and a webhook whose certificate the plane issues.
const served = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: served, namespace: default}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: served, namespace: default}
spec: {secretName: served, dnsNames: [served.default.svc], issuerRef: {name: served}}
---
apiVersion: v1
kind: Service
metadata: {name: served, namespace: default}
spec:
  selector: {app: served}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: https, port: 443, targetPort: 8443}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: served, namespace: default}
spec:
  selector: {matchLabels: {app: served}}
  template:
    metadata: {labels: {app: served}}
    spec:
      containers:
      - name: manager
        image: example.com/served:v1
        readinessProbe: {httpGet: {port: 8080, path: /api}, periodSeconds: 1}
        securityContext: {runAsNonRoot: true, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: certs, mountPath: /certs, readOnly: true}]
      volumes: [{name: certs, secret: {secretName: served}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: served, annotations: {cert-manager.io/inject-ca-from: default/served}}
webhooks:
- name: served.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {name: served, namespace: default, path: /review}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
`

// programImage writes an archive of an image of one built program, as its release would
// be.
func programImage(t *testing.T, name, program string) string {
	t.Helper()
	dir := t.TempDir()
	i, err := programs.Image(runtime.GOARCH, []string{testenv.Program(t, program)}, programs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := programs.Write(filepath.Join(dir, "image"), name, i); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "image", runtime.GOARCH+".tar")
}

// needSandboxes skips a test where no sandbox can run, and returns how they run
// here.
func needSandboxes(t *testing.T) pods.Report {
	t.Helper()
	r := pods.Check(t.Context(), t.TempDir())
	if r.Mode == pods.None {
		t.Skipf("no sandbox can run here: %+v", r.Missing)
	}
	return r
}

// importImage gives a plane the image of an archive.
func importImage(t *testing.T, dir, archive string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), testenv.Binary(t), "image", "import", "--data-dir", dir, archive).CombinedOutput(); err != nil {
		t.Fatalf("import: %v\n%s", err, out)
	}
}

// TestAPlaneRunsAProvider: its Pod becomes Available, is answered by the API server
// and called by it through its Service, shows its log, keeps serving while a newer
// one crashes, and is deleted.
func TestAPlaneRunsAProvider(t *testing.T) {
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
	typed, err := kubernetes.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	importImage(t, dir, programImage(t, "example.com/served:v1", "test/served"))
	objects, err := template.Objects([]byte(served))
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "served", Namespace: "default"}}
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if d.Status.AvailableReplicas != 1 {
			return fmt.Errorf("the Deployment has the status %+v", d.Status)
		}
		return nil
	})
	services, all := typed.CoreV1().Services("default"), typed.CoreV1().Pods("default")
	testenv.Eventually(t, func() error {
		if out, err := services.ProxyGet("http", "served", "http", "/api", nil).DoRaw(t.Context()); err != nil || string(out) != "403 Forbidden<nil>" {
			return fmt.Errorf("the API server answers the Pod by %q, %w", out, err)
		}
		return nil
	})
	testenv.Eventually(t, func() error {
		bad := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bad", Namespace: "default"}}
		if err := env.Client.Create(t.Context(), bad, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "it is bad") {
			return fmt.Errorf("the webhook behind the Service refuses by %w", err)
		}
		return nil
	})
	first, err := all.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(first.Items) != 1 {
		t.Fatalf("Pods %v, %v, want one", first, err)
	}
	if log, err := all.GetLogs(first.Items[0].Name, &corev1.PodLogOptions{}).DoRaw(t.Context()); err != nil || !bytes.Contains(log, []byte("serving\n")) {
		t.Errorf("log %q, %v", log, err)
	}
	patch := client.RawPatch("application/json-patch+json", []byte(`[{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": ["crash"]}]`))
	if err := env.Client.Patch(t.Context(), d, patch); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		now, err := all.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready, crashing := 0, ""
		for _, p := range now.Items {
			for _, c := range p.Status.ContainerStatuses {
				switch w := c.State.Waiting; {
				case c.Ready:
					ready++
				case w != nil && w.Reason == "CrashLoopBackOff":
					crashing = w.Message
				}
			}
		}
		if ready != 1 || !strings.Contains(crashing, "panic: I was asked to") {
			return fmt.Errorf("%d Pods are ready, and the newer one says %q", ready, crashing)
		}
		return nil
	})
	if err := env.Client.Delete(t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if now, err := all.List(t.Context(), metav1.ListOptions{}); err != nil || len(now.Items) > 0 {
			return fmt.Errorf("Pods %d, %w", len(now.Items), err)
		}
		return nil
	})
}

// TestAPlaneThatCanRunNoPodsSaysWhy: of each Pod, and of the Node.
func TestAPlaneThatCanRunNoPodsSaysWhy(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	plane := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	lock := filepath.Join(plane.dir, "pods", "lock") // a folder, where sandboxes need a file
	if err := os.MkdirAll(lock, 0o700); err != nil {
		t.Fatal(err)
	}
	f := plane.start()
	f.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: example.com/a:v1}]}\n")
	f.eventually(func() error {
		pod := &corev1.Pod{}
		if err := f.Client.Get(t.Context(), client.ObjectKey{Namespace: f.Namespace, Name: "p"}, pod); err != nil {
			return err
		}
		const want = "start the sandbox: this host can run no Pods, as capstan doctor shows: "
		if s := pod.Status.ContainerStatuses; len(s) != 1 || s[0].State.Waiting == nil || !strings.HasPrefix(s[0].State.Waiting.Message, want) || !strings.Contains(s[0].State.Waiting.Message, lock) {
			return fmt.Errorf("the Pod has %+v", pod.Status)
		}
		nodes := &corev1.NodeList{}
		if err := f.Client.List(t.Context(), nodes); err != nil || len(nodes.Items) != 1 {
			return fmt.Errorf("%d Nodes, %w", len(nodes.Items), err)
		}
		if c := nodes.Items[0].Status.Conditions; len(c) != 1 || c[0].Status != corev1.ConditionFalse || !strings.Contains(c[0].Message, lock) {
			return fmt.Errorf("the Node has %+v", c)
		}
		return nil
	})
}
