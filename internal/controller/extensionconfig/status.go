// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
)

const (
	// maxMessage is what a condition's message may have, and maxNote an event's.
	maxMessage = 32768
	maxNote    = 1024
)

// state is what one reconcile knows.
type state struct {
	config *runtimev1.ExtensionConfig
	before *runtimev1.ExtensionConfig // as it was read
	now    time.Time
	failed error  // why the handlers are not known to be those of now
	where  string // with failed: the certificate authority is not where it should be
}

func observe(config *runtimev1.ExtensionConfig, now time.Time) *state {
	return &state{config: config, before: config.DeepCopy(), now: now}
}

func (s *state) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// misplaced notes why there is no certificate authority to inject.
func (s *state) misplaced(err error) {
	s.fail(err)
	s.where = err.Error()
}

func (s *state) known() bool { return known(s.config) }

// known reports whether the extension was ever discovered. It may have no
// handler at all.
func known(config *runtimev1.ExtensionConfig) bool {
	return len(config.Status.Handlers) > 0 || conditions.IsTrue(config, runtimev1.ExtensionConfigDiscoveredCondition)
}

func (s *state) inputs() inputs {
	return inputs{s.config.UID, s.generation(), fmt.Sprint(s.config.Annotations), s.where} // maps print sorted
}

// generation is the one of the spec as it will be stored.
func (s *state) generation() int64 {
	return patch.Generation(s.config, &s.before.Spec, s.config.Spec)
}

func (s *state) set(c metav1.Condition) {
	c.ObservedGeneration = s.generation()
	conditions.Set(s.config, s.now, c)
}

// report fills the conditions from the state. It is pure. deprecated says which
// handlers answer deprecated versions of hooks.
func report(s *state, deprecated []string) {
	s.set(discovered(s))
	s.set(hookVersions(s, deprecated))
	s.set(pause.Condition(nil, s.config))
}

func discovered(s *state) metav1.Condition {
	if s.failed != nil {
		return conditions.New(runtimev1.ExtensionConfigDiscoveredCondition, metav1.ConditionFalse, runtimev1.ExtensionConfigNotDiscoveredReason, message(s.failed))
	}
	return conditions.New(runtimev1.ExtensionConfigDiscoveredCondition, metav1.ConditionTrue, runtimev1.ExtensionConfigDiscoveredReason, "")
}

func hookVersions(s *state, deprecated []string) metav1.Condition {
	c := conditions.New(runtimev1.ExtensionConfigHookVersionsUpToDateCondition, metav1.ConditionTrue, runtimev1.ExtensionConfigHookVersionsUpToDateReason, "")
	switch {
	case len(deprecated) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, runtimev1.ExtensionConfigHookVersionsNotUpToDateReason
		c.Message = shorten(strings.Join(deprecated, "\n"), maxMessage)
	case !s.known() && s.failed != nil:
		c.Status, c.Reason = metav1.ConditionUnknown, runtimev1.ExtensionConfigHookVersionsUpToDateUnknownReason
		c.Message = "Waiting for the extension to be discovered"
	}
	return c
}

// passing is what differs between two errors with one cause: the port we called
// from, the time, and how much came.
var passing = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(read|write) (tcp|udp)[46]? \S+->`), "$1 $2 "},
	{regexp.MustCompile(`current time \S+ is (before|after)`), "now is $1"},
	{regexp.MustCompile(`after [1-9]\d* bytes`), "after some bytes"},
}

// message is the text of an error, the same for the same cause: a condition
// that changes is a write, and wakes all who watch.
func message(err error) string {
	text := err.Error()
	for _, p := range passing {
		text = p.pattern.ReplaceAllString(text, p.instead)
	}
	return shorten(text, maxMessage)
}

// shorten cuts a text to a number of bytes.
func shorten(text string, limit int) string {
	const more = " …"
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(more)], "") + more
}

// tell says what has changed, as an event and in the log, once.
func (r *Reconciler) tell(ctx context.Context, s *state) {
	log := ctrl.LoggerFrom(ctx)
	if s.failed != nil {
		why := message(s.failed)
		if conditions.IsFalse(s.before, runtimev1.ExtensionConfigDiscoveredCondition) && conditions.Message(s.before, runtimev1.ExtensionConfigDiscoveredCondition) == why {
			log.V(2).Info("Discovering the extension again later", "reason", why)
			return
		}
		log.Info("Keeping what is known of an extension that cannot be discovered", "reason", why)
		r.Recorder.Eventf(s.config, nil, corev1.EventTypeWarning, "DiscoveryFailed", "Discover", "%s", shorten(why, maxNote))
		return
	}
	handlers := s.config.Status.Handlers
	if conditions.IsTrue(s.before, runtimev1.ExtensionConfigDiscoveredCondition) && equality.Semantic.DeepEqual(s.before.Status.Handlers, handlers) {
		return
	}
	names := make([]string, 0, len(handlers))
	for _, h := range handlers {
		names = append(names, h.Name)
	}
	found := "no handlers"
	if len(names) > 0 {
		found = fmt.Sprintf("%d handlers: %s", len(names), conditions.Names(names))
	}
	log.Info("Registering what the extension can do", "handlers", names)
	r.Recorder.Eventf(s.config, nil, corev1.EventTypeNormal, "Discovered", "Discover", "%s", shorten("Discovered "+found, maxNote))
}
