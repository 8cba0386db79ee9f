// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestServicesThatAreMadeAtOnceShareNothing has eight writers fill a small range:
// what one of them is about to take, the others must not.
func TestServicesThatAreMadeAtOnceShareNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	if err := s.Add(&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/26"}}}); err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 5
	var group sync.WaitGroup
	var mu sync.Mutex // guards by
	by := map[string]string{}
	note := func(what string, svc *corev1.Service) {
		mu.Lock()
		defer mu.Unlock()
		if other := by[what]; other != "" {
			t.Errorf("Services %s and %s have %s", other, svc.Name, what)
		}
		by[what] = svc.Name
	}
	for w := range writers {
		group.Go(func() {
			for i := range each {
				svc := &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("s-%d-%d", w, i)},
					Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
				}
				if err := s.Add(svc); err != nil {
					t.Error(err)
					return
				}
				note(svc.Spec.ClusterIP, svc)
				note(fmt.Sprint(svc.Spec.Ports[0].NodePort), svc)
			}
		})
	}
	group.Wait()
}
