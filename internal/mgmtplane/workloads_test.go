// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

const (
	nodeAddress = "10.244.0.1"
	// busyTimeout is for a busy machine; a passing test takes a second or two.
	busyTimeout = time.Minute
)

// node is a fake node: it binds Pods, reports them as running and completes the
// deletion of deleted ones. It also answers connections to cluster addresses.
type node struct {
	*testing.T
	client    kubernetes.Interface
	plane     *Plane
	authority []byte // of the certificates of Pods, in PEM

	pods, kubelet *httptest.Server // any port of any Pod or Service, and the kubelet

	mu    sync.Mutex // guards what follows
	dials []string
	asked string // the common name of the kubelet's client
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{T: t}
	n.plane = startPlane(t, Options{Workloads: true, Dial: n.dial, Kubelets: []string{nodeAddress}})
	var err error
	n.client, err = kubernetes.NewForConfig(n.plane.Config())
	n.must("connect", err)
	ca, err := certs.NewCA("", "pods", time.Now(), 0)
	n.must("make an authority", err)
	n.authority = ca.Cert
	shown, err := ca.Issue(certs.Leaf{CommonName: "web", DNSNames: []string{"web.default.svc"}, Server: true, Now: time.Now()})
	n.must("make a certificate", err)
	pair, err := tls.X509KeyPair(shown.Cert, shown.Key)
	n.must("read it", err)
	n.pods = n.serve(n.ofPods, &tls.Config{Certificates: []tls.Certificate{pair}})
	cert, key, authority, _ := n.plane.KubeletFiles()
	pair, err = tls.LoadX509KeyPair(cert, key)
	n.must("read the kubelet's certificate", err)
	n.kubelet = n.serve(n.ofKubelet, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: n.roots(authority)})
	return n
}

func (n *node) serve(h http.HandlerFunc, c *tls.Config) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.TLS = c
	s.StartTLS()
	n.Cleanup(s.Close)
	return s
}

func (n *node) roots(file string) *x509.CertPool {
	n.Helper()
	pem, err := os.ReadFile(file)
	n.must("read an authority", err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return pool
}

func (n *node) must(what string, err error) {
	n.Helper()
	if err != nil {
		n.Fatalf("%s: %v", what, err)
	}
}

// until waits for a check to pass.
func (n *node) until(what string, check func(context.Context) error) {
	n.Helper()
	var last error
	if wait.PollUntilContextTimeout(n.Context(), 20*time.Millisecond, busyTimeout, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	}) != nil {
		n.Fatalf("%s: %v", what, last)
	}
}

// dial implements Dial.
func (n *node) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dials = append(n.dials, address)
	n.mu.Unlock()
	to := n.pods
	if address == nodeAddress+":10250" {
		to = n.kubelet
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", to.Listener.Addr().String())
}

// dialled reports whether an address was dialed since the last call.
func (n *node) dialled(address string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { n.dials = nil }()
	return slices.Contains(n.dials, address)
}

// ofPods answers for every Pod: as a webhook that refuses ConfigMaps named bad, and
// at other paths with the path.
func (n *node) ofPods(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/webhook" {
		_, _ = fmt.Fprint(w, "pods serve "+r.URL.Path)
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: review.Request.Name != "bad", Result: &metav1.Status{Message: "it is bad"}}
	_ = json.NewEncoder(w).Encode(review)
}

func (n *node) ofKubelet(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	n.asked = r.TLS.PeerCertificates[0].Subject.CommonName
	n.mu.Unlock()
	_, _ = fmt.Fprint(w, "kubelet serves "+r.URL.Path)
}

// run binds and runs Pods until the test ends.
func (n *node) run() {
	obj := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	_, err := n.client.CoreV1().Nodes().Create(n.Context(), obj, metav1.CreateOptions{})
	n.must("make the node", err)
	obj.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress}}
	obj.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
	_, err = n.client.CoreV1().Nodes().UpdateStatus(n.Context(), obj, metav1.UpdateOptions{})
	n.must("describe the node", err)
	pods, err := n.client.CoreV1().Pods("").Watch(n.Context(), metav1.ListOptions{})
	n.must("watch Pods", err)
	go func() {
		for number := 2; ; number++ {
			select {
			case e, ok := <-pods.ResultChan():
				pod, isPod := e.Object.(*corev1.Pod)
				if !ok || !isPod {
					return
				}
				if err := n.act(pod, number); err != nil && n.Context().Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					n.Errorf("run %s: %v", pod.Name, err)
				}
			case <-n.Context().Done():
				pods.Stop()
				return
			}
		}
	}()
}

