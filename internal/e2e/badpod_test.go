// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
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

// podLab is a plane that runs Pods, and a registry for it.
type podLab struct {
	*testing.T
	env      *testenv.Env
	typed    *kubernetes.Clientset
	dir      string
	process  *testenv.Process
	host     string // of the registry
	program  string
	rootless bool

	mu     sync.Mutex
	spoilt map[string]func([]byte) []byte // what blobs whose path ends so become
}

func newPodLab(t *testing.T) *podLab {
	t.Helper()
	report := needSandboxes(t)
	b := &podLab{T: t, dir: t.TempDir(), rootless: report.Mode == pods.Rootless, spoilt: map[string]func([]byte) []byte{}}
	b.program = testenv.Program(t, "test/misbehaves")
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			inner.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		r.Header.Del("Range") // it is of what is spoilt
		inner.ServeHTTP(answer, r)
		_, _ = w.Write(b.spoil(r.URL.Path, answer.Body.Bytes()))
	}))
	t.Cleanup(server.Close)
	b.host = strings.TrimPrefix(server.URL, "http://")
	var err error
	if b.process, err = testenv.Up(t, "--data-dir="+b.dir, "--listen=127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if b.env, err = testenv.Connect(filepath.Join(b.dir, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	if b.typed, err = kubernetes.NewForConfig(b.env.Config); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *podLab) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// spoil changes the blobs that the registry serves, until they are repaired.
func (b *podLab) spoil(path string, content []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	for end, f := range b.spoilt {
		if strings.HasSuffix(path, end) {
			return f(content)
		}
	}
	return content
}

func (b *podLab) spoilBlob(h v1.Hash, f func([]byte) []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spoilt["/"+h.String()] = f
}

func (b *podLab) repairBlobs() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.spoilt)
}

// image is one of the program, changed.
func (b *podLab) image(change ...func(v1.Image) v1.Image) v1.Image {
	b.Helper()
	i, err := programs.Image(runtime.GOARCH, []string{b.program}, programs.Options{})
	b.must(err)
	for _, c := range change {
		i = c(i)
	}
	return i
}

// config changes the configuration of an image.
func (b *podLab) config(i v1.Image, change func(*v1.ConfigFile)) v1.Image {
	b.Helper()
	c, err := i.ConfigFile()
	b.must(err)
	c = c.DeepCopy()
	change(c)
	i, err = mutate.ConfigFile(i, c)
	b.must(err)
	return i
}

// push puts an image into the registry, and returns its name.
func (b *podLab) push(repository string, i v1.Image) string {
	b.Helper()
	ref, err := name.ParseReference(b.host + "/" + repository + ":v1")
	b.must(err)
	b.must(remote.Write(ref, i))
	return ref.String()
}

// deployment is one of one Pod. pod and container are fields of them.
func (b *podLab) deployment(name, image, container, pod string) client.Object {
	b.Helper()
	text := fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: "%[2]s"%[3]s}]
      %[4]s
