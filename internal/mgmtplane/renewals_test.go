// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestRenewalsOfALeaseDoNotReadEtcd renews a Lease as controllers with leader
// election do. The API server's own metrics count the reads of etcd.
func TestRenewalsOfALeaseDoNotReadEtcd(t *testing.T) {
	const renewals = 20
	typed, err := kubernetes.NewForConfig(startPlane(t, Options{}).Config())
	if err != nil {
		t.Fatal(err)
	}
	leases := typed.CoordinationV1().Leases(metav1.NamespaceDefault)
	lease, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "manager"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The watch reports what the cache has received.
	seen, err := leases.Watch(t.Context(), metav1.ListOptions{ResourceVersion: lease.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()
	renew := func() {
		t.Helper()
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		if lease, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		for told := range seen.ResultChan() {
			if l, ok := told.Object.(*coordinationv1.Lease); ok && l.ResourceVersion == lease.ResourceVersion {
				return
			}
		}
		t.Fatal("the watch has ended")
	}
	renew() // the cache may not have started before
	before := leaseReads(t, typed)
	for range renewals {
		renew()
	}
	if after := leaseReads(t, typed); after != before {
		t.Errorf("%d renewals have read etcd %d times, want none", renewals, after-before)
	}
}

// leaseReads returns how often Leases were read from etcd.
func leaseReads(t *testing.T, typed kubernetes.Interface) (sum int) {
	t.Helper()
	metrics, err := typed.CoordinationV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	known := false
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		labels, value, _ := strings.Cut(lines.Text(), "} ")
		if !strings.HasPrefix(labels, "etcd_requests_total{") || !strings.Contains(labels, `resource="leases"`) {
			continue
		}
		known = true
		if strings.Contains(labels, `operation="get"`) {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	if err := lines.Err(); err != nil || !known {
		t.Fatalf("the API server does not count its requests to etcd for Leases: %v", err)
	}
	return sum
}
