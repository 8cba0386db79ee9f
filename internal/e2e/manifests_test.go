// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/cli"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/testenv"
	"github.com/capstan-dev/capstan/manifests"
)

// managers is where the manifests of the test put the manager.
const managers = "managers"

// TestManagersRunByTheirManifests applies the output of generate manager to an API
// server without Capstan, and then two managers run as the Deployment defines: as
// its ServiceAccount, with its arguments, called by its probes and through its
// Services. The first one leads, and is killed.
func TestManagersRunByTheirManifests(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	f := fleet{t, testenv.Foreign(t)}
	f.Namespace = metav1.NamespaceDefault
	dir := t.TempDir()
	objects := f.generate(fmt.Sprintf("extraArgs: [--simulated-dir=%s]\nproviders: [core, kubeadm, local]\n", dir))
	f.take(objects)
	d := &deployed{fleet: f, asked: newWitness(f)}
	f.must(f.Client.Get(t.Context(), client.ObjectKey{Namespace: managers, Name: "capstan-manager"}, &d.Deployment))

	first := d.start()
	d.leads(first)
	f.create("c", shape{workers: 1})
	f.create("t", shape{workers: 1, template: template.LocalTopology()})
	f.becomes("c")
	f.becomes("t")
	before := d.hurryRotation()
	second := d.start()
	d.rotated(second, before)
	f.refuses()
	d.reads(first, 1)
	d.reads(second, 0)

	first.process.Kill()
	d.replicas = d.replicas[1:]
	d.endpoints()
	f.refuses()
	f.take(objects) // again, as an upgrade does: the authority that the API server trusts is not in them
	f.refuses()
	modify(f, "c-workers", &clusterv1.MachineDeployment{}, func(m *clusterv1.MachineDeployment) { m.Spec.Replicas = new(int32(3)) })
	d.leads(second)
	f.becomes("c")
	f.story()
	for _, name := range []string{"c", "t"} {
		f.remove(name)
	}
	if err := second.process.Stop(); err != nil {
		t.Errorf("the manager received the signal to stop: %v\n%s", err, second.log)
	}
	d.asked.compare(objects)
}

// story is the rest of what managers do for users, so that it shows what they need.
func (f fleet) story() {
	f.Helper()
	f.make(f.payload("addon", "{apiVersion: v1, kind: ConfigMap, metadata: {name: made, namespace: default}}"), addons(f, "addon"))
	modify(f, "c", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Labels = map[string]string{"addons": "yes"} })
	f.eventually(func() error {
		return f.says(&addonsv1.ClusterResourceSet{}, addonsv1.ClusterResourceSetResourcesAppliedCondition, "True", "", "addon")
	})
	f.make(f.healthOf("c"))
	modify(f, "c-workers", &clusterv1.MachineDeployment{}, func(m *clusterv1.MachineDeployment) { m.Spec.Replicas = new(int32(1)) })
	f.becomes("c")
	f.requirePlans("c")
	newPool(f, "p", 1)
	f.remove("p")
}

// requirePlans has a Cluster require plans for a while, and a plan of it expire.
func (f fleet) requirePlans(name string) {
	f.Helper()
	annotate := func(value string) {
		modify(f, name, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, planv1.RequirePlanAnnotation, value)
		})
	}
	annotate("true")
	guard := &planv1.PlanGuard{}
	f.eventually(func() error { return f.Client.Get(f.Context(), f.key(name), guard) })
	machines, err := f.machines(name)
	f.must(err)
	if err := f.Client.Delete(f.Context(), &machines[0]); !apierrors.IsForbidden(err) {
		f.Errorf("delete a Machine of a Cluster that requires plans: %v", err)
	}
	modify(f, name, guard, func(g *planv1.PlanGuard) {
		g.Spec.Plan, g.Spec.Deadline, g.Spec.Cluster = "p1", metav1.NewTime(time.Now().Add(2*time.Second)), &planv1.Cluster{Namespace: f.Namespace, Name: name}
	})
	f.eventually(func() error {
		if err := f.Client.Get(f.Context(), f.key(name), guard); err != nil || guard.Spec.Plan != "" {
			return fmt.Errorf("the plan has not ended: %+v, %v", guard.Spec, err)
		}
		return nil
	})
	annotate("false")
	f.eventually(func() error {
		if err := f.Client.Get(f.Context(), f.key(name), guard); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the guard stays: %v", err)
		}
		return nil
	})
}

