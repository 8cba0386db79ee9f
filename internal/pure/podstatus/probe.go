// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Verdict is what a probe's answers mean.
type Verdict int

// A probe says nothing until its threshold is reached, the one way or the other.
const (
	Undecided Verdict = iota
	Passed
	Failed
)

// Probe counts the answers of a probe. Make it with NewProbe.
type Probe struct {
	success, failure int // thresholds
	passed, failed   int // in a row
	verdict          Verdict
}

// NewProbe begins to count for a probe of a container.
func NewProbe(p *corev1.Probe) Probe {
	return Probe{success: max(1, int(p.SuccessThreshold)), failure: or(p.FailureThreshold, 3)}
}

// Answer adds an answer, and returns what they mean now.
func (p *Probe) Answer(ok bool) Verdict {
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

// Timing is when a probe asks.
type Timing struct{ Delay, Period, Timeout time.Duration }

// TimingOf is that of a probe of a container.
func TimingOf(p *corev1.Probe) Timing {
	return Timing{
		Delay:   time.Duration(p.InitialDelaySeconds) * time.Second,
		Period:  time.Duration(or(p.PeriodSeconds, 10)) * time.Second,
		Timeout: time.Duration(or(p.TimeoutSeconds, 1)) * time.Second,
	}
}

// Soon is how long a readiness probe that has never passed waits after so many
// answers: what is ready shows it within moments then, and not a period later, and
// until then its failures say nothing.
func (t Timing) Soon(answers int) time.Duration {
	const first, doublings = 100 * time.Millisecond, 12 // past every period that is usual
	return min(t.Period, first<<min(answers-1, doublings))
}

// GraceOf is how long a container has to end after a probe has failed: what the
// probe says, or its Pod. Without a probe it is what the Pod says.
func GraceOf(pod *corev1.Pod, p *corev1.Probe) time.Duration {
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		return time.Duration(*p.TerminationGracePeriodSeconds) * time.Second
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

func or(n int32, fallback int) int {
	if n > 0 {
		return int(n)
	}
	return fallback
}
