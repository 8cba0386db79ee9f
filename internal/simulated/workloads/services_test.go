// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/simulated/workloads/podplan"
)

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta(name), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}}}
}

// endpoints are the addresses of a Service by its slices, and by its Endpoints.
func (l *lab) endpoints(name string) []string {
	l.t.Helper()
	var out []string
	for _, s := range load[discoveryv1.EndpointSlice](l, "discovery.k8s.io/v1/endpointslices", "default") {
		for _, e := range s.Endpoints {
			if s.Labels[discoveryv1.LabelServiceName] == name {
				out = append(out, fmt.Sprintf("%s:%d ready=%t on %s", e.Addresses[0], *s.Ports[0].Port, *e.Conditions.Ready, *e.NodeName))
			}
		}
	}
	e := &corev1.Endpoints{ObjectMeta: meta(name)}
	l.must(l.store.Load(e))
	for _, s := range e.Subsets {
		out = append(out, fmt.Sprintf("Endpoints: %d ready, %d not, port %d", len(s.Addresses), len(s.NotReadyAddresses), s.Ports[0].Port))
	}
	return out
}

func TestAServiceHasAnAddressAndItsPodsBehindIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(l.store.Add(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NodeSpec{PodCIDR: "10.244.3.0/24"},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")},
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.64.0.1"}},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}))
	svc := service("web")
	l.must(l.store.Add(svc))
	if !strings.HasPrefix(svc.Spec.ClusterIP, "10.9") && !strings.HasPrefix(svc.Spec.ClusterIP, "10.10") || len(svc.Spec.ClusterIPs) != 1 || svc.Spec.Ports[0].TargetPort.IntVal != 80 {
		t.Errorf("spec %+v, want an address and a port", svc.Spec)
	}
	l.want("unowned", l.endpoints("web"))
	l.must(l.store.Add(deployment("web", 2)))
	l.want("two Pods", l.endpoints("web"), "10.244.3.2:80 ready=true on a", "10.244.3.3:80 ready=true on a", "Endpoints: 2 ready, 0 not, port 80")
	l.ready("a", corev1.ConditionFalse)
	l.want("not ready", l.endpoints("web"), "10.244.3.2:80 ready=false on a", "10.244.3.3:80 ready=false on a", "Endpoints: 0 ready, 2 not, port 80")

	taken := service("other")
	taken.Spec.ClusterIP = svc.Spec.ClusterIP
	if err := l.store.Add(taken); !apierrors.IsInvalid(err) {
		t.Errorf("an address that another has: %v, want invalid", err)
	}
	outside := service("outside")
	outside.Spec.Type = corev1.ServiceTypeNodePort
	l.must(l.store.Add(outside))
	if p := outside.Spec.Ports[0].NodePort; p < 30000 || p > 32767 {
		t.Errorf("node port %d", p)
	}
	l.must(l.store.Remove(corev1.SchemeGroupVersion.WithResource("services"), "default", "web"))
	if err := l.store.Load(&corev1.Endpoints{ObjectMeta: meta("web")}); !apierrors.IsNotFound(err) {
		t.Errorf("the Endpoints of a Service that is gone: %v", err)
	}
}

func TestTheAPIServersAreBehindTheirService(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a")
	l.must(l.store.Add(&corev1.Service{ObjectMeta: meta("kubernetes"), Spec: corev1.ServiceSpec{
		ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(6443)}},
	}}))
	l.must(l.store.Add(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "kube-apiserver-a", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
			Labels: map[string]string{"component": "kube-apiserver", "tier": "control-plane"},
		},
		Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.64.0.1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}))
	l.want("endpoints", l.endpoints("kubernetes"), "10.64.0.1:6443 ready=true on a", "Endpoints: 1 ready, 0 not, port 6443")
}

func TestABudgetSaysWhatItAllows(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.must(l.store.Add(&policyv1.PodDisruptionBudget{
		ObjectMeta: meta("web"), Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(2)), Selector: selector("web")},
	}))
	says := func() string {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: meta("web")}
		l.must(l.store.Load(b))
		s := b.Status
		return fmt.Sprintf("%d of %d healthy, %d expected, %d allowed, %s", s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods, s.DisruptionsAllowed, s.Conditions[0].Reason)
	}
	l.must(l.store.Add(deployment("web", 3)))
	l.want("all healthy", []string{says()}, "3 of 2 healthy, 3 expected, 1 allowed, SufficientPods")
	l.ready("a", corev1.ConditionFalse)
	if got := says(); !strings.HasSuffix(got, "0 allowed, InsufficientPods") {
		t.Errorf("with a Node that is not ready: %s", got)
	}
}

func TestAnEvictedPodIsReplacedAndTheNextMayGo(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.must(l.store.Add(&policyv1.PodDisruptionBudget{
		ObjectMeta: meta("web"), Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: selector("web")},
	}))
	l.must(l.store.Add(deployment("web", 2)))
	change(l, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	for _, p := range load[corev1.Pod](l, "v1/pods", "default") {
		if p.Spec.NodeName == "a" {
			l.must(l.store.Evict("default", p.Name, metav1.DeleteOptions{}))
		}
	}
	for _, line := range l.pods() {
		if !strings.HasSuffix(line, "on b: Running, ready") {
			t.Errorf("after a drain: %s", line)
		}
	}
}