// generate returns what the command prints for values.
func (f fleet) generate(values string) []*unstructured.Unstructured {
	f.Helper()
	file := filepath.Join(f.TempDir(), "values.yaml")
	f.must(os.WriteFile(file, []byte(values), 0o600))
	var out, said bytes.Buffer
	env := &cli.Env{Env: command.Env{Name: "capstan", Out: &out, Err: &said, LookupEnv: func(string) (string, bool) { return "", false }, Now: time.Now}, SetLog: cli.SetLog}
	if status := cli.Run(f.Context(), env, []string{"generate", "manager", "--namespace=" + managers, "--values=" + file}); status != 0 {
		f.Fatalf("generate manager: status %d: %s", status, said.String())
	}
	objects, err := template.Objects(out.Bytes())
	f.must(err)
	return objects
}

// take does what kubectl apply --server-side does, in the order of the objects.
func (f fleet) take(objects []*unstructured.Unstructured) {
	f.Helper()
	for _, obj := range objects {
		f.must(f.Client.Apply(f.Context(), client.ApplyConfigurationFromUnstructured(obj.DeepCopy()), client.FieldOwner("kubectl")))
	}
}

// refuses checks that webhooks answer: they name a Service, and fail closed.
func (f fleet) refuses() {
	f.Helper()
	for range 20 { // of both replicas
		bad := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "bad"}}
		bad.Spec.InfrastructureRef = refTo(infra, "LocalCluster", "bad")
		bad.Spec.ControlPlaneRef = refTo(planes, "KubeadmControlPlane", "bad")
		bad.Spec.Topology.ClassRef.Name = "none"
		bad.Spec.Topology.Version = "1.2"
		if err := f.Client.Create(f.Context(), bad, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "denied the request") && !strings.Contains(err.Error(), "spec.topology.version") {
			f.Errorf("a bad Cluster gets the answer %v", err)
		}
	}
	old := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster"}}
	f.must(f.Client.Get(f.Context(), f.key("c"), old)) // converted by a replica
}

// deployed simulates what a cluster has in addition to its API server: the
// controllers and the kubelet that create Pods of a Deployment, and route its
// Services to them.
type deployed struct {
	fleet
	appsv1.Deployment
	asked    *witness
	replicas []*replica
}

// replica is a process in the place of a Pod.
type replica struct {
	process *testenv.Process
	log     *record
	at      map[string]string // HOST:PORT by the names of the container's ports
}

// start runs the container as its Pod would, and waits until its probes are content.
func (d *deployed) start() *replica {
	d.Helper()
	pod := d.Spec.Template.Spec
	container := pod.Containers[0]
	set, err := kubernetes.NewForConfig(d.Config)
	d.must(err)
	token, err := set.CoreV1().ServiceAccounts(d.Deployment.Namespace).CreateToken(d.Context(), pod.ServiceAccountName, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	d.must(err)
	r := &replica{log: &record{}, at: map[string]string{}}
	args := slices.Clone(container.Args)
	for _, port := range container.Ports {
		r.at[port.Name] = testenv.FreeAddress(d.T)
		host, free, _ := strings.Cut(r.at[port.Name], ":")
		if port.Name == "metrics" {
			host = "0.0.0.0" // where clients are authenticated
		}
		for i, arg := range args {
			args[i] = strings.Replace(arg, fmt.Sprintf("-address=:%d", port.ContainerPort), "-address="+host+":"+free, 1)
		}
	}
	env := []string{"KUBECONFIG=" + d.kubeconfigAt(d.asked.URL, d.asked.authority(), token.Status.Token), "TMPDIR=" + d.TempDir()}
	for _, v := range container.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	// The namespace, which a Pod would read from a file.
	r.process = testenv.Manager(d.T, env, r.log, append(args, "--leader-election-namespace="+d.Deployment.Namespace)...)
	d.Cleanup(func() {
		if d.Failed() {
			d.Logf("a manager said:\n%s", r.log)
		}
	})
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		d.eventually(func() error { return r.probe(probe) })
	}
	d.replicas = append(d.replicas, r)
	d.endpoints()
	return r
}

// probe probes a process as a kubelet probes a container.
func (r *replica) probe(probe *corev1.Probe) error {
	resp, err := http.Get("http://" + r.at[probe.HTTPGet.Port.StrVal] + probe.HTTPGet.Path)
	if err != nil {
		return fmt.Errorf("%w: %s", err, r.log)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", probe.HTTPGet.Path, resp.Status, r.log)
	}
	return nil
}

