// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ProbeResult is the result of a probe.
type ProbeResult int

// A probe is undecided until one of its thresholds is reached.
const (
	Undecided ProbeResult = iota
	Passed
	Failed
)

// Probe counts the answers of a probe. Create it with NewProbe.
type Probe struct {
	success, failure int // thresholds
	passed, failed   int // in a row
	verdict          ProbeResult
}

// NewProbe creates the counters for a probe of a container.
func NewProbe(p *corev1.Probe) Probe {
	return Probe{success: max(1, int(p.SuccessThreshold)), failure: int(cmp.Or(max(0, p.FailureThreshold), 3))}
}

// Answer adds an answer, and returns the current result.
func (p *Probe) Answer(ok bool) ProbeResult {
	if ok {
		p.passed, p.failed = p.passed+1, 0
	} else {
		p.passed, p.failed = 0, p.failed+1
	}
	switch {
	case p.passed >= p.success:
		p.verdict = Passed
	case p.failed >= p.failure:
		p.verdict = Failed
	}
	return p.verdict
}

// Timing is when a probe runs.
type Timing struct{ Delay, Period, Timeout time.Duration }

// TimingOf is the timing of a probe of a container.
func TimingOf(p *corev1.Probe) Timing {
	return Timing{
		Delay:   time.Duration(p.InitialDelaySeconds) * time.Second,
		Period:  time.Duration(cmp.Or(max(0, p.PeriodSeconds), 10)) * time.Second,
		Timeout: time.Duration(cmp.Or(max(0, p.TimeoutSeconds), 1)) * time.Second,
	}
}

// Soon is how long a readiness probe that has never passed waits after that many
// answers: a container that is ready is reported within moments then, and not a period
// later, and until then failures have no effect.
func (t Timing) Soon(answers int) time.Duration {
	const first, doublings = 100 * time.Millisecond, 12 // longer than every usual period
	return min(t.Period, first<<min(answers-1, doublings))
}

// GraceOf is how long a container has to exit after a probe has failed: as set in the
// probe, or in its Pod. Without a probe it is that of the Pod.
func GraceOf(pod *corev1.Pod, p *corev1.Probe) time.Duration {
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		return time.Duration(*p.TerminationGracePeriodSeconds) * time.Second
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}
