// SPDX-License-Identifier: Apache-2.0

package kubecontrollers

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// settles is for how long after the last change of a definition discovery is read
// again.
const settles = 5 * time.Second

// Discovery answers from memory unless a definition has just changed.
type Discovery struct {
	discovery.ServerResourcesInterface
	now func() time.Time

	mu      sync.Mutex // guards what follows
	changed time.Time
	answer  []*metav1.APIResourceList
}

// NewDiscovery returns what reads from discovery, by a clock.
func NewDiscovery(of discovery.ServerResourcesInterface, now func() time.Time) *Discovery {
	return &Discovery{ServerResourcesInterface: of, now: now}
}

// Mark notes a change of a definition.
func (d *Discovery) Mark() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = d.now()
}

// ServerPreferredResources implements discovery.ServerResourcesInterface.
func (d *Discovery) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	d.mu.Lock()
	fresh, answer := d.now().Sub(d.changed) > settles, d.answer
	d.mu.Unlock()
	if fresh && answer != nil {
		return answer, nil
	}
	answer, err := d.ServerResourcesInterface.ServerPreferredResources()
	if err == nil { // a partial answer is requested again
		d.mu.Lock()
		d.answer = answer
		d.mu.Unlock()
	}
	return answer, err
}
