// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// inner is a plane in a Pod as restricted as Pod Security has them: what it keeps is
// in a volume, which is its home. Port 6443 is for what it simulates.
const inner = `
apiVersion: v1
kind: Pod
metadata: {name: version, namespace: default}
spec:
  restartPolicy: Never
  containers:
  - {name: capstan, image: "example.com/capstan:v1", args: [version], securityContext: {runAsNonRoot: true, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: plane, namespace: default}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: capstan
    image: example.com/capstan:v1
    args: [up, "--listen=:8443", --log-file=-]
    env: [{name: HOME, value: /data}]
    readinessProbe: {httpGet: {scheme: HTTPS, port: 8443, path: /readyz}, periodSeconds: 1}
    securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: data, mountPath: /data}, {name: tmp, mountPath: /tmp}]
  volumes: [{name: data, emptyDir: {}}, {name: tmp, emptyDir: {}}]
`

// TestAPlaneRunsInAPod has a Pod of a plane run the image of capstan: as a user
// other than root, with only volumes to write to, it runs a plane that creates a
// cluster.
func TestAPlaneRunsInAPod(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 2)
	needSandboxes(t)
	f, dir := barePlane(t)
	importImage(t, dir, imageOf(t, "capstan"))
	objects, err := template.Objects([]byte(inner))
	f.must(err)
	for _, obj := range objects {
		f.must(f.Client.Create(f.Context(), obj))
	}
	set, err := kubernetes.NewForConfig(f.Config)
	f.must(err)
	f.podBecomes("version", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	said, err := set.CoreV1().Pods(f.Namespace).GetLogs("version", &corev1.PodLogOptions{}).DoRaw(f.Context())
	if err != nil || !strings.HasPrefix(string(said), "capstan version ") {
		t.Errorf("the Pod says %q, %v", said, err)
	}
	f.podBecomes("plane", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready
	})
	f.eventually(func() error { // the API server answers before all is there
		_, err := f.execs("plane", "/capstan", "status")
		return err
	})
	out, err := f.execs("plane", "/capstan", "create", "cluster", "c")
	if err != nil || !strings.Contains(out, "Cluster default/c is Available") {
		t.Errorf("create a cluster in the Pod: %v\n%s", err, out)
	}
}

// podBecomes waits for a status of a Pod.
func (f fleet) podBecomes(name string, is func(*corev1.Pod) bool) {
	f.Helper()
	f.eventually(func() error {
		pod := &corev1.Pod{}
		if err := f.Client.Get(f.Context(), client.ObjectKey{Namespace: f.Namespace, Name: name}, pod); err != nil || is(pod) {
			return err
		}
		return fmt.Errorf("Pod %s has the status %+v", name, pod.Status)
	})
}

// execs runs a command in a Pod, as kubectl exec does.
func (f fleet) execs(pod string, args ...string) (string, error) {
	f.Helper()
	set, err := kubernetes.NewForConfig(f.Config)
	f.must(err)
	req := set.CoreV1().RESTClient().Post().Resource("pods").Namespace(f.Namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: args, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	run, err := remotecommand.NewWebSocketExecutor(f.Config, "GET", req.URL().String())
	f.must(err)
	var out, told bytes.Buffer
	err = run.StreamWithContext(f.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &told})
	if err != nil {
		err = fmt.Errorf("%s in Pod %s: %w", strings.Join(args, " "), pod, err)
	}
	return out.String() + told.String(), err
}
