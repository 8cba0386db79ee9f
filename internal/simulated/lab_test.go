// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/dialguard"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
	"github.com/capstan-dev/capstan/internal/pure/cloudinit"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

const (
	kubernetesVersion = "v1.36.3"
	goodID            = "abcdef"
	goodRest          = "0123456789abcdef"
)

// lab is a backend with one cluster, and what its users know of it.
type lab struct {
	t        testing.TB
	b        *Backend
	dir      string
	clock    clock.WithDelayedExecution
	guard    dialguard.Guard // of Pods of the backend's process
	cluster  clusterSpec
	endpoint clusterv1.APIEndpoint
	pki      map[certs.Purpose]certs.Pair
}

func newLab(t testing.TB) *lab { return newLabWith(t, clock.RealClock{}) }

func newLabWith(t testing.TB, c clock.WithDelayedExecution) *lab {
	t.Helper()
	l := &lab{t: t, dir: filepath.Join(t.TempDir(), "simulated"), clock: c, pki: map[certs.Purpose]certs.Pair{}}
	// The UID decides the address: tests that run side by side have their own.
	l.cluster = clusterSpec{Namespace: "ns", Name: "prod", UID: types.UID("cluster-" + t.Name())}
	for _, p := range []certs.Purpose{certs.CA, certs.Etcd, certs.FrontProxy, certs.ServiceAccount} {
		pair, err := certs.New(p, "", time.Now(), 0)
		if err != nil {
			t.Fatal(err)
		}
		l.pki[p] = pair
	}
	l.start()
	t.Cleanup(func() {
		if err := l.b.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// start opens the backend and ensures the cluster.
func (l *lab) start() {
	l.t.Helper()
	b, err := New(Options{Dir: l.dir, Clock: l.clock, Guard: &l.guard, Unsynced: true, Random: func() float64 { return 0.5 }})
	if err != nil {
		l.t.Fatal(err)
	}
	l.b = b
	if l.endpoint, err = b.ensureCluster(l.cluster); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) restart() {
	l.t.Helper()
	if err := l.b.Close(); err != nil {
		l.t.Fatal(err)
	}
	l.start()
}

func (l *lab) server() string { return fmt.Sprintf("%s:%d", l.endpoint.Host, l.endpoint.Port) }

// pkiFiles are what a control plane machine gets.
func (l *lab) pkiFiles() []bootstrapv1.File {
	var out []bootstrapv1.File
	for path, p := range map[string]certs.Purpose{"ca": certs.CA, "etcd/ca": certs.Etcd, "front-proxy-ca": certs.FrontProxy, "sa": certs.ServiceAccount} {
		public := ".crt"
		if p == certs.ServiceAccount {
			public = ".pub"
		}
		out = append(out,
			bootstrapv1.File{Path: "/etc/kubernetes/pki/" + path + public, Owner: "root:root", Permissions: "0640", Content: string(l.pki[p].Cert)},
			bootstrapv1.File{Path: "/etc/kubernetes/pki/" + path + ".key", Owner: "root:root", Permissions: "0600", Content: string(l.pki[p].Key)})
	}
	return out
}

func (l *lab) userData(files []bootstrapv1.File, verb string, config []byte, err error) []byte {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
	files = append(files, bootstrapv1.File{Path: "/run/kubeadm/kubeadm.yaml", Permissions: "0640", Content: string(config)})
	data, err := cloudinit.Render(cloudinit.Document{
		Files: files, RunCommands: []string{"kubeadm " + verb + " --config /run/kubeadm/kubeadm.yaml  && echo success > /run/cluster-api/bootstrap-success.complete"},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return data
}

const hostname = "{{ ds.meta_data.local_hostname }}"

// initData is what the first control plane machine gets.
func (l *lab) initData() []byte { return l.initDataWith(l.pkiFiles(), l.server()) }

func (l *lab) initDataWith(files []bootstrapv1.File, endpoint string) []byte {
	l.t.Helper()
	config, err := kubeadm.RenderInit(
		bootstrapv1.ClusterConfiguration{},
		bootstrapv1.InitConfiguration{NodeRegistration: bootstrapv1.NodeRegistrationOptions{Name: hostname}},
		kubeadm.Data{KubernetesVersion: kubernetesVersion, ClusterName: "prod", ControlPlaneEndpoint: endpoint, PodSubnet: "192.168.0.0/16"})
	return l.userData(files, "init", config, err)
}

// joinData is what further machines get. Change works on the configuration.
func (l *lab) joinData(files []bootstrapv1.File, change func(*bootstrapv1.JoinConfiguration)) []byte {
	l.t.Helper()
	hashes, err := certs.PinHashes(l.pki[certs.CA].Cert)
	if err != nil {
		l.t.Fatal(err)
	}
	join := bootstrapv1.JoinConfiguration{
		NodeRegistration: bootstrapv1.NodeRegistrationOptions{Name: hostname},
		Discovery: bootstrapv1.Discovery{BootstrapToken: bootstrapv1.BootstrapTokenDiscovery{
			Token: goodID + "." + goodRest, APIServerEndpoint: l.server(), CACertHashes: hashes,
		}},
	}
	if change != nil {
		change(&join)
	}
	config, err := kubeadm.RenderJoin(join, kubernetesVersion)
	return l.userData(files, "join", config, err)
}

func (l *lab) workerData() []byte { return l.joinData(nil, nil) }

func (l *lab) controlPlaneData() []byte {
	return l.joinData(l.pkiFiles(), func(j *bootstrapv1.JoinConfiguration) { j.ControlPlane = &bootstrapv1.JoinControlPlane{} })
}

// machine is one of the cluster, by its name.
func (l *lab) machine(name string, data []byte) machineSpec {
	return machineSpec{
		Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Cluster: "prod",
		ProviderID: "simulated://ns/prod/" + name, BootstrapData: data,
	}
}

func (l *lab) ensure(m machineSpec) MachineStatus {
	l.t.Helper()
	s, err := l.b.ensureMachine(m)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// mustRun ensures a machine that must run immediately.
func (l *lab) mustRun(name string, data []byte) machineSpec {
	l.t.Helper()
	m := l.machine(name, data)
	if s := l.ensure(m); !s.Done() {
		l.t.Fatalf("machine %s is at %s: %s", name, s.Stage, s.Message)
	}
	return m
}

// controlPlane starts machines cp-1, cp-2, … and creates a token for joining.
func (l *lab) controlPlane(n int) []machineSpec {
	l.t.Helper()
	out := []machineSpec{l.mustRun("cp-1", l.initData())}
	l.token(goodID, nil)
	for i := 1; i < n; i++ {
		out = append(out, l.mustRun(fmt.Sprintf("cp-%d", i+1), l.controlPlaneData()))
	}
	return out
}

// token creates a bootstrap token as the KubeadmConfig controller does.
func (l *lab) token(id string, change func(map[string][]byte)) {
	l.t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte(id), "token-secret": []byte(goodRest), "expiration": []byte(l.clock.Now().UTC().Add(15 * time.Minute).Format(time.RFC3339)),
			"usage-bootstrap-signing": []byte("true"), "usage-bootstrap-authentication": []byte("true"),
			"auth-extra-groups": []byte("system:bootstrappers:kubeadm:default-node-token"),
		},
	}
	if change != nil {
		change(s.Data)
	}
	if _, err := l.client().CoreV1().Secrets(metav1.NamespaceSystem).Create(context.Background(), s, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) config() *rest.Config {
	l.t.Helper()
	text, err := kubeconfig.New(kubeconfig.Options{Cluster: "prod", Server: "https://" + l.server(), CA: l.pki[certs.CA], Now: time.Now()})
	if err != nil {
		l.t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		l.t.Fatal(err)
	}
	config.QPS = -1
	config.Timeout = 10 * time.Second
	return config
}

func (l *lab) client() kubernetes.Interface {
	l.t.Helper()
	c, err := kubernetes.NewForConfig(l.config())
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

func (l *lab) node(name string) *corev1.Node {
	l.t.Helper()
	n, err := l.client().CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

func nodeReady(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// awaitSteadyState waits until the cluster's controllers have started a Pod of kube-proxy on
// each Node.
func (l *lab) awaitSteadyState() {
	l.t.Helper()
	c := l.client()
	for begin := time.Now(); time.Since(begin) < time.Minute; runtime.Gosched() {
		nodes, err := c.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
		if err != nil {
			l.t.Fatal(err)
		}
		proxies, err := c.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(context.Background(), "kube-proxy", metav1.GetOptions{})
		if err != nil {
			l.t.Fatal(err)
		}
		if int(proxies.Status.NumberAvailable) == len(nodes.Items) {
			return
		}
	}
	l.t.Fatal("kube-proxy does not run on all Nodes")
}

// objects is everything kube-system and the cluster scope have, as versions.
func (l *lab) versions() map[string]string {
	l.t.Helper()
	l.awaitSteadyState()
	out := map[string]string{}
	c, all := l.client(), metav1.ListOptions{}
	note := func(list any, err error) {
		if err != nil {
			l.t.Fatal(err)
		}
		raw, err := json.Marshal(list)
		if err != nil {
			l.t.Fatal(err)
		}
		var items struct {
			Items []metav1.PartialObjectMetadata `json:"items"`
		}
		if err := json.Unmarshal(raw, &items); err != nil {
			l.t.Fatal(err)
		}
		for _, i := range items.Items {
			out[fmt.Sprintf("%T %s/%s", list, i.Namespace, i.Name)] = i.ResourceVersion
		}
	}
	ctx := context.Background()
	nodes, err := c.CoreV1().Nodes().List(ctx, all)
	note(nodes, err)
	pods, err := c.CoreV1().Pods("").List(ctx, all)
	note(pods, err)
	maps, err := c.CoreV1().ConfigMaps("").List(ctx, all)
	note(maps, err)
	secrets, err := c.CoreV1().Secrets("").List(ctx, all)
	note(secrets, err)
	spaces, err := c.CoreV1().Namespaces().List(ctx, all)
	note(spaces, err)
	return out
}

func fault(m machineSpec, faults ...infrav1.MachineFault) machineSpec {
	m.Faults = faults
	return m
}
