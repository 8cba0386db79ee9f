// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// mistakes are each made in a separate namespace, with a cluster c.
var mistakes = map[string]struct {
	make func(fleet)
	told []told
	late bool        // it is made when its turn comes
	mend func(fleet) // follows the remedy of the message, which must help
}{
	"an infrastructure object that does not exist": {
		make: func(f fleet) { f.createBut("LocalCluster c") },
		told: []told{{"Cluster c", clusterv1.ClusterInfrastructureReadyCondition, "LocalCluster c does not exist: create it, or correct spec.infrastructureRef"}},
		mend: func(f fleet) { f.supply("LocalCluster c"); f.becomes("c") },
	},
	"a control plane object that does not exist": {
		make: func(f fleet) { f.createBut("KubeadmControlPlane c-control-plane") },
		told: []told{{"Cluster c", clusterv1.ClusterControlPlaneAvailableCondition, "KubeadmControlPlane c-control-plane does not exist: create it, or correct spec.controlPlaneRef"}},
		mend: func(f fleet) { f.supply("KubeadmControlPlane c-control-plane"); f.becomes("c") },
	},
	"a template of the control plane that does not exist": {
		make: func(f fleet) { f.createBut("LocalMachineTemplate c-control-plane") },
		told: []told{{"KubeadmControlPlane c-control-plane", clusterv1.ScalingUpCondition, "LocalMachineTemplate c-control-plane, named by spec.machineTemplate.spec.infrastructureRef, does not exist: create it"}},
		mend: func(f fleet) { f.supply("LocalMachineTemplate c-control-plane"); f.becomes("c") },
	},
	"a template of the workers that does not exist": {
		make: func(f fleet) { f.createBut("LocalMachineTemplate c-workers") },
		told: []told{{"MachineDeployment c-workers", clusterv1.ScalingUpCondition, "LocalMachineTemplate c-workers, named by spec.template.spec.infrastructureRef, does not exist: create it"}},
		mend: func(f fleet) { f.supply("LocalMachineTemplate c-workers"); f.becomes("c") },
	},
	"a bootstrap template that does not exist": {
		make: func(f fleet) { f.createBut("KubeadmConfigTemplate c-workers") },
		told: []told{{"MachineDeployment c-workers", clusterv1.ScalingUpCondition, "KubeadmConfigTemplate c-workers, named by spec.template.spec.bootstrap.configRef, does not exist: create it"}},
		mend: func(f fleet) { f.supply("KubeadmConfigTemplate c-workers"); f.becomes("c") },
	},
	"a kind without a CRD": {
		make: func(f fleet) {
			f.create("c", shape{change: func(obj client.Object) {
				if c, ok := obj.(*clusterv1.Cluster); ok {
					c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "nowhere.example.com", Kind: "NowhereCluster", Name: "c"}
				}
			}})
		},
		told: []told{{"Cluster c", clusterv1.ClusterInfrastructureReadyCondition, "there is no CRD nowhereclusters.nowhere.example.com: install the provider"}},
	},
	"a kind whose CRD has no contract label": {
		make: func(f fleet) {
			group := f.unlabelled()
			f.create("c", shape{change: func(obj client.Object) {
				if c, ok := obj.(*clusterv1.Cluster); ok {
					c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "StrangeCluster", Name: "c"}
				}
			}})
		},
		told: []told{{"Cluster c", clusterv1.ClusterInfrastructureReadyCondition, ": no label cluster.x-k8s.io/v1beta2 or cluster.x-k8s.io/v1beta1 lists the API versions that follow the contract: install"}},
		mend: func(f fleet) {
			c := &clusterv1.Cluster{}
			f.must(f.Client.Get(f.Context(), f.key("c"), c))
			f.must(f.Client.Delete(f.Context(), c))
			f.eventually(func() error {
				return f.says(c, clusterv1.DeletingCondition, "True", "no label cluster.x-k8s.io/v1beta2")
			})
			crd := &apiextensionsv1.CustomResourceDefinition{}
			f.must(f.Client.Get(f.Context(), client.ObjectKey{Name: "strangeclusters." + f.Namespace + ".example.com"}, crd))
			crd.Labels = map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}
			f.must(f.Client.Update(f.Context(), crd))
		},
	},
	"a Machine of a kind without a CRD": {
		make: func(f fleet) {
			f.create("c", shape{})
			m := f.machine("lone")
			m.Spec.ClusterName = "c"
			m.Spec.Bootstrap.DataSecretName = new("lone")
			m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "nowhere.example.com", Kind: "NowhereMachine", Name: "c"}
			f.must(f.Client.Create(f.Context(), m))
		},
		told: []told{{"Machine lone", clusterv1.InfrastructureReadyCondition, "spec.infrastructureRef: kind NowhereMachine.nowhere.example.com: there is no CRD nowheremachines.nowhere.example.com: install the provider"}},
	},
	"workers of a cluster that does not exist": {
		make: func(f fleet) { f.createBut("Cluster c") },
		told: []told{{"MachineDeployment c-workers", clusterv1.ScalingUpCondition, "Cluster c, named by spec.clusterName, does not exist: create it, or correct the field"}},
		mend: func(f fleet) { f.supply("Cluster c"); f.becomes("c") },
	},
	"a Machine whose bootstrap object does not exist": {
		make: func(f fleet) {
			f.create("c", shape{})
			m := f.machine("lone")
			m.Spec.ClusterName = "c"
			m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion().Group, Kind: "KubeadmConfig", Name: "nowhere"}
			m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion().Group, Kind: "LocalMachine", Name: "nowhere"}
			f.must(f.Client.Create(f.Context(), m))
		},
		told: []told{
			{"Machine lone", clusterv1.BootstrapConfigReadyCondition, "KubeadmConfig nowhere does not exist: create it, or correct the reference"},
			{"Machine lone", clusterv1.InfrastructureReadyCondition, "LocalMachine nowhere does not exist: create it, or correct the reference"},
		},
	},
	"rubbish for a kubeconfig": {
		make: func(f fleet) {
			f.must(f.Client.Create(f.Context(), kubeconfig.Secret(f.named("c"), []byte("rubbish: ["), nil)))
			f.create("c", shape{workers: 1})
		},
		told: []told{{"Cluster c", clusterv1.ClusterRemoteConnectionProbeCondition, `/c-kubeconfig, key "value": `}},
		mend: func(f fleet) { f.deleteSecret(certs.Kubeconfig); f.becomes("c") },
	},
	"rubbish for the certificate authority": {
		make: func(f fleet) {
			s := certs.Pair{Cert: []byte("rubbish"), Key: []byte("rubbish")}.Secret(f.named("c"), certs.CA, nil)
			f.must(f.Client.Create(f.Context(), s))
			f.create("c", shape{workers: 1})
		},
		told: []told{{"KubeadmControlPlane c-control-plane", controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition, `/c-ca, key "tls.crt": it holds no PEM block of the expected kind; put the PEM encoded certificate`}},
		mend: func(f fleet) { f.deleteSecret(certs.CA); f.becomes("c") },
	},
	"an API server that answers nonsense": {
		make: func(f fleet) { f.external(f.nonsense()) },
		told: []told{{"Cluster c", clusterv1.ClusterRemoteConnectionProbeCondition, "its answer is not that of a Kubernetes API server"}},
	},
	"an API server that hangs": {
		late: true, // kubeadm gives up after four minutes, and the first machine is not replaced
		make: func(f fleet) {
			f.create("c", shape{workers: 1, change: func(obj client.Object) {
				if lc, ok := obj.(*infrav1.LocalCluster); ok {
					lc.Spec.Simulated.Faults = []infrav1.ClusterFault{infrav1.ClusterFaultAPIServerHangs}
				}
			}})
		},
		told: []told{{"Cluster c", clusterv1.ClusterRemoteConnectionProbeCondition, "6443"}},
		mend: func(f fleet) {
			modify(f, "c", &infrav1.LocalCluster{}, func(lc *infrav1.LocalCluster) { lc.Spec.Simulated.Faults = nil })
			f.becomes("c")
		},
	},
}

