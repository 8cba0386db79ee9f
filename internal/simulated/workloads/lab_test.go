// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/bootstrap"
	"github.com/capstan-dev/capstan/internal/simulated/workloads"
)

// lab is a cluster's objects with controllers that do everything inline.
type lab struct {
	t     *testing.T
	store *objects.Store
	clock *testclock.FakeClock
	work  *workloads.Controllers
	ca    certs.Pair
}

func newLab(t *testing.T, nodes ...string) *lab {
	t.Helper()
	ca, err := certs.New(certs.CA, certs.ECDSAP256, time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC), 0)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, ca: ca, clock: testclock.NewFakeClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))}
	log := testr.NewWithInterface(t, testr.Options{})
	if l.store, err = objects.Open(objects.Options{Clock: l.clock, Log: log}); err != nil {
		t.Fatal(err)
	}
	l.work = workloads.Start(workloads.Options{Store: l.store, Clock: l.clock, Log: log, CA: ca, Inline: true})
	t.Cleanup(l.work.Close)
	for i, name := range nodes {
		l.node(name, i)
	}
	return l
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) node(name string, n int) {
	l.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	node.Status.Capacity, node.Status.Allocatable = bootstrap.Capacity(), bootstrap.Capacity()
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.64.0.%d", n+1)}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	l.must(l.store.Add(node))
}

// ready sets what a kubelet reports of its Node: Unknown once it has stopped.
func (l *lab) ready(name string, status corev1.ConditionStatus) {
	l.t.Helper()
	l.must(objects.Modify(l.store, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(n *corev1.Node) error {
		bootstrap.SetReady(n, status, l.clock.Now())
		return nil
	}))
}

// pass advances the time.
func (l *lab) pass(d time.Duration) {
	l.clock.Step(d)
	l.work.Reconcile()
}

// pods are those of namespace default, as in "web on a: Running, ready".
func (l *lab) pods() []string {
	l.t.Helper()
	var out []string
	for _, p := range load[corev1.Pod](l, "v1/pods", "default") {
		name, node := strings.TrimSuffix(p.GenerateName, "-"), p.Spec.NodeName
		if name == "" {
			name = p.Name
		}
		if node == "" {
			node = "no node"
		}
		line := fmt.Sprintf("%s on %s: %s", name, node, p.Status.Phase)
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				line += ", ready"
			}
		}
		if p.DeletionTimestamp != nil {
			line += ", leaves"
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

func (l *lab) want(what string, got []string, want ...string) {
	l.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		l.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// load reads all objects of a resource, as in "apps/v1/deployments".
func load[T any, P interface {
	*T
	objects.Object
}](l *lab, resource, namespace string) []P {
	l.t.Helper()
	at := strings.LastIndex(resource, "/")
	gv, err := schema.ParseGroupVersion(resource[:at])
	l.must(err)
	all, err := l.store.All(gv.WithResource(resource[at+1:]), namespace, nil)
	l.must(err)
	var out []P
	for _, u := range all {
		obj := P(new(T))
		obj.SetNamespace(u.GetNamespace())
		obj.SetName(u.GetName())
		l.must(l.store.Load(obj))
		out = append(out, obj)
	}
	return out
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }

func template(name, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(name), Template: template(name, "v1")}}
}

// change works on an object as its user does.
func change[T objects.Object](l *lab, obj T, f func(T)) {
	l.t.Helper()
	l.must(objects.Modify(l.store, obj, func(o T) error {
		f(o)
		return nil
	}))
}