func (n *node) act(pod *corev1.Pod, number int) error {
	pods := n.client.CoreV1().Pods(pod.Namespace)
	switch {
	case pod.DeletionTimestamp != nil:
		return pods.Delete(n.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	case pod.Spec.NodeName == "":
		return pods.Bind(n.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}, metav1.CreateOptions{})
	case pod.Status.Phase == corev1.PodRunning:
		return nil
	}
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, fmt.Sprintf("10.244.0.%d", number)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	_, err := pods.UpdateStatus(n.Context(), pod, metav1.UpdateOptions{})
	return err
}

// deploy creates web: a Deployment and its Service.
func (n *node) deploy() {
	n.Helper()
	labels := map[string]string{"app": "web"}
	_, err := n.client.CoreV1().Services("default").Create(n.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(8443)}}}}, metav1.CreateOptions{})
	n.must("make the Service", err)
	_, err = n.client.AppsV1().Deployments("default").Create(n.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1", Ports: []corev1.ContainerPort{{ContainerPort: 8443}}}}},
		}}}, metav1.CreateOptions{})
	n.must("make the Deployment", err)
}

// available waits for so many Pods of the Deployment, all of an image, and returns
// their names.
func (n *node) available(replicas int32, image string) (names []string) {
	n.Helper()
	n.until(fmt.Sprintf("wait for %d Pods of %s", replicas, image), func(ctx context.Context) error {
		d, err := n.client.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := d.Status; s.ObservedGeneration != d.Generation || s.Replicas != replicas || s.UpdatedReplicas != replicas || s.AvailableReplicas != replicas {
			return fmt.Errorf("status %+v", s)
		}
		if !slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
		}) {
			return fmt.Errorf("conditions %+v", d.Status.Conditions)
		}
		pods, err := n.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		names = nil
		for _, p := range pods.Items {
			if names = append(names, p.Name); p.Spec.Containers[0].Image != image {
				return fmt.Errorf("%s is of %s", p.Name, p.Spec.Containers[0].Image)
			}
		}
		if len(names) != int(replicas) {
			return fmt.Errorf("there are %v", names)
		}
		return nil
	})
	return names
}

