// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// BenchmarkPlan chooses ten of 500 Machines to delete.
func BenchmarkPlan(b *testing.B) {
	f := Facts{Want: 490, Order: clusterv1.NewestMachineSetDeletionOrder}
	for i := range 500 {
		f.Machines = append(f.Machines, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("m-%d", i), CreationTimestamp: metav1.NewTime(time.Unix(int64(i*7919%500), 0)),
		}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if n := len(Plan(f)); n != 10 {
			b.Fatalf("%d actions, want 10", n)
		}
	}
}
