// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
)

// restart changes l to a process that has just started, and that is not connected
// to the workload cluster yet.
func (l *lab) restart() {
	l.clock.Step(time.Hour)
	l.down, l.lost, l.start, l.why = true, time.Time{}, l.clock.Now(), nil
	l.Forget(client.ObjectKey{Namespace: namespace, Name: "cp"})
}

func TestARestartWritesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	before := l.writes
	l.restart()
	res, err := l.once()
	if err != nil || l.writes != before || res.RequeueAfter != controlplane.ConnectionGrace {
		t.Errorf("%d writes, requeue after %s, error %v; want none, and a requeue when the grace ends", l.writes-before, res.RequeueAfter, err)
	}
	l.clock.Step(2 * time.Second)
	l.down = false
	if _, err := l.once(); err != nil || l.writes != before {
		t.Errorf("%d writes once connected, error %v; want none", l.writes-before, err)
	}
}

func TestAClusterThatIsGoneAfterARestartIsReportedAfterAWhile(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	l.restart()
	since := l.start.UTC().Format(time.RFC3339)
	l.clock.Step(controlplane.ConnectionGrace)
	l.settle()
	l.want(l.controlPlane(), "Available Unknown InspectionFailed", "EtcdClusterHealthy Unknown ConnectionDown", "ControlPlaneComponentsHealthy Unknown ConnectionDown")
	l.want(l.machines()[0], "APIServerPodHealthy Unknown ConnectionDown")
	said := func() string {
		return conditions.Message(l.machines()[0], controlplanev1.KubeadmControlPlaneMachineEtcdPodHealthyCondition)
	}
	if got, want := said(), "No successful probe since "+since; got != want {
		t.Errorf("message %q, want %q", got, want)
	}

	before := l.writes
	l.restart()
	l.clock.Step(2 * controlplane.ConnectionGrace)
	if _, err := l.once(); err != nil || l.writes != before {
		t.Errorf("%d writes after the next restart, error %v; want none: since when is known already", l.writes-before, err)
	}
	l.down = false
	l.settle()
	l.want(l.controlPlane(), "Available True Available", "EtcdClusterHealthy True Healthy")
}

func TestARestartDoesNotForgetWhatAControlPlaneWaitsFor(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.down, l.why, l.stuck["cp-1"] = true, errors.New("connection refused"), true
	l.settle()
	l.clock.Step(2 * controlplane.FirstContact)
	l.settle()
	if got, want := conditions.Message(l.controlPlane(), "Initialized"), "Waiting for the workload cluster to answer: connection refused"; got != want {
		t.Fatalf("message %q, want %q", got, want)
	}
	before := l.writes
	l.restart()
	if _, err := l.once(); err != nil || l.writes != before {
		t.Errorf("%d writes, error %v; want none", l.writes-before, err)
	}
}

func TestAnOrderOfACheckThatHasGoneIsNotFollowed(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	l.said = nil
	l.markForRemediation("cp-2")
	m := l.machines()[1]
	l.status(m, func() {
		c := *conditions.Get(m, clusterv1.MachineHealthCheckSucceededCondition)
		c.Message = "Node node-cp-2 has been deleted (MachineHealthCheck gone)"
		conditions.Set(m, l.clock.Now(), c)
	})
	l.settle()
	if len(l.said) > 0 {
		t.Errorf("events %q", l.said)
	}
}