// told is a condition that must have a message and not be True.
type told struct{ object, condition, message string }

func TestMistakesAreReportedAndOtherClustersContinue(t *testing.T) {
	t.Parallel()
	fleets := map[string]fleet{}
	for name, m := range mistakes {
		fleets[name] = newFleet(t)
		if !m.late {
			m.make(fleets[name])
		}
	}
	healthy := newFleet(t)
	healthy.create("healthy", shape{workers: 1})
	healthy.becomes("healthy")
	for name, m := range mistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleet{t, fleets[name].Env}
			if m.late {
				m.make(f)
			}
			for _, told := range m.told {
				f.eventually(func() error { return f.reports(told) })
			}
			if m.mend != nil {
				m.mend(f)
			}
			f.remove("c")
		})
	}
}

func (f fleet) reports(want told) error {
	var kind, name string
	if _, err := fmt.Sscan(want.object, &kind, &name); err != nil {
		return err
	}
	obj := map[string]client.Object{"Cluster": &clusterv1.Cluster{}, "Machine": &clusterv1.Machine{}, "MachineDeployment": &clusterv1.MachineDeployment{},
		"KubeadmControlPlane": &controlplanev1.KubeadmControlPlane{}}[kind]
	negative := want.condition == clusterv1.ScalingUpCondition
	status := []string{"False", "Unknown"}
	if negative {
		status = []string{"True"}
	}
	var err error
	for _, s := range status {
		if err = f.says(obj, want.condition, s, want.message, name); err == nil {
			return nil
		}
	}
	return err
}

