// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/podforward"
)

// noted are the ends of certificates that are noted, by KubeadmConfig.
func (l *lab) noted() map[string]string {
	l.Helper()
	var all bootstrapv1.KubeadmConfigList
	l.must(l.Mgmt.List(l.Context(), &all))
	noted := map[string]string{}
	for _, c := range all.Items {
		noted[c.Name] = c.Annotations["machine.cluster.x-k8s.io/certificates-expiry"]
	}
	return noted
}

func TestTheEndOfCertificatesIsNotedOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.ends = map[string]time.Time{}
	want := map[string]string{}
	for n := range 3 {
		name := fmt.Sprintf("cp-%d", n+1)
		l.ends["node-"+name] = time.Date(2027, 1, n+1, 12, 0, 0, 0, time.FixedZone("", 3600))
		want[name] = fmt.Sprintf("2027-01-0%dT11:00:00Z", n+1)
	}
	l.settle()
	if diff := cmp.Diff(want, l.noted()); diff != "" || l.looks.Load() != 3 {
		t.Errorf("%d looks, noted (-want +got):\n%s", l.looks.Load(), diff)
	}
	before := l.writes
	l.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.ObjectMeta.Annotations = map[string]string{"note": "1"}
	})
	l.settle()
	l.Forget(client.ObjectKey{Namespace: namespace, Name: "cp"}) // as a restart does
	l.settle()
	if diff := cmp.Diff(want, l.noted()); diff != "" || l.looks.Load() != 3 || l.writes == before {
		t.Errorf("after a change and a restart: %d looks, noted (-want +got):\n%s", l.looks.Load(), diff)
	}
}

func TestUnreadableCertificateIsRetriedLater(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		unread error
		again  bool
	}{
		"because no server answered":                      {errors.New("connection refused"), true},
		"because another server's certificate is foreign": {fmt.Errorf("look: %w", podforward.ErrForeign), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 1)
			l.unread = tc.unread
			l.settle()
			l.want(l.controlPlane(), "Available True Available")
			res, err := l.once()
			if err != nil || l.looks.Load() != 1 || tc.again != (res.RequeueAfter == repairInterval) {
				t.Errorf("%d looks, again after %s, error %v", l.looks.Load(), res.RequeueAfter, err)
			}
			l.unread = nil
			l.clock.Step(repairInterval)
			l.settle()
			if noted := l.noted()["cp-1"] != ""; noted != tc.again {
				t.Errorf("noted after a while: %v, want %v", noted, tc.again)
			}
		})
	}
}

func TestMachinesWhoseCertificatesEndAreReplacedInTime(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1, func(_ *clusterv1.Cluster, kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Rollout.Before.CertificatesExpiryDays = 10
	})
	end := l.clock.Now().AddDate(0, 0, 30).Truncate(time.Second)
	l.ends = map[string]time.Time{"node-cp-1": end}
	l.settle()
	m := l.machines()[0]
	l.status(m, func() { m.Status.CertificatesExpiryDate = metav1.NewTime(end) }) // as the Machine's controller does
	l.clock.SetTime(end.AddDate(0, 0, -10).Add(-time.Minute))
	if res, err := l.once(); err != nil || res.RequeueAfter != time.Minute {
		t.Errorf("a minute before it is due it reconciles after %s, error %v", res.RequeueAfter, err)
	}
	l.clock.SetTime(end.AddDate(0, 0, -10).Add(time.Second))
	l.said = nil
	l.settle()
	if l.looks.Load() != 3 {
		t.Errorf("%d looks, want one more before the machine goes, and one at its successor", l.looks.Load())
	}
	if diff := cmp.Diff([]string{"create a machine that joins: 1 of 1 are not up to date", "delete cp-1: 1 of 2 are not up to date"}, l.said); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
}

func TestCertificatesThatWereRenewedSaveTheirMachine(t *testing.T) {
	t.Parallel()
	for name, days := range map[string]int32{"before they end": 10, "without a rollout": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 1, func(_ *clusterv1.Cluster, kcp *controlplanev1.KubeadmControlPlane) {
				kcp.Spec.Rollout.Before.CertificatesExpiryDays = days
			})
			end := l.clock.Now().AddDate(0, 0, 30).Truncate(time.Second)
			l.ends = map[string]time.Time{"node-cp-1": end}
			l.settle()
			m := l.machines()[0]
			l.status(m, func() { m.Status.CertificatesExpiryDate = metav1.NewTime(end) })
			renewed := end.AddDate(1, 0, 0)
			l.ends["node-cp-1"] = renewed // kubeadm certs renew, on the machine
			l.clock.SetTime(end.AddDate(0, 0, -int(days)).Add(-time.Minute))
			if res, err := l.once(); err != nil || res.RequeueAfter != time.Minute || l.looks.Load() != 1 {
				t.Errorf("a minute before it reconciles after %s, with %d checks, error %v", res.RequeueAfter, l.looks.Load(), err)
			}
			l.clock.SetTime(end.AddDate(0, 0, -int(days)))
			l.said = nil
			if _, err := l.once(); err != nil {
				t.Error(err)
			}
			if noted, want := l.noted()["cp-1"], renewed.UTC().Format(time.RFC3339); noted != want || len(l.said) > 0 {
				t.Errorf("noted %s, want %s; events %q", noted, want, l.said)
			}
			m = l.machines()[0]
			l.status(m, func() { m.Status.CertificatesExpiryDate = metav1.NewTime(renewed) })
			l.settle()
			if l.looks.Load() != 2 || len(l.said) > 0 {
				t.Errorf("%d looks; events %q", l.looks.Load(), l.said)
			}
		})
	}
}
