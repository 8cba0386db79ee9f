// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// member is one of the planes that share a store, as their API servers list it.
type member struct {
	Dir     string `json:"dir"`
	Address string `json:"address"`
	Leads   bool   `json:"leads"`
	Gone    bool   `json:"gone"`
}

// fleet is planes that share a store, by their data directories.
type fleet struct {
	*testing.T
	dirs   map[string]string
	planes map[string]*testenv.Process
}

// newFleet starts planes a, b and c, one after the other.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	dir := t.TempDir()
	keys := pki.Folder{Dir: filepath.Join(dir, "pki"), Now: time.Now}
	if err := keys.Ensure([]string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	f := &fleet{T: t, dirs: map[string]string{}, planes: map[string]*testenv.Process{}}
	for _, name := range []string{"a", "b", "c"} {
		f.dirs[name] = filepath.Join(dir, name)
	}
	f.planes["a"] = startOn(t, f.dirs["a"], "--etcd-servers="+startEtcd(t, dir, keys), "--etcd-cafile="+keys.Cert("ca"), "--etcd-certfile="+keys.Cert("admin"), "--etcd-keyfile="+keys.Key("admin"))
	f.start("b")
	f.start("c")
	return f
}

// start starts a plane by what a has written.
func (f *fleet) start(name string) {
	f.Helper()
	f.planes[name] = startOn(f.T, f.dirs[name], "--join="+filepath.Join(f.dirs["a"], "join"))
}

func (f *fleet) client(name string) (client.Client, *kubernetes.Clientset) {
	f.Helper()
	env, err := testenv.Connect(filepath.Join(f.dirs[name], "kubeconfig"))
	if err != nil {
		f.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(env.Config)
	if err != nil {
		f.Fatal(err)
	}
	return env.Client, c
}

// members are the names of the planes that one of them lists, the leader first.
func (f *fleet) members(ctx context.Context, asked string) (names []string, err error) {
	_, c := f.client(asked)
	b, err := c.RESTClient().Get().AbsPath("/capstan/members").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var all []member
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	for i, m := range all {
		if m.Gone {
			continue
		}
		if m.Leads != (i == 0) {
			return nil, fmt.Errorf("the %dth of %s", i, b)
		}
		names = append(names, filepath.Base(m.Dir))
	}
	return names, nil
}

func (f *fleet) knows(asked string, want ...string) {
	f.Helper()
	testenv.Eventually(f, func() error {
		got, err := f.members(f.Context(), asked)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("members %v, want %v", got, want)
		}
		return err
	})
}

// status checks that "capstan status" at one plane shows all three, and the leader.
func (f *fleet) status(asked, leads string) {
	f.Helper()
	out, err := exec.CommandContext(f.Context(), testenv.Binary(f), "status", "--data-dir="+f.dirs[asked]).Output()
	if err != nil {
		f.Fatalf("status of %s: %v\n%s", asked, err, out)
	}
	if got := strings.Count(string(out), ", leads"); got != 1 || !strings.Contains(string(out), " in "+f.dirs[leads]+", leads") {
		f.Errorf("status of %s does not report that %s leads:\n%s", asked, leads, out)
	}
	for _, dir := range f.dirs {
		if !strings.Contains(string(out), " in "+dir) {
			f.Errorf("status of %s lacks %s:\n%s", asked, dir, out)
		}
	}
}

const burst = 25 // more than a plane creates before it is killed

// deploy creates what the controllers of a plane turn into other objects:
// Certificates into Secrets, and Deployments into ReplicaSets and Pods.
func (f *fleet) deploy(c client.Client) {
	f.Helper()
	issuer := &certmanagerv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "own"}}
	issuer.Spec.SelfSigned = &certmanagerv1.SelfSignedIssuer{}
	objects := []client.Object{issuer}
	for i := range burst {
		name := fmt.Sprintf("o%02d", i)
		cert := &certmanagerv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		cert.Spec.SecretName, cert.Spec.DNSNames, cert.Spec.IssuerRef.Name = name, []string{name + ".example.com"}, "own"
		labels := map[string]string{"app": name}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		d.Spec.Replicas, d.Spec.Selector = new(int32(3)), &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template.Labels, d.Spec.Template.Spec.Containers = labels, []corev1.Container{{Name: "c", Image: "i"}}
		objects = append(objects, cert, d)
	}
	for _, o := range objects {
		if err := c.Create(f.Context(), o); err != nil {
			f.Fatal(err)
		}
	}
}