`, name, image, container, pod)
	all, err := template.Objects([]byte(text))
	b.must(err)
	return all[0]
}

// deploy creates a Deployment.
func (b *podLab) deploy(name, image, container, pod string) *appsv1.Deployment {
	b.Helper()
	obj := b.deployment(name, image, container, pod)
	b.must(b.env.Client.Create(b.Context(), obj))
	d := &appsv1.Deployment{}
	b.must(b.env.Client.Get(b.Context(), client.ObjectKeyFromObject(obj), d))
	return d
}

// podsOf are those of a Deployment.
func (b *podLab) podsOf(d *appsv1.Deployment) ([]corev1.Pod, error) {
	all, err := b.typed.CoreV1().Pods("default").List(b.Context(), metav1.ListOptions{LabelSelector: "app=" + d.Name})
	if err != nil {
		return nil, err
	}
	return all.Items, nil
}

// complaints are the problems in the status of a Pod, a line for each reason.
func complaints(pod corev1.Pod) (lines []string) {
	add := func(reason, message string) {
		if reason != "" {
			lines = append(lines, reason+": "+message)
		}
	}
	add(pod.Status.Reason, pod.Status.Message)
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse {
			add(c.Reason, c.Message)
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil {
			add(w.Reason, w.Message)
		}
		for _, s := range []corev1.ContainerState{c.State, c.LastTerminationState} {
			if s.Terminated != nil {
				add(s.Terminated.Reason, s.Terminated.Message)
			}
		}
	}
	return lines
}

// says waits until a Pod of a Deployment reports a reason with a text, and the
// Deployment is not Available.
func (b *podLab) says(d *appsv1.Deployment, reasons []string, text string) {
	b.Helper()
	testenv.Eventually(b, func() error {
		all, err := b.podsOf(d)
		if err != nil {
			return err
		}
		var lines []string
		for _, p := range all {
			lines = append(lines, complaints(p)...)
		}
		for _, l := range lines {
			if reason, _, _ := strings.Cut(l, ":"); slices.Contains(reasons, reason) && strings.Contains(l, text) {
				return b.available(d, corev1.ConditionFalse)
			}
		}
		return fmt.Errorf("want one of %q with %q, got:\n%s", reasons, text, strings.Join(lines, "\n"))
	})
}

// available returns an error unless the condition of a Deployment has that status.
func (b *podLab) available(d *appsv1.Deployment, want corev1.ConditionStatus) error {
	now, err := b.typed.AppsV1().Deployments("default").Get(b.Context(), d.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range now.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable && c.Status == want {
			return nil
		}
	}
	return fmt.Errorf("Deployment %s is not Available=%s: %+v", d.Name, want, now.Status)
}

// becomes waits until a Deployment has its Pod, and no other.
func (b *podLab) becomes(d *appsv1.Deployment) {
	b.Helper()
	testenv.Eventually(b, func() error {
		now, err := b.typed.AppsV1().Deployments("default").Get(b.Context(), d.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := now.Status; s.ObservedGeneration != now.Generation || s.AvailableReplicas != 1 || s.Replicas != 1 || s.UpdatedReplicas != 1 {
			all, _ := b.podsOf(d)
			text := ""
			for _, p := range all {
				text += strings.Join(complaints(p), "\n") + "\n"
			}
			return fmt.Errorf("Deployment %s does not become Available: %+v\n%s", d.Name, s, text)
		}
		return b.available(d, corev1.ConditionTrue)
	})
}

// patch changes the template of a Deployment.
func (b *podLab) patch(d *appsv1.Deployment, text string) {
	b.Helper()
	b.must(b.env.Client.Patch(b.Context(), d, client.RawPatch("application/json-patch+json", []byte(text))))
}

const serves = `[{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": ["serve", ":8080"]}, {"op": "add", "path": "/spec/template/spec/containers/0/command", "value": ["/misbehaves"]}]`

// badPods are images and Pods that cannot run, and what helps.
var badPods = map[string]struct {
	image          func(*podLab) v1.Image // nil if there is none
	container, pod string
	root           bool // a plain user has not what it needs
	reasons        []string
	says           string
	mend           func(b *podLab, d *appsv1.Deployment, image string)
}{
	"an image that is not there": {
		reasons: []string{"ErrImagePull", "ImagePullBackOff"}, says: "push it there, import it with \"capstan image import\", or correct its name",
		mend: func(b *podLab, _ *appsv1.Deployment, image string) {
			archive := filepath.Join(b.TempDir(), "image")
			b.must(programs.Write(archive, image, b.image()))
			importImage(b.T, b.dir, filepath.Join(archive, runtime.GOARCH+".tar"))
		},
	},
	"an image for another architecture": {
		image: func(b *podLab) v1.Image {
			return b.config(b.image(), func(c *v1.ConfigFile) { c.Architecture = "riscv64" })
		},
		reasons: []string{"ErrImagePull", "ImagePullBackOff"}, says: "riscv64",
		mend: pushed,
	},
	"too many layers": {
		image: func(b *podLab) v1.Image {
			layers := slices.Repeat([]v1.Layer{static.NewLayer([]byte("x"), types.DockerLayer)}, 257)
			i, err := mutate.AppendLayers(b.image(), layers...)
			b.must(err)
			return i
		},
		reasons: []string{"ErrImagePull", "ImagePullBackOff"}, says: "it has 259 layers: 256 are accepted: make the image smaller",
		mend: pushed,
	},
	"a user that is not in the image": {
		image: func(b *podLab) v1.Image {
			return b.config(b.image(), func(c *v1.ConfigFile) { c.Config.User = "unlisted-user" })
		},
		reasons: []string{"CreateContainerConfigError"}, says: `spec.containers[0].securityContext.runAsUser: the image runs as "unlisted-user", which is not in its /etc/passwd: set it to a number`,
		mend: func(b *podLab, d *appsv1.Deployment, _ string) {
			b.patch(d, `[{"op": "add", "path": "/spec/template/spec/containers/0/securityContext", "value": {"runAsUser": 65532}}]`)
		},
	},
	"a command that is not there":      {container: `, command: [/nothing]`, reasons: []string{"RunContainerError"}, says: "exec /nothing: the image has no such file: correct the command", mend: served8080},
	"a command that PATH has not":      {container: `, command: [nothing]`, reasons: []string{"RunContainerError"}, says: `"nothing" is not a program of the image: it is in none of /, or may not be executed: correct the command, or PATH`, mend: served8080},
	"a command that is not executable": {container: `, command: [/etc/passwd]`, reasons: []string{"RunContainerError"}, says: "exec /etc/passwd: the user of the container may not execute it", mend: served8080},
	"two containers on one port": {
		container: `}, {name: second, image: IMAGE, args: [serve, ":8080"]`,
		reasons:   []string{"CrashLoopBackOff"}, says: "serve: listen tcp :8080: bind: address already in use",
		mend: func(b *podLab, d *appsv1.Deployment, _ string) {
			b.patch(d, `[{"op": "remove", "path": "/spec/template/spec/containers/1"}]`)
		},
	},
	"not enough memory": {container: `, args: [hog], resources: {limits: {memory: 64Mi}}`, root: true, reasons: []string{"OOMKilled"}, mend: served8080},
	"a full root":       {container: `, args: [fill, /tmp], resources: {limits: {memory: 512Mi}}`, reasons: []string{"CrashLoopBackOff"}, says: "no space left on device", mend: served8080},
	"a full volume in memory": {
		container: `, args: [fill, /v], volumeMounts: [{name: v, mountPath: /v}]`, pod: "volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 8Mi}}]",
		reasons: []string{"CrashLoopBackOff"}, says: "no space left on device", mend: served8080,
	},
	"the host's files":    {pod: "volumes: [{name: v, hostPath: {path: /}}]", reasons: []string{"Unschedulable"}, says: "spec.volumes[0].hostPath: ", mend: without("volumes")},
	"a claim of a volume": {pod: "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]", reasons: []string{"Unschedulable"}, says: "spec.volumes[0].persistentVolumeClaim: ", mend: without("volumes")},
	"the host's network":  {pod: "hostNetwork: true", reasons: []string{"Unschedulable"}, says: "spec.hostNetwork: ", mend: without("hostNetwork")},
	"the host's processes": {
		pod: "hostPID: true", reasons: []string{"Unschedulable"}, says: "spec.hostPID: ", mend: without("hostPID"),
	},
	"the host's IPC": {pod: "hostIPC: true", reasons: []string{"Unschedulable"}, says: "spec.hostIPC: ", mend: without("hostIPC")},
	"sysctls": {
		pod: "securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}", reasons: []string{"Unschedulable"}, says: "spec.securityContext.sysctls: ",
		mend: func(b *podLab, d *appsv1.Deployment, _ string) {
			b.patch(d, `[{"op": "remove", "path": "/spec/template/spec/securityContext/sysctls"}]`)
		},
	},
	"added capabilities": {container: ", securityContext: {capabilities: {add: [SYS_ADMIN]}}", reasons: []string{"Unschedulable"}, says: "spec.containers[0].securityContext.capabilities.add: ", mend: without("containers/0/securityContext")},
	"devices":            {container: ", resources: {limits: {example.com/device: 1}}", reasons: []string{"Unschedulable"}, says: "spec.containers[0].resources.limits[example.com/device]: ", mend: without("containers/0/resources")},
}

func pushed(b *podLab, _ *appsv1.Deployment, image string) {
	repository, _, _ := strings.Cut(strings.TrimPrefix(image, b.host+"/"), ":")
	b.push(repository, b.image())
}

func served8080(b *podLab, d *appsv1.Deployment, _ string) { b.patch(d, serves) }

func without(field string) func(*podLab, *appsv1.Deployment, string) {
	return func(b *podLab, d *appsv1.Deployment, _ string) {
		b.patch(d, fmt.Sprintf(`[{"op": "remove", "path": "/spec/template/spec/%s"}]`, field))
	}
}

// TestUnrunnablePodsHaveReasonUntilCorrected: each reports a reason, as a
// kubelet does, and a remedy, which helps.
func TestUnrunnablePodsHaveReasonUntilCorrected(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	b := newPodLab(t)
	good := b.push("good", b.image())
	// This one the API server itself refuses.
	privileged := b.deployment("privileged", good, ", securityContext: {privileged: true}", "")
	if err := b.env.Client.Create(t.Context(), privileged); err == nil || !strings.Contains(err.Error(), "spec.template.spec.containers[0].securityContext.privileged: ") {
		t.Errorf("a privileged container: got %v", err)
	}
	t.Run("group", func(t *testing.T) {
		for n, what := range slices.Sorted(maps.Keys(badPods)) {
			tc := badPods[what]
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				if tc.root && b.rootless {
					t.Skip("a plain user has not what it needs")
				}
				b := &podLab{T: t, env: b.env, typed: b.typed, dir: b.dir, host: b.host, program: b.program}
				name, image := fmt.Sprint("bad-", n), good
				if strings.Contains(what, "image") || tc.image != nil {
					image = b.host + "/" + name + ":v1"
				}
				if tc.image != nil {
					b.push(name, tc.image(b))
				}
				d := b.deploy(name, image, strings.ReplaceAll(tc.container, "IMAGE", `"`+image+`"`), tc.pod)
				b.says(d, tc.reasons, tc.says)
				b.event(d, tc.says)
				tc.mend(b, d, image)
				b.becomes(d)
			})
		}
	})
}

// event waits until an Event has the same text.
func (b *podLab) event(d *appsv1.Deployment, text string) {
	b.Helper()
	testenv.Eventually(b, func() error {
		all, err := b.typed.EventsV1().Events("default").List(b.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var notes []string
		for _, e := range all.Items {
			if e.Type == corev1.EventTypeWarning && strings.HasPrefix(e.Regarding.Name, d.Name+"-") {
				if notes = append(notes, e.Note); strings.Contains(e.Note, text) || e.Reason == "BackOff" {
					return nil
				}
			}
		}
		return fmt.Errorf("no Event says %q: %q", text, notes)
	})
}

// TestImagesThatComeDamagedAreRefusedUntilTheyComeWhole: what does not have its
// digest is not run.
func TestImagesThatComeDamagedAreRefusedUntilTheyComeWhole(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	b := newPodLab(t)
	i := b.image()
	m, err := i.Manifest()
	b.must(err)
	flipped := func(c []byte) []byte {
		c = bytes.Clone(c)
		c[len(c)/2] ^= 1
		return c
	}
	for name, tc := range map[string]struct {
		blob  v1.Hash
		spoil func([]byte) []byte
		says  string
	}{
		"config": {m.Config.Digest, flipped, "it has digest sha256:"},
		"layer":  {m.Layers[1].Digest, flipped, "it has digest sha256:"},
		"cut":    {m.Layers[1].Digest, func(c []byte) []byte { return c[:len(c)/2] }, "sha256:"},
	} {
		image := b.push(name, i)
		b.spoilBlob(tc.blob, tc.spoil)
		d := b.deploy("damaged-"+name, image, "", "")
		b.says(d, []string{"ErrImagePull", "ImagePullBackOff"}, tc.says)
		b.repairBlobs()
		b.becomes(d)
		b.must(b.env.Client.Delete(b.Context(), d, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		testenv.Eventually(b, func() error {
			if all, err := b.podsOf(d); err != nil || len(all) > 0 {
				return fmt.Errorf("%d Pods are left, %w", len(all), err)
			}
			return nil
		})
		out, err := exec.CommandContext(b.Context(), testenv.Binary(b), "image", "remove", "--yes", "--data-dir", b.dir, image).CombinedOutput()
		if err != nil {
			b.Fatalf("remove the image, so that the next one is pulled again: %v\n%s", err, out)
		}
	}
}

// writes waits until the Pod of a Deployment has written a line.
func (b *podLab) writes(d *appsv1.Deployment, line string) {
	b.Helper()
	testenv.Eventually(b, func() error {
		all, err := b.podsOf(d)
		if err != nil || len(all) != 1 {
			return fmt.Errorf("%s: %d Pods, %w", d.Name, len(all), err)
		}
		out, err := b.typed.CoreV1().Pods("default").GetLogs(all[0].Name, &corev1.PodLogOptions{}).DoRaw(b.Context())
		if err != nil || !strings.Contains(string(out), line) {
			return fmt.Errorf("%s did not write %q, but %.1000q, %w", d.Name, line, out, err)
		}
		return nil
	})
}

// TestAPlaneServesWhilePodsMisbehave: they fork, write, connect and allocate memory
// without end, all together; each request is answered, and a good Pod stays ready.
// The Pods have a lower weight than other programs, and end after a few minutes
// also when this test does not.
func TestAPlaneServesWhilePodsMisbehave(t *testing.T) {
	testenv.Alone(t, 1)
	b := newPodLab(t)
	image := b.push("good", b.image())
	good := b.deploy("good", image, ", readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}", "")
	b.becomes(good)
	until := fmt.Sprintf(`, env: [{name: UNTIL, value: "%d"}]`, time.Now().Add(4*time.Minute).Unix())
	forks := b.deploy("forks", image, ", args: [fork], resources: {limits: {memory: 256Mi}}"+until, "")
	bad := []*appsv1.Deployment{
		forks,
		b.deploy("writes", image, ", args: [write], resources: {limits: {cpu: 200m, memory: 128Mi}}"+until, ""),
		b.deploy("connects", image, `, args: [connect, "10.96.0.1:443"], resources: {limits: {cpu: 200m, memory: 128Mi}}`+until, ""),
	}
	if !b.rootless {
		bad = append(bad, b.deploy("hogs", image, ", args: [hog], resources: {limits: {memory: 64Mi}}"+until, ""))
	}
	for _, d := range bad {
		testenv.Eventually(b, func() error {
			all, err := b.podsOf(d)
			if err != nil || len(all) != 1 || len(all[0].Status.ContainerStatuses) != 1 {
				return fmt.Errorf("%s: %d Pods, %w", d.Name, len(all), err)
			}
			if s := all[0].Status.ContainerStatuses[0]; s.State.Running == nil && s.LastTerminationState.Terminated == nil {
				return fmt.Errorf("%s does not run: %+v", d.Name, s.State)
			}
			return nil
		})
	}
	b.writes(forks, "the limit of processes is reached")
	const requests = 200
	for n := range requests {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("request-", n), Namespace: "default"}}
		b.must(b.env.Client.Create(b.Context(), m))
		b.must(b.env.Client.Get(b.Context(), client.ObjectKeyFromObject(m), m))
	}
	b.must(b.available(good, corev1.ConditionTrue))
	all, err := b.podsOf(good)
	b.must(err)
	if len(all) != 1 || all[0].Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the good Pod did not stay as it was: %+v", all)
	}
	if out, err := b.typed.CoreV1().Pods("default").ProxyGet("http", all[0].Name, "8080", "/", nil).DoRaw(t.Context()); err != nil || string(out) != "served" {
		t.Errorf("the good Pod answers %q, %v", out, err)
	}
	for _, d := range bad { // each is deleted by one request
		b.must(b.env.Client.Delete(b.Context(), d, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	}
	for _, d := range bad {
		testenv.Eventually(b, func() error {
			if all, err := b.podsOf(d); err != nil || len(all) > 0 {
				return fmt.Errorf("%s: %d Pods are left, %w", d.Name, len(all), err)
			}
			return nil
		})
	}
}
