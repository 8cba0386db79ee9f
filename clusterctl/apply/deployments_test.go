// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/contract"
)

const other = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: other, namespace: a}, spec: {template: {spec: {containers: [{name: proxy}]}}}}"

func TestManagersAreDeploymentsWithTheContainerOfTheContract(t *testing.T) {
	t.Parallel()
	all := readAll(t, namespace, manager, other, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, namespace: a}, spec: {template: {spec: {containers: [{name: manager}]}}}}")
	if diff := cmp.Diff([]string{"Deployment a/m", "Deployment a/other"}, names(Deployments(all))); diff != "" {
		t.Errorf("Deployments (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Deployment a/m"}, names(Managers(all))); diff != "" {
		t.Errorf("managers (-want +got):\n%s", diff)
	}
}

func TestDeploymentsAreAwaited(t *testing.T) {
	t.Parallel()
	with := func(status string) string { return strings.TrimSuffix(manager, "}") + ", status: " + status + "}" }
	for name, tc := range map[string]struct {
		there []string
		want  string // what is still awaited
	}{
		"until one is available": {[]string{with("{conditions: [{type: Available, status: 'True', reason: Up}]}")}, ""},
		"while one is not":       {[]string{with("{conditions: [{type: Available, status: 'False', reason: Down, message: minimum not met}]}")}, "Deployment a/m: minimum not met"},
		"without a controller":   {[]string{manager}, "Deployment a/m: no controller of Deployments has observed it"},
		"while it is not there":  {nil, "Deployment a/m: it is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				why := errors.New("waited long enough")
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, why)
				defer cancel()
				err := newWorld(t, tc.there...).WaitAvailable(ctx, readAll(t, manager))
				if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, why) || !strings.Contains(err.Error(), "still waiting for:\n* "+tc.want)) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			})
		})
	}
}

func TestPodsOfADeploymentThatIsAwaitedSayWhy(t *testing.T) {
	t.Parallel()
	const selecting = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: m, namespace: a}, spec: {selector: {matchLabels: {app: m}}}, status: {conditions: [{type: Available, status: 'False', reason: Down, message: minimum not met}]}}"
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, selecting,
			"{apiVersion: v1, kind: Pod, metadata: {name: new, namespace: a, labels: {app: m}}, status: {containerStatuses: [{name: manager, state: {waiting: {reason: CrashLoopBackOff, message: 'it wrote last: no key'}}}]}}",
			"{apiVersion: v1, kind: Pod, metadata: {name: old, namespace: a, labels: {app: m}}, status: {conditions: [{type: Ready, status: 'True'}]}}",
			"{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: a, labels: {app: other}}}",
			"{apiVersion: v1, kind: Pod, metadata: {name: elsewhere, namespace: b, labels: {app: m}}}",
		)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("waited long enough"))
		defer cancel()
		const want = "waited long enough\nstill waiting for:\n* Deployment a/m: minimum not met\nPod a/new: container manager: CrashLoopBackOff: it wrote last: no key"
		if err := w.WaitAvailable(ctx, readAll(t, selecting)); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	})
}

func TestControllersAreStoppedAndTheirPodsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		running := strings.TrimSuffix(manager, "}") + ", status: {replicas: 2}}"
		w := newWorld(t, running)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Stop(ctx, readAll(t, manager, other)); err == nil || !strings.Contains(err.Error(), "* Deployment a/m: 2 Pods still run") {
			t.Errorf("got %v, want that Pods still run", err)
		}
		if n, _, err := contract.At[int64]("spec.replicas").Get(w.live(t, read(t, manager))); n != 0 || err != nil || w.times("patch Deployment a/m") != 1 {
			t.Errorf("%d replicas, %v; done %v", n, err, w.done)
		}
		time.AfterFunc(time.Second, func() {
			now := w.live(t, read(t, manager))
			unstructured.RemoveNestedField(now.Object, "status", "replicas")
			if err := w.Client().Status().Update(t.Context(), now); err != nil {
				t.Error(err)
			}
		})
		if err := w.Stop(t.Context(), readAll(t, manager, other)); err != nil {
			t.Error(err)
		}
	})
}
