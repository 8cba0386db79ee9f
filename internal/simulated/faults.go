// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
)

// clockSkew is how far the clock of an API server is ahead. It is longer than the
// lifetime of a token, and than new certificates are valid before their creation.
const clockSkew = time.Hour

func (c *cluster) has(f infrav1.ClusterFault) bool { return slices.Contains(c.record.Faults, f) }

// off reports whether nothing runs on the machine: it has no power, or nothing to
// start from.
func (m *machine) off() bool { return m.Lost || m.has(infrav1.MachineFaultPoweredOff) }

// serverFault returns the API server's fault that follows from the cluster's faults and
// from a full etcd; its clock follows them too. Called with the lock.
func (c *cluster) serverFault() (answer apiserver.Fault) {
	for fault, way := range map[infrav1.ClusterFault]apiserver.Fault{
		infrav1.ClusterFaultAPIServerRefuses: apiserver.Refuse,
		infrav1.ClusterFaultAPIServerHangs:   apiserver.Hang,
		infrav1.ClusterFaultAPIServerSlow:    apiserver.Slow,
		infrav1.ClusterFaultWatchesLost:      apiserver.CutWatches,
	} {
		if c.has(fault) {
			answer |= way
		}
	}
	if e := c.members.Load(); e != nil && e.Full() {
		answer |= apiserver.Full
	}
	var skew time.Duration
	if c.has(infrav1.ClusterFaultClockAhead) {
		skew += clockSkew
	}
	if c.has(infrav1.ClusterFaultClockBehind) {
		skew -= clockSkew
	}
	c.skew.Store(int64(skew))
	return answer
}

// skewed is a clock that is wrong.
type skewed struct {
	clock.PassiveClock
	by *atomic.Int64
}

// Now implements clock.PassiveClock.
func (s skewed) Now() time.Time { return s.PassiveClock.Now().Add(time.Duration(s.by.Load())) }

// Since implements clock.PassiveClock.
func (s skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }
