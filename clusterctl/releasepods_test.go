// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/components"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

// issued are the Secrets that controllers create for the Pods of releases: from
// Certificates.
var issued = map[string]*corev1.Secret{
	"capa-webhook-service-cert": {Data: map[string][]byte{"tls.crt": nil, "tls.key": nil, "ca.crt": nil}},
	"capo-webhook-service-cert": {Data: map[string][]byte{"tls.crt": nil, "tls.key": nil, "ca.crt": nil}},
}

// runs is how the only container of a release runs in a plane.
type runs struct {
	Command []string
	Env     []string // of the container itself
	User    podspec.User
	Mounts  []podspec.Mount
	Files   map[string][]string // by volume
	Stop    int64               // seconds
}

const (
	awsGates       = "EKS=true,EKSEnableIAM=false,EKSAllowAddRoles=false,EKSFargate=false,MachinePool=false,MachinePoolMachines=false,EventBridgeInstanceState=false,AutoControllerIdentityCreator=true,BootstrapFormatIgnition=false,ExternalResourceGC=true,AlternativeGCStrategy=false,TagUnmanagedNetworkResources=true,ROSA=false"
	openstackGates = "PriorityQueue=true,AutoScaleFromZero=false"
	serving        = "/tmp/k8s-webhook-server/serving-certs"
)

// TestPodsOfReleasesRunInAPlane: the plane refuses no field of the Pods of real releases,
// the code that plans them has all fields, and the processes match the Pods.
func TestPodsOfReleasesRunInAPlane(t *testing.T) {
	t.Parallel()
	pair := []string{"ca.crt", "tls.crt", "tls.key"}
	tests := map[string]runs{
		"infrastructure-aws-v2.11.1": {
			Command: []string{"/manager", "--leader-elect", "--feature-gates=" + awsGates, "--v=0", "--diagnostics-address=:8443", "--insecure-diagnostics=false"},
			Env:     []string{"AWS_SHARED_CREDENTIALS_FILE=/home/.aws/credentials"},
			User:    podspec.User{UID: 65532, GID: 65532, Groups: []int64{1000}},
			Mounts:  []podspec.Mount{{Volume: "credentials", Target: "/home/.aws"}, {Volume: "cert", Target: serving, ReadOnly: true}},
			Files:   map[string][]string{"cert": pair, "credentials": {"credentials"}},
			Stop:    10,
		},
		"infrastructure-openstack-v0.14.0": {
			Command: []string{"/manager", "--leader-elect", "--v=2", "--diagnostics-address=127.0.0.1:8080", "--insecure-diagnostics=true", "--feature-gates=" + openstackGates},
			User:    podspec.User{UID: 65532, GID: 65532},
			Mounts:  []podspec.Mount{{Volume: "cert", Target: serving, ReadOnly: true}},
			Files:   map[string][]string{"cert": pair},
			Stop:    10,
		},
	}
	for release := range releases {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			pod, secrets := podOf(t, release)
			node := &corev1.Node{}
			node.Labels = podspec.NodeLabels("plane", "linux", "amd64")
			if refused := append(podspec.Check(pod), podspec.Fits(pod, node)...); len(refused) > 0 {
				t.Errorf("refused: %s", podspec.Describe(refused))
			}
			if diff := cmp.Diff(tests[release], asRun(t, pod, podspec.Facts{Host: podspec.Host{Node: node}, Objects: podspec.Objects{Secrets: secrets}})); diff != "" {
				t.Errorf("what is run (-want +got):\n%s", diff)
			}
		})
	}
}

// podOf returns the Pod of the only workload of a release, and the Secrets that it can
// name.
func podOf(t *testing.T, release string) (pod *corev1.Pod, secrets map[string]*corev1.Secret) {
	t.Helper()
	about := releases[release]
	c, err := components.Load(components.Input{
		Provider: config.Provider{Name: about.name, Type: clusterctlv1.InfrastructureProviderType}, Version: about.version,
		Raw:       unpack(t, release)["infrastructure-components.yaml"],
		Variables: func(name string) (string, bool) { return "ZHVtbXk=", name == "AWS_B64ENCODED_CREDENTIALS" },
	})
	if err != nil {
		t.Fatal(err)
	}
	secrets = maps.Clone(issued)
	kinds := map[string]bool{}
	for _, obj := range c.Objects() {
		kinds[obj.GetKind()] = true
		// Strict: a field that these types lack would be dropped silently.
		switch obj.GetKind() {
		case "Secret":
			s := &corev1.Secret{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, s, true); err != nil {
				t.Fatal(err)
			}
			secrets[s.Name] = s
		case "Deployment":
			d := &appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, d, true); err != nil {
				t.Fatal(err)
			}
			if pod != nil {
				t.Fatalf("%s has a second Deployment, %s", release, d.Name)
			}
			pod = &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec}
			pod.Name, pod.Namespace = d.Name+"-x", d.Namespace
		}
	}
	for _, kind := range []string{"DaemonSet", "StatefulSet", "Job", "CronJob", "ReplicationController", "PersistentVolumeClaim", "HorizontalPodAutoscaler"} {
		if kinds[kind] {
			t.Errorf("%s has a %s, which nothing comes of in a plane", release, kind)
		}
	}
	if pod == nil {
		t.Fatalf("%s has no Deployment", release)
	}
	return pod, secrets
}

func asRun(t *testing.T, pod *corev1.Pod, f podspec.Facts) (r runs) {
	t.Helper()
	all := podspec.Containers(pod)
	if len(all) != 1 {
		t.Fatalf("%d containers, want 1", len(all))
	}
	c, image := all[0], podspec.Image{Entrypoint: []string{"/manager"}, User: "65532"}
	plain, err := podspec.Env(pod, podspec.Container{Container: &corev1.Container{}}, image, f)
	if err != nil {
		t.Fatal(err)
	}
	env, err := podspec.Env(pod, c, image, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range env {
		if !slices.Contains(plain, e) {
			r.Env = append(r.Env, e)
		}
	}
	if r.Command, err = podspec.Command(c.Container, image, env); err != nil {
		t.Fatal(err)
	}
	if r.User, err = podspec.UserOf(pod, c, image, podspec.Accounts{}); err != nil {
		t.Fatal(err)
	}
	if r.Mounts, err = podspec.MountsOf(c, env); err != nil {
		t.Fatal(err)
	}
	r.Files, r.Stop = map[string][]string{}, *pod.Spec.TerminationGracePeriodSeconds
	for _, v := range pod.Spec.Volumes {
		files, err := podspec.Files(pod, v.Name, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			r.Files[v.Name] = append(r.Files[v.Name], file.Path)
		}
		slices.Sort(r.Files[v.Name])
	}
	return r
}
