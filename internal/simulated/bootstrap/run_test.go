// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

func TestReadRefusesWhatKubeadmRefuses(t *testing.T) {
	t.Parallel()
	const file = "#cloud-config\nwrite_files:\n- path: /k.yaml\n  content: |\n    "
	call := func(verb, kind string) string {
		return file + "apiVersion: kubeadm.k8s.io/v1beta4\n    kind: " + kind + "\nruncmd:\n- kubeadm " + verb + " --config /k.yaml\n"
	}
	tests := map[string]struct{ data, want string }{
		"an init":                    {call("init", "InitConfiguration"), ""},
		"an init of a cluster alone": {call("init", "ClusterConfiguration"), ""},
		"a join":                     {call("join", "JoinConfiguration"), ""},
		"no call":                    {"#cloud-config\nruncmd: [hostname]\n", "the user data runs neither kubeadm init nor kubeadm join"},
		"no config":                  {"#cloud-config\nruncmd: [kubeadm init]\n", "kubeadm init is called without --config"},
		"no file":                    {"#cloud-config\nruncmd: [kubeadm join --config /k.yaml]\n", `kubeadm join: unable to read config from "/k.yaml": open /k.yaml: no such file or directory`},
		"an init of a join":          {call("init", "JoinConfiguration"), "kubeadm init: /k.yaml holds a JoinConfiguration"},
		"a join of an init":          {call("join", "InitConfiguration"), "kubeadm join: no JoinConfiguration in /k.yaml"},
		"a file of something else":   {file + "hello\nruncmd: [kubeadm init --config /k.yaml]\n", "kubeadm init: read /k.yaml: "},
		"a name that is none":        {strings.Replace(call("join", "JoinConfiguration"), "\nruncmd", "\n    nodeRegistration: {name: A_B}\nruncmd", 1), `kubeadm join: nodeRegistration.name: Invalid value: "A_B"`},
		"data that is none":          {"hello", "read the user data: the user data does not start with"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Read([]byte(tc.data), "", "host")
			wantError(t, err, tc.want)
		})
	}
}