func (n *node) patch(patch string) {
	n.Helper()
	_, err := n.client.AppsV1().Deployments("default").Patch(n.Context(), "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	n.must("patch the Deployment", err)
}

// TestAPlaneRunsDeployments must not run in parallel with other tests: it counts.
func TestAPlaneRunsDeployments(t *testing.T) {
	n := newNode(t)
	n.costsNothing()
	n.run()
	n.deploy()
	pods := n.available(2, "web:1")
	n.reaches(pods[0])
	n.callsWebhook()
	n.answersPods()
	n.patch(`{"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}}`)
	n.available(2, "web:2")
	n.patch(`{"spec": {"replicas": 3}}`)
	n.available(3, "web:2")
	n.must("delete the Deployment", n.client.AppsV1().Deployments("default").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	n.until("wait for its Pods to go", func(ctx context.Context) error {
		pods, err := n.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d are left", len(pods.Items))
		}
		return err
	})
}

// costsNothing: without a Deployment, none of the workload controllers watches
// anything, or writes.
func (n *node) costsNothing() {
	n.Helper()
	metrics, err := n.client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(n.Context())
	n.must("read metrics", err)
	watches := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	for lines.Scan() {
		labels, value, _ := strings.Cut(lines.Text(), "} ")
		if strings.HasPrefix(labels, "apiserver_longrunning_requests{") && strings.Contains(labels, `verb="WATCH"`) {
			_, resource, _ := strings.Cut(labels, `resource="`)
			resource, _, _ = strings.Cut(resource, `"`)
			watches[resource] = value
		}
	}
	for resource, want := range map[string]string{ // the API server itself watches some
		"deployments": "1", "replicasets": "1", "pods": "2", "services": "2", "endpoints": "1", "endpointslices": "2", "nodes": "2",
	} {
		if watches[resource] != want {
			n.Errorf("%s watches of %s, want %s", watches[resource], resource, want)
		}
	}
	_, err = n.client.CoreV1().ConfigMaps("default").Get(n.Context(), "kube-root-ca.crt", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		n.Errorf("the authority of Pods is published before there are any: %v", err)
	}
}

// reaches requires answers of Pods and of their kubelet through the API server.
func (n *node) reaches(pod string) {
	n.Helper()
	ip := ""
	n.until("wait for endpoints", func(ctx context.Context) error {
		p, err := n.client.CoreV1().Pods("default").Get(ctx, pod, metav1.GetOptions{})
		if err == nil {
			ip = p.Status.PodIP
			_, err = n.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/services/https:web:443/proxy/").DoRaw(ctx)
		}
		return err
	})
	n.dialled("")
	tests := []struct{ what, path, dialled, want string }{
		{"the proxy to a Pod", "/api/v1/namespaces/default/pods/https:" + pod + ":9443/proxy/a", ip + ":9443", "pods serve /a"},
		{"the proxy to a Service", "/api/v1/namespaces/default/services/https:web:443/proxy/b", "", "pods serve /b"},
		{"the log of a Pod", "/api/v1/namespaces/default/pods/" + pod + "/log", nodeAddress + ":10250", "kubelet serves /containerLogs/default/" + pod + "/web"},
	}
	for _, tc := range tests {
		got, err := n.client.CoreV1().RESTClient().Get().AbsPath(tc.path).DoRaw(n.Context())
		if err != nil || string(got) != tc.want {
			n.Errorf("%s: %q, error %v, want %q", tc.what, got, err, tc.want)
		}
		if tc.dialled != "" && !n.dialled(tc.dialled) {
			n.Errorf("%s: %s was not dialled", tc.what, tc.dialled)
		}
	}
	_, _, _, client := n.plane.KubeletFiles()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asked != client {
		n.Errorf("the kubelet was asked by %q, want %q", n.asked, client)
	}
}

// callsWebhook requires that the API server calls a webhook that is named by its
// Service.
func (n *node) callsWebhook() {
	n.Helper()
	service, err := n.client.CoreV1().Services("default").Get(n.Context(), "web", metav1.GetOptions{})
	n.must("read the Service", err)
	_, err = n.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(n.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "web.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: n.authority, Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "web", Path: new("/webhook")}},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"CREATE"},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}},
		}},
	}, metav1.CreateOptions{})
	n.must("configure the webhook", err)
	create := func(name string) error {
		_, err := n.client.CoreV1().ConfigMaps("default").Create(n.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	n.until("wait for the webhook to refuse", func(context.Context) error {
		err := create("bad")
		if err == nil || !strings.Contains(err.Error(), "it is bad") {
			return fmt.Errorf("a bad one: %w", cmp.Or(err, errors.New("it was taken")))
		}
		return nil
	})
	if err := create("good"); err != nil {
		n.Errorf("a good one is refused: %v", err)
	}
	if address := service.Spec.ClusterIP + ":443"; !n.dialled(address) {
		n.Errorf("%s was not dialled", address)
	}
}

// answersPods requires that the API server answers on a connection that it has not
// accepted.
func (n *node) answersPods() {
	n.Helper()
	var published *corev1.ConfigMap
	n.until("wait for the authority", func(ctx context.Context) (err error) {
		published, err = n.client.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(published.Data["ca.crt"]))
	pods, err := net.Listen("tcp", "127.0.0.1:0") // that accepts a Pod's connections
	n.must("listen", err)
	defer func() { _ = pods.Close() }()
	go func() {
		for {
			c, err := pods.Accept()
			if err != nil {
				return
			}
			n.plane.Serve(c)
		}
	}()
	for _, name := range []string{"10.96.0.1", "kubernetes.default.svc"} {
		c, err := tls.Dial("tcp", pods.Addr().String(), &tls.Config{RootCAs: pool, ServerName: name})
		n.must("connect as a Pod to "+name, err)
		_, err = fmt.Fprintf(c, "GET /version HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name)
		n.must("ask as a Pod", err)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		n.must("read as a Pod", err)
		if res.StatusCode != http.StatusOK {
			n.Errorf("a Pod receives %s", res.Status)
		}
		_ = errors.Join(res.Body.Close(), c.Close()) // the response was read
	}
}
