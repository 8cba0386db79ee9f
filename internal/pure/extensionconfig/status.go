// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

const (
	// maxMessage is the maximum length of a condition's message, and maxNote of an
	// event's.
	maxMessage = 32768
	maxNote    = 1024

	// slowPeriod is how often discovery runs for an extension whose ExtensionConfig does
	// not change: a new release of it may implement other hooks.
	slowPeriod = 10 * time.Minute

	// A failed discovery is retried after firstRetry, doubling, up to lastRetry: an
	// extension often starts together with its ExtensionConfig, and one that stays
	// unavailable does not justify a call a minute.
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute

	// jitter is the fraction by which a wait is randomly longer or shorter.
	jitter = 0.1
)

// Known reports whether the extension was ever discovered. It may have no handler.
func Known(config *runtimev1.ExtensionConfig) bool {
	return len(config.Status.Handlers) > 0 || conditions.IsTrue(config, runtimev1.ExtensionConfigDiscoveredCondition)
}

// Conditions report the result of discovery: failed is why the handlers cannot be
// confirmed as current, old names those that implement deprecated versions of
// hooks.
func Conditions(config *runtimev1.ExtensionConfig, failed error, old []string) []metav1.Condition {
	discovered := conditions.New(runtimev1.ExtensionConfigDiscoveredCondition, metav1.ConditionTrue, runtimev1.ExtensionConfigDiscoveredReason, "")
	if failed != nil {
		discovered = conditions.New(runtimev1.ExtensionConfigDiscoveredCondition, metav1.ConditionFalse, runtimev1.ExtensionConfigNotDiscoveredReason, message(failed))
	}
	versions := conditions.New(runtimev1.ExtensionConfigHookVersionsUpToDateCondition, metav1.ConditionTrue, runtimev1.ExtensionConfigHookVersionsUpToDateReason, "")
	switch {
	case len(old) > 0:
		versions.Status, versions.Reason = metav1.ConditionFalse, runtimev1.ExtensionConfigHookVersionsNotUpToDateReason
		versions.Message = shorten(strings.Join(old, "\n"), maxMessage)
	case failed != nil && !Known(config):
		versions.Status, versions.Reason = metav1.ConditionUnknown, runtimev1.ExtensionConfigHookVersionsUpToDateUnknownReason
		versions.Message = "Waiting for the extension to be discovered"
	}
	return []metav1.Condition{discovered, versions}
}

// DeprecatedStatus is the status for clients of v1beta1, of an ExtensionConfig whose conditions
// are set.
func DeprecatedStatus(config *runtimev1.ExtensionConfig, now time.Time) *runtimev1.ExtensionConfigDeprecatedStatus {
	const t = runtimev1.RuntimeExtensionDiscoveredV1Beta1Condition
	st := ptr.Deref(ptr.Deref(config.Status.Deprecated, runtimev1.ExtensionConfigDeprecatedStatus{}).V1Beta1, runtimev1.ExtensionConfigV1Beta1DeprecatedStatus{})
	c := v1beta1conditions.True(t)
	if why := conditions.Get(config, runtimev1.ExtensionConfigDiscoveredCondition); why != nil && why.Status != metav1.ConditionTrue {
		c = v1beta1conditions.False(t, clusterv1.ConditionSeverityError, runtimev1.DiscoveryFailedV1Beta1Reason, why.Message)
	}
	st.Conditions = v1beta1conditions.Set(st.Conditions, now, c)
	return &runtimev1.ExtensionConfigDeprecatedStatus{V1Beta1: &st}
}

// Event is the content of an event for users.
type Event struct{ Type, Reason, Note string }

// Changed returns what changed in an extension since before; nil if nothing did.
func Changed(before, config *runtimev1.ExtensionConfig, failed error) *Event {
	if failed != nil {
		why := message(failed)
		if conditions.IsFalse(before, runtimev1.ExtensionConfigDiscoveredCondition) && conditions.Message(before, runtimev1.ExtensionConfigDiscoveredCondition) == why {
			return nil
		}
		return &Event{corev1.EventTypeWarning, "DiscoveryFailed", shorten(why, maxNote)}
	}
	handlers := config.Status.Handlers
	if conditions.IsTrue(before, runtimev1.ExtensionConfigDiscoveredCondition) && equality.Semantic.DeepEqual(before.Status.Handlers, handlers) {
		return nil
	}
	names := make([]string, 0, len(handlers))
	for _, h := range handlers {
		names = append(names, h.Name)
	}
	found := "no handlers"
	if len(names) > 0 {
		found = fmt.Sprintf("%d handlers: %s", len(names), conditions.Names(names))
	}
	return &Event{corev1.EventTypeNormal, "Discovered", shorten("Discovered "+found, maxNote)}
}

// AskAgain is the time until the next discovery, after a number of consecutive failures.
// random is in [0,1): it spreads extensions whose discovery ran together.
func AskAgain(failures int, random float64) time.Duration {
	wait := slowPeriod
	if failures > 0 {
		wait = lastRetry
		if doublings := failures - 1; doublings < 20 {
			wait = min(firstRetry<<doublings, lastRetry)
		}
	}
	return time.Duration(float64(wait) * (1 - jitter + 2*jitter*random))
}

// passing is what differs between two errors with one cause: the client's port, the
// time, and the number of bytes received.
var passing = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(read|write) (tcp|udp)[46]? \S+->`), "$1 $2 "},
	{regexp.MustCompile(`current time \S+ is (before|after)`), "now is $1"},
	{regexp.MustCompile(`after [1-9]\d* bytes`), "after some bytes"},
}

// message is the text of an error, the same for the same cause: a changed condition is a
// write, which notifies all watches.
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