func TestAnEvictedPodWithAFinalizerHasEnded(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]corev1.PodPhase{"0": corev1.PodSucceeded, "3": corev1.PodFailed} {
		l := newLab(t, "a")
		p := &corev1.Pod{ObjectMeta: meta("held"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}}}
		p.Finalizers, p.Annotations = []string{"example.com/held"}, map[string]string{podplan.ExitCodeAnnotation: code}
		l.must(l.store.Add(p))
		l.must(l.store.Evict("default", "held", metav1.DeleteOptions{}))
		l.pods() // in steady state
		l.must(l.store.Load(p))
		evicted := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "EvictionByEvictionAPI"
		})
		if p.Status.Phase != want || !evicted || p.DeletionTimestamp == nil {
			t.Errorf("exit code %s: got %v, evicted %v, deleted %v; want %s", code, p.Status.Phase, evicted, p.DeletionTimestamp, want)
		}
		change(l, p, func(p *corev1.Pod) { p.Finalizers = nil })
		if err := l.store.Load(p); !apierrors.IsNotFound(err) {
			t.Errorf("without a finalizer: %v", err)
		}
	}
}

func TestEachNamespaceHasAnAccountAndTheCA(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(l.store.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}))
	ca := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "kube-root-ca.crt"}}
	l.must(l.store.Load(ca))
	change(l, ca, func(c *corev1.ConfigMap) { c.Data["ca.crt"] = "mine" })
	l.must(l.store.Load(ca))
	if ca.Data["ca.crt"] != string(l.ca.Cert) {
		t.Error("what another client changed is not reverted")
	}
	l.must(l.store.Remove(corev1.SchemeGroupVersion.WithResource("serviceaccounts"), "team", "default"))
	l.must(l.store.Load(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "default"}}))
	l.must(l.store.Remove(corev1.SchemeGroupVersion.WithResource("namespaces"), "", "team"))
	if err := l.store.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace that was deleted: %v", err)
	}
}

func TestKubeletsGetTheirCertificates(t *testing.T) {
	t.Parallel()
	kubelet := pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}
	client := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	serving := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	tests := map[string]struct {
		signer   string
		subject  pkix.Name
		dns      []string
		usages   []certificatesv1.KeyUsage
		groups   []string
		approved bool
		want     string // conditions, and whether it is signed
	}{
		"by its token, at once":               {certificatesv1.KubeAPIServerClientKubeletSignerName, kubelet, nil, client, []string{"joining"}, false, "Approved AutoApproved signed"},
		"not without a role":                  {certificatesv1.KubeAPIServerClientKubeletSignerName, kubelet, nil, client, []string{"others"}, false, ""},
		"not for a client that is no kubelet": {certificatesv1.KubeAPIServerClientKubeletSignerName, pkix.Name{CommonName: "admin"}, nil, client, []string{"joining"}, false, ""},
		"for serving once approved":           {certificatesv1.KubeletServingSignerName, kubelet, []string{"a"}, serving, nil, true, "Approved Test signed"},
		"for serving, not unapproved":         {certificatesv1.KubeletServingSignerName, kubelet, []string{"a"}, serving, []string{"joining"}, false, ""},
		"not for serving without a name":      {certificatesv1.KubeletServingSignerName, kubelet, nil, serving, nil, true, "Approved Test Failed SignerValidationFailure"},
		"of others is theirs":                 {"example.com/signer", kubelet, nil, client, nil, true, "Approved Test"},
		"a client once approved":              {certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "jane"}, nil, client, nil, true, "Approved Test signed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.must(l.store.Add(&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "b"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "joining"}},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"},
			}))
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			l.must(err)
			der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: tc.subject, DNSNames: tc.dns}, key)
			l.must(err)
			r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: tc.signer, Usages: tc.usages, Username: "u", Groups: tc.groups,
			}}
			if tc.approved {
				r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}}
			}
			l.must(l.store.Add(r))
			l.must(l.store.Load(r))
			var got []string
			for _, c := range r.Status.Conditions {
				got = append(got, string(c.Type), c.Reason)
			}
			if len(r.Status.Certificate) > 0 {
				got = append(got, "signed")
				l.verify(r.Status.Certificate, tc.subject.CommonName)
			}
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("%q, want %q", text, tc.want)
			}
		})
	}
}

// verify checks that the cluster's CA has signed a certificate for name.
func (l *lab) verify(text []byte, name string) {
	l.t.Helper()
	cert, err := certs.ParseCertificate(text)
	l.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(l.ca.Cert)
	_, err = cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: l.clock.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil || cert.Subject.CommonName != name || slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageAny) {
		l.t.Errorf("certificate for %s, %v", cert.Subject, err)
	}
}
