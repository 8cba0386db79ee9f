// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/testenv"
)

const rolled = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  progressDeadlineSeconds: 3600
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: IMAGE, readinessProbe: {tcpSocket: {port: 7000}, periodSeconds: 1}}]
`

// TestDeploymentsRollForwardAndBack: an update has a new Pod ready before an old
// one is deleted; one that never is ready is reported at its deadline, does not
// change the old Pods, and can be undone.
func TestDeploymentsRollForwardAndBack(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	b := newBoxLab(t)
	b.create(rolled)
	b.rolls("rollout", "status", "deployment/web", timeout())
	least := b.leastAvailable("web")
	first := b.pods("app=web")

	b.rolls("set", "env", "deployment/web", "RELEASE=2")
	b.rolls("rollout", "status", "deployment/web", timeout())
	b.rolls("wait", "--for=delete", timeout(), "pod/"+first[0], "pod/"+first[1])
	second := b.pods("app=web")

	// Only this update has a deadline that a busy machine cannot meet: it never succeeds.
	b.rolls("patch", "deployment", "web", "--type=json", `--patch=[{"op": "replace", "path": "/spec/progressDeadlineSeconds", "value": 3},
		{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": ["exit", "3"]}]`)
	if out, code := b.does("rollout", "status", "deployment/web", timeout()); code == 0 || !strings.Contains(out, "exceeded its progress deadline") {
		t.Errorf("the status of an update that fails: %d, %q", code, out)
	}
	if now := b.pods("app=web"); len(now) != 3 || !slices.Contains(now, second[0]) || !slices.Contains(now, second[1]) {
		t.Errorf("while an update fails there are %v, want %v and one more", now, second)
	}
	b.rolls("patch", "deployment", "web", "--type=merge", `--patch={"spec": {"progressDeadlineSeconds": 3600}}`)
	b.rolls("rollout", "undo", "deployment/web")
	b.rolls("rollout", "status", "deployment/web", timeout())
	b.rolls("wait", "--for=jsonpath={.status.replicas}=2", timeout(), "deployment/web")
	if now := b.pods("app=web"); !slices.Equal(now, second) {
		t.Errorf("after it was undone there are %v, want %v", now, second)
	}
	if n := least(); n < 2 {
		t.Errorf("while it was updated %d of 2 were available", n)
	}

	b.rolls("scale", "deployment/web", "--replicas=0")
	b.rolls("wait", "--for=delete", timeout(), "pods", "--selector=app=web")
	b.rolls("scale", "deployment/web", "--replicas=1")
	b.rolls("rollout", "restart", "deployment/web")
	b.rolls("rollout", "status", "deployment/web", timeout())
	b.rolls("delete", "deployment", "web", "--cascade=foreground", timeout())
	if now := b.pods("app=web"); len(now) > 0 {
		t.Errorf("after their Deployment is gone there are %v", now)
	}
}

// rolls runs kubectl, which must succeed.
func (b *boxLab) rolls(args ...string) {
	b.Helper()
	if out, code := b.does(args...); code != 0 {
		b.Fatalf("kubectl %q returned %d: %s", args, code, out)
	}
}

// pods are the names of the Pods of a selector that no one has deleted, sorted.
func (b *boxLab) pods(selector string) (names []string) {
	b.Helper()
	all, err := b.typed.CoreV1().Pods("default").List(b.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range all.Items {
		if p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// leastAvailable watches a Deployment from now on. The returned function ends that,
// and returns how few Pods were available.
func (b *boxLab) leastAvailable(name string) (end func() int32) {
	b.Helper()
	w, err := b.typed.AppsV1().Deployments("default").Watch(b.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	least := make(chan int32, 1)
	go func() {
		n, seen := int32(0), false
		for e := range w.ResultChan() {
			if d, ok := e.Object.(*appsv1.Deployment); ok && (!seen || d.Status.AvailableReplicas < n) {
				n, seen = d.Status.AvailableReplicas, true
			}
		}
		least <- n
	}()
	return func() int32 { w.Stop(); return <-least }
}