// issued counts the different certificates that each Secret has ever held.
type issued struct {
	mu   sync.Mutex // guards ever
	ever map[string]map[string]bool
}

func (f *fleet) watchSecrets(asked string) *issued {
	f.Helper()
	_, c := f.client(asked)
	w, err := c.CoreV1().Secrets("default").Watch(f.Context(), metav1.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(w.Stop)
	all := &issued{ever: map[string]map[string]bool{}}
	go func() {
		for e := range w.ResultChan() {
			if s, ok := e.Object.(*corev1.Secret); ok && len(s.Data["tls.crt"]) > 0 {
				all.note(s)
			}
		}
	}()
	return all
}

func (i *issued) note(s *corev1.Secret) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ever[s.Name] == nil {
		i.ever[s.Name] = map[string]bool{}
	}
	i.ever[s.Name][string(s.Data["tls.crt"])] = true
}

func (i *issued) count() (names int, repeated []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for name, certs := range i.ever {
		if len(certs) > 1 {
			repeated = append(repeated, name)
		}
	}
	return len(i.ever), repeated
}

// TestPlanesShareAStore kills the plane that leads in the middle of a burst.
func TestPlanesShareAStore(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 3)
	f := newFleet(t)
	f.knows("c", "a", "b", "c")
	f.status("c", "a")
	c, _ := f.client("b")
	issued := f.watchSecrets("c")
	f.deploy(c) // at b, which does not lead
	testenv.Eventually(t, func() error {
		if n, _ := issued.count(); n < 3 {
			return errors.New("no plane acts")
		}
		return nil
	})
	f.planes["a"].Kill()
	n, _ := issued.count()
	t.Logf("%d of %d were made when the plane that led was killed", n, burst)
	f.knows("c", "b", "c") // how soon: bench/failover
	f.complete(c, issued)
	f.start("a")
	f.knows("a", "b", "c", "a")
	if err := f.planes["b"].Stop(); err != nil {
		t.Fatal(err)
	}
	f.knows("a", "c", "a")
	put(t, f.dirs["a"], "after-all")
	kept(t, f.dirs["c"], "after-all")
}

// complete waits until all of a burst exists, and checks that each exists once.
func (f *fleet) complete(c client.Client, issued *issued) {
	f.Helper()
	testenv.Eventually(f, func() error {
		var sets appsv1.ReplicaSetList
		var pods corev1.PodList
		if err := errors.Join(c.List(f.Context(), &sets, client.InNamespace("default")), c.List(f.Context(), &pods, client.InNamespace("default"))); err != nil {
			return err
		}
		if n, _ := issued.count(); n < burst || len(sets.Items) < burst || len(pods.Items) < 3*burst {
			return fmt.Errorf("there are %d certificates, %d ReplicaSets, %d Pods", n, len(sets.Items), len(pods.Items))
		}
		if len(sets.Items) > burst || len(pods.Items) > 3*burst {
			f.Errorf("there are %d ReplicaSets and %d Pods, want %d and %d", len(sets.Items), len(pods.Items), burst, 3*burst)
		}
		return nil
	})
	if _, repeated := issued.count(); len(repeated) > 0 {
		f.Errorf("issued more than once: %s", strings.Join(repeated, ", "))
	}
}

func TestAPlaneWithOtherKeysIsRefused(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 2)
	dir := t.TempDir()
	keys := pki.Folder{Dir: filepath.Join(dir, "pki"), Now: time.Now}
	if err := keys.Ensure([]string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	server := []string{"--etcd-servers=" + startEtcd(t, dir, keys), "--etcd-cafile=" + keys.Cert("ca"), "--etcd-certfile=" + keys.Cert("admin"), "--etcd-keyfile=" + keys.Key("admin")}
	startOn(t, filepath.Join(dir, "a"), server...)
	got := startFails(t, filepath.Join(dir, "b"), server...)
	if want := `planes with other certificates and keys use this etcd and prefix: start this one with --join and the file "join" of a data directory of theirs`; !strings.Contains(got, want) {
		t.Errorf("error %q, want one with %q", got, want)
	}
}