func TestRunDescribesTheMachine(t *testing.T) {
	t.Parallel()
	const v = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: "
	type facts struct {
		Init, ControlPlane, External bool
		Version                      string
		Port                         int32
		Validity                     time.Duration
	}
	tests := map[string]struct {
		verb, config string
		want         facts
	}{
		"a founder": {"init", v + "InitConfiguration\nlocalAPIEndpoint: {bindPort: 7443}\n---\n" + v + "ClusterConfiguration\nkubernetesVersion: v1.36.1\n",
			facts{true, true, false, "v1.36.1", 7443, certs.LeafValidity}},
		"a founder with another etcd": {"init", v + "ClusterConfiguration\netcd: {external: {endpoints: ['https://e']}}\ncertificateValidityPeriod: 48h0m0s\n",
			facts{true, true, true, "", 0, 48 * time.Hour}},
		"a control plane": {"join", join + "controlPlane: {localAPIEndpoint: {bindPort: 8443}}\n", facts{ControlPlane: true, Port: 8443, Validity: certs.LeafValidity}},
		"a worker":        {"join", join, facts{Validity: certs.LeafValidity}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, tc.verb, tc.config)
			if diff := cmp.Diff(tc.want, facts{r.IsInit(), r.IsControlPlane(), r.ExternalEtcd(), r.KubernetesVersion(), r.APIServerPort(), r.CertificateValidity()}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckInitNeedsTheEndpoint(t *testing.T) {
	t.Parallel()
	const config = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"
	for fields, want := range map[string]string{
		"kubernetesVersion: v1.36.0\n":                                    "controlPlaneEndpoint is not set: other machines reach the cluster at " + endpoint,
		"controlPlaneEndpoint: 10.0.0.9\nkubernetesVersion: v1.36.0\n":    "controlPlaneEndpoint is 10.0.0.9, where no API server of this cluster answers: it is reached at " + endpoint,
		"controlPlaneEndpoint: 10.0.0.1\n":                                "kubernetesVersion is not set",
		"controlPlaneEndpoint: 10.0.0.1\nkubernetesVersion: v1.36.0\n":    "",
		"controlPlaneEndpoint: " + endpoint + "\nkubernetesVersion: v1\n": "",
	} {
		wantError(t, run(t, "init", config+fields).CheckInit(endpoint), want)
	}
}

// pki writes the files of a control plane.
func pki(t *testing.T, dir string) (map[string][]byte, PKI) {
	t.Helper()
	p := PKI{CA: authority(t, certs.CA), Etcd: authority(t, certs.Etcd), FrontProxy: authority(t, certs.FrontProxy), ServiceAccount: authority(t, certs.ServiceAccount)}
	files := map[string][]byte{}
	for _, s := range shared {
		files[path.Join(dir, s.cert)], files[path.Join(dir, s.key)] = s.pair(&p).Cert, s.pair(&p).Key
	}
	return files, p
}

func TestPKIChecksEachFile(t *testing.T) {
	t.Parallel()
	files, whole := pki(t, certificatesDir)
	_, other := pki(t, certificatesDir)
	without := func(name string) func(map[string][]byte) {
		return func(m map[string][]byte) { delete(m, path.Join(certificatesDir, name)) }
	}
	with := func(name string, content []byte) func(map[string][]byte) {
		return func(m map[string][]byte) { m[path.Join(certificatesDir, name)] = content }
	}
	leaf, err := whole.CA.Issue(certs.Leaf{CommonName: "x", Client: true, Now: now, Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		change   func(map[string][]byte)
		external bool
		at       time.Time
		want     string
	}{
		"all":                           {func(map[string][]byte) {}, false, now, ""},
		"no etcd, which is external":    {without("etcd/ca.crt"), true, now, ""},
		"no etcd":                       {without("etcd/ca.crt"), false, now, "certs/etcd-ca: /etc/kubernetes/pki/etcd/ca.crt: no such file or directory"},
		"no key":                        {without("front-proxy-ca.key"), false, now, "certs/front-proxy-ca: /etc/kubernetes/pki/front-proxy-ca.key: no such file or directory"},
		"no account":                    {without("sa.pub"), false, now, "certs/sa: /etc/kubernetes/pki/sa.pub: no such file or directory"},
		"a certificate that is none":    {with("ca.crt", []byte("SECRET")), false, now, "/etc/kubernetes/pki/ca.crt: it holds no PEM block"},
		"a key that is none":            {with("ca.key", []byte("SECRET")), false, now, "/etc/kubernetes/pki/ca.key: it holds no PEM block"},
		"a key of another":              {with("ca.key", other.CA.Key), false, now, "/etc/kubernetes/pki/ca.key: the key does not belong to the certificate"},
		"a certificate of no authority": {with("ca.crt", leaf.Cert), false, now, "/etc/kubernetes/pki/ca.crt: the certificate is not one of a certificate authority"},
		"an account's key of another":   {with("sa.key", other.ServiceAccount.Key), false, now, "/etc/kubernetes/pki/sa.key: the key does not belong"},
		"certificates of tomorrow":      {func(map[string][]byte) {}, false, now.Add(-24 * time.Hour), "the certificate is not valid before"},
		"certificates of long ago":      {func(map[string][]byte) {}, false, now.Add(11 * certs.LeafValidity), "the certificate has expired on"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for verb, config := range map[string]string{"init": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n", "join": join + "controlPlane: {}\n"} {
				r := run(t, verb, config)
				maps.Copy(r.files, files)
				tc.change(r.files)
				got, err := r.PKI(tc.at, tc.external)
				want := tc.want
				if _, file, ok := strings.Cut(want, ": /"); ok && verb == "join" { // it names the file, not the phase
					want = file
				}
				wantError(t, err, want)
				if err != nil && (strings.Contains(err.Error(), "SECRET") || !strings.HasPrefix(err.Error(), "kubeadm "+verb) || got.CA.HasKey()) {
					t.Errorf("%s: got %v, error %v", verb, got, err)
				}
				if err == nil && (string(got.CA.Cert) != string(whole.CA.Cert) || (got.Etcd.Cert == nil) != tc.external) {
					t.Errorf("%s: got another PKI", verb)
				}
			}
		})
	}
	moved, _ := pki(t, "/moved")
	r := run(t, "init", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncertificatesDir: /moved\n")
	maps.Copy(r.files, moved)
	if _, err := r.PKI(now, false); err != nil {
		t.Errorf("in another folder: %v", err)
	}
	wantError(t, other.Matches(whole), "the CA of the machine is not that of the cluster")
	other = whole
	other.ServiceAccount = authority(t, certs.ServiceAccount)
	wantError(t, other.Matches(whole), "the service account of the machine is not that of the cluster")
	wantError(t, whole.Matches(whole), "")
}

func TestInitLeavesObjects(t *testing.T) {
	t.Parallel()
	const config = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: c\nkubernetesVersion: v1.36.1\ncontrolPlaneEndpoint: " + endpoint +
		"\nnetworking: {serviceSubnet: 10.5.0.0/16, podSubnet: 10.6.0.0/16}\n---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n"
	tests := map[string]struct {
		fields      string
		dns, proxy  bool
		bootstrapBy string
	}{
		"all":               {"bootstrapTokens: [{token: " + token + "}]\n", true, true, "bootstrap-token-abcdef"},
		"without addons":    {"skipPhases: [addon]\n", false, false, ""},
		"without CoreDNS":   {"skipPhases: [addon/coredns]\n", false, true, ""},
		"without its proxy": {"skipPhases: [addon/kube-proxy]\n", true, false, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, err := run(t, "init", config+tc.fields).ClusterObjects(PKI{CA: authority(t, certs.CA)}, endpoint, now)
			if err != nil {
				t.Fatal(err)
			}
			s, err := objects.Open(objects.Options{Clock: testclock.NewFakePassiveClock(now)})
			if err != nil {
				t.Fatal(err)
			}
			has := map[string]objects.Object{}
			for _, obj := range list {
				if err := s.Ensure(obj); err != nil { // which validates it
					t.Errorf("%T %s: %v", obj, obj.GetName(), err)
				}
				has[strings.TrimPrefix(path.Ext(fmt.Sprintf("%T", obj)), ".")+" "+obj.GetNamespace()+"/"+obj.GetName()] = obj
			}
			for name, want := range map[string]bool{
				"Deployment kube-system/coredns": tc.dns, "Service kube-system/kube-dns": tc.dns, "DaemonSet kube-system/kube-proxy": tc.proxy,
				"ConfigMap kube-system/kubeadm-config": true, "ConfigMap kube-public/cluster-info": true, "Service default/kubernetes": true, "Role kube-system/kubeadm:nodes-kubeadm-config": true,
				"Secret kube-system/bootstrap-token-abcdef": tc.bootstrapBy != "",
			} {
				if (has[name] != nil) != want {
					t.Errorf("%s is there: %t, want %t", name, has[name] != nil, want)
				}
			}
			if svc := has["Service default/kubernetes"].(*corev1.Service); svc.Spec.ClusterIP != "10.5.0.1" {
				t.Errorf("the Service of the API servers has %s", svc.Spec.ClusterIP)
			}
			if dns, ok := has["Service kube-system/kube-dns"].(*corev1.Service); ok && dns.Spec.ClusterIP != "10.5.0.10" {
				t.Errorf("the Service of CoreDNS has %s", dns.Spec.ClusterIP)
			}
			docs, err := kubeadm.Parse([]byte(has["ConfigMap kube-system/kubeadm-config"].(*corev1.ConfigMap).Data["ClusterConfiguration"]))
			if err != nil || docs.Data.PodSubnet != "10.6.0.0/16" || docs.Cluster.ImageRepository != defaultRepository || docs.Data.DNSDomain != "cluster.local" || docs.Cluster.CertificatesDir != certificatesDir {
				t.Errorf("the stored configuration is %+v, error %v", docs, err)
			}
		})
	}
}

func TestStaticPodsAreThoseOfTheirNode(t *testing.T) {
	t.Parallel()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "n"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"},
	}}}
	docs := &kubeadm.Documents{}
	var names []string
	for _, component := range Components(false) {
		p := StaticPod(component, n, docs, "v1.36.1", now)
		names = append(names, p.Name)
		owner := metav1.GetControllerOf(p)
		if p.Spec.NodeName != "n" || p.Annotations[corev1.MirrorPodAnnotationKey] == "" || owner == nil || owner.UID != "u" || p.Status.PodIP != "10.0.0.1" || !ready(p) {
			t.Errorf("got %+v", p)
		}
		want := map[string]string{"etcd": "https://10.0.0.1:2379"}[component]
		if got := p.Annotations["kubeadm.kubernetes.io/etcd.advertise-client-urls"]; got != want {
			t.Errorf("%s serves clients at %q, want %q", component, got, want)
		}
		if SetRunning(p, true, now) {
			t.Errorf("%s: running again changed it", component)
		}
		if !SetRunning(p, false, now) || ready(p) || p.Status.ContainerStatuses[0].State.Waiting == nil || p.Status.ContainerStatuses[0].RestartCount != 1 {
			t.Errorf("%s stopped: %+v", component, p.Status)
		}
	}
	if diff := cmp.Diff([]string{"etcd-n", "kube-apiserver-n", "kube-controller-manager-n", "kube-scheduler-n"}, names); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}, Components(true)); diff != "" {
		t.Errorf("with an external etcd (-want +got):\n%s", diff)
	}
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// TestReadinessIsSetOnce: another client can remove the condition.
func TestReadinessIsSetOnce(t *testing.T) {
	t.Parallel()
	n := run(t, "join", join).Node(Host{Name: "h", Now: now})
	for _, status := range []corev1.ConditionStatus{corev1.ConditionUnknown, corev1.ConditionFalse, corev1.ConditionTrue} {
		n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		if !SetReady(n, status, now) || SetReady(n, status, now.Add(time.Hour)) {
			t.Errorf("%s: it is not set once", status)
		}
		if isReady(n) != (status == corev1.ConditionTrue) || len(n.Status.Conditions) != 4 {
			t.Errorf("%s: got %+v", status, n.Status.Conditions)
		}
	}
}