// endpoints leads the Services that select the Pods to the processes.
func (d *deployed) endpoints() {
	d.Helper()
	var services corev1.ServiceList
	d.must(d.Client.List(d.Context(), &services, client.InNamespace(d.Deployment.Namespace)))
	led := 0
	for i := range services.Items {
		s := &services.Items[i]
		if !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) {
			continue
		}
		var ports []string
		for _, port := range s.Spec.Ports {
			var to []string
			for _, r := range d.replicas {
				if at := r.at[port.TargetPort.StrVal]; at != "" {
					to = append(to, at)
				}
			}
			ports = append(ports, port.Name+"="+strings.Join(to, ","))
		}
		before := s.DeepCopy()
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, testenv.ServiceEndpoints, strings.Join(ports, ";"))
		d.must(d.Client.Patch(d.Context(), s, client.MergeFrom(before)))
		led++
	}
	if led != 2 {
		d.Fatalf("%d Services select the Pods, want those of webhooks and metrics", led)
	}
}

// leads waits until a replica has the Lease of the manager's namespace.
func (d *deployed) leads(r *replica) {
	d.Helper()
	var leases coordinationv1.LeaseList
	d.eventually(func() error {
		d.must(d.Client.List(d.Context(), &leases, client.InNamespace(d.Deployment.Namespace)))
		if len(leases.Items) != 1 {
			return fmt.Errorf("%d Leases, want that of the managers: %s", len(leases.Items), r.log)
		}
		return d.masters(r, 1)
	})
}

// reads reads the metrics of a replica.
func (d *deployed) reads(r *replica, masters int) {
	d.Helper()
	d.must(d.masters(r, masters))
}

// masters returns an error unless the metrics of a replica, read with the role of
// the manifests, show the desired number of leaders.
func (d *deployed) masters(r *replica, want int) error {
	token, err := d.reader()
	if err != nil {
		return err
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer c.CloseIdleConnections()
	req, err := http.NewRequestWithContext(d.Context(), http.MethodGet, "https://"+r.at["metrics"]+"/metrics", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "leader_election_master_status") && strings.HasSuffix(line, fmt.Sprintf(" %d\n", want)) {
			return nil
		}
	}
	return fmt.Errorf("%s: a replica does not say that leader_election_master_status is %d", resp.Status, want)
}

// reader is a token of an account that has the role for readers of metrics alone.
func (d *deployed) reader() (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: d.fleet.Namespace, Name: "reader"}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capstan-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}},
	}
	for _, obj := range []client.Object{account, binding} {
		if err := d.Client.Create(d.Context(), obj); client.IgnoreAlreadyExists(err) != nil {
			return "", err
		}
	}
	set, err := kubernetes.NewForConfig(d.Config)
	if err != nil {
		return "", err
	}
	token, err := set.CoreV1().ServiceAccounts(account.Namespace).CreateToken(d.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// hurryRotation adds the next authority of the webhooks to the one that signs, as
// if that had been done the day before yesterday, and returns the former.
func (d *deployed) hurryRotation() *x509.Certificate {
	d.Helper()
	next, err := certs.NewCA(certs.ECDSAP256, "capstan-webhooks", time.Now().Add(-48*time.Hour), certs.CAValidity)
	d.must(err)
	secret := &corev1.Secret{}
	d.must(d.Client.Get(d.Context(), client.ObjectKey{Namespace: manifests.Namespace, Name: "capstan-webhook-ca"}, secret))
	before, err := certs.ParseCertificate(secret.Data[certs.CertKey])
	d.must(err)
	secret.Data["next.crt"], secret.Data["next.key"] = next.Cert, next.Key
	d.must(d.Client.Update(d.Context(), secret))
	return before
}

// rotated sees that a replica shows a certificate of the next authority, and that the
// API server trusts it as well as the one before.
func (d *deployed) rotated(r *replica, before *x509.Certificate) {
	d.Helper()
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	d.must(d.Client.Get(d.Context(), client.ObjectKey{Name: "capstan-core"}, config))
	trusted, err := certs.ParseCertificates(config.Webhooks[0].ClientConfig.CABundle)
	d.must(err)
	if len(trusted) != 2 || !slices.ContainsFunc(trusted, before.Equal) {
		d.Fatalf("the API server trusts %d authorities, want that before and the next", len(trusted))
	}
	pool := x509.NewCertPool()
	for _, cert := range trusted {
		if !cert.Equal(before) {
			pool.AddCert(cert)
		}
	}
	conn, err := tls.Dial("tcp", r.at["webhooks"], &tls.Config{RootCAs: pool, ServerName: "capstan-webhooks." + managers + ".svc"})
	d.must(err)
	d.must(conn.Close())
}