// createBut creates the cluster c without one of its objects.
func (f fleet) createBut(without string) {
	f.Helper()
	left := false
	for _, obj := range f.objects("c", shape{workers: 1}) {
		gvk, err := f.Client.GroupVersionKindFor(obj)
		f.must(err)
		if gvk.Kind+" "+obj.GetName() == without {
			left = true
			continue
		}
		f.must(f.Client.Create(f.Context(), obj))
	}
	if !left {
		f.Fatalf("there is no %s in the template", without)
	}
}

// supply creates the object that createBut has left out.
func (f fleet) supply(left string) {
	f.Helper()
	for _, obj := range f.objects("c", shape{workers: 1}) {
		gvk, err := f.Client.GroupVersionKindFor(obj)
		f.must(err)
		if gvk.Kind+" "+obj.GetName() == left {
			f.must(f.Client.Create(f.Context(), obj))
		}
	}
}

func (f fleet) deleteSecret(p certs.Purpose) {
	f.Helper()
	s := &corev1.Secret{}
	s.Namespace, s.Name = f.Namespace, certs.SecretName("c", p)
	f.must(f.Client.Delete(f.Context(), s))
}

// unlabelled defines a kind StrangeCluster and returns its group.
func (f fleet) unlabelled() string {
	f.Helper()
	group := f.Namespace + ".example.com"
	crd := testenv.Kind(group, "StrangeCluster")
	crd.Labels = nil
	f.must(f.Client.Create(f.Context(), crd))
	return group
}

// nonsense is an API server of the cluster c, by its certificate, that answers
// every request with the same rubbish.
func (f fleet) nonsense() *httptest.Server {
	f.Helper()
	now := time.Now()
	ca, err := certs.New(certs.CA, certs.ECDSAP256, now, time.Hour)
	f.must(err)
	f.must(f.Client.Create(f.Context(), ca.Secret(f.named("c"), certs.CA, nil)))
	leaf, err := ca.Issue(certs.Leaf{CommonName: "kube-apiserver", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true, Algorithm: certs.ECDSAP256, Now: now, Validity: time.Hour})
	f.must(err)
	cert, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	f.must(err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind": 7, "items": "none", `))
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	s.StartTLS()
	f.Cleanup(s.Close)
	return s
}

// external creates the cluster c from an API server that is externally managed: an
// externally managed LocalCluster and no control plane object.
func (f fleet) external(s *httptest.Server) {
	f.Helper()
	u, err := url.Parse(s.URL)
	f.must(err)
	port, err := strconv.Atoi(u.Port())
	f.must(err)
	for _, obj := range f.objects("c", shape{}) {
		switch o := obj.(type) {
		case *clusterv1.Cluster:
			o.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
			f.must(f.Client.Create(f.Context(), o))
		case *infrav1.LocalCluster:
			o.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "another"}
			o.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: u.Hostname(), Port: int32(port)}
			f.must(f.Client.Create(f.Context(), o))
			o.Status.Initialization.Provisioned = new(true)
			f.must(f.Client.Status().Update(f.Context(), o))
		}
	}
}

func (f fleet) named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: f.Namespace, Name: name}
}

func (f fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}
