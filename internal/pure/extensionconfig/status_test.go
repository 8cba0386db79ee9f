// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/builder"
)

// having builds an ExtensionConfig with handlers of these names.
func having(names ...string) *runtimev1.ExtensionConfig {
	c := &runtimev1.ExtensionConfig{}
	for _, n := range names {
		c.Status.Handlers = append(c.Status.Handlers, runtimev1.ExtensionHandler{Name: n})
	}
	return c
}

// as adds the Discovered condition to an ExtensionConfig.
func as(c *runtimev1.ExtensionConfig, status metav1.ConditionStatus, message string) *runtimev1.ExtensionConfig {
	conditions.Set(c, time.Unix(0, 0), conditions.New(runtimev1.ExtensionConfigDiscoveredCondition, status, "R", message))
	return c
}

func TestConditions(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	for name, tc := range map[string]struct {
		config     *runtimev1.ExtensionConfig
		failed     error
		deprecated []string
		want       []string
	}{
		"discovered":                     {config: having("a.ext"), want: []string{"True Discovered: ", "True UpToDate: "}},
		"failed, and never discovered":   {config: having(), failed: refused, want: []string{"False NotDiscovered: connection refused", "Unknown UpToDateUnknown: Waiting for the extension to be discovered"}},
		"failed, with previous handlers": {config: having("a.ext"), failed: refused, want: []string{"False NotDiscovered: connection refused", "True UpToDate: "}},
		"failed, known to have none":     {config: as(having(), metav1.ConditionTrue, ""), failed: refused, want: []string{"False NotDiscovered: connection refused", "True UpToDate: "}},
		"with old handlers":              {config: having("a.ext"), deprecated: []string{"a is old", "b too"}, want: []string{"True Discovered: ", "False NotUpToDate: a is old\nb too"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, c := range Conditions(tc.config, tc.failed, tc.deprecated) {
				got = append(got, string(c.Status)+" "+c.Reason+": "+c.Message)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeprecatedStatus(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config *runtimev1.ExtensionConfig
		want   string
	}{
		"discovered": {as(having(), metav1.ConditionTrue, ""), "Discovered True"},
		"failed":     {as(having(), metav1.ConditionFalse, "connection refused"), "Discovered False Error DiscoveryFailed: connection refused"},
	} {
		if diff := cmp.Diff([]string{tc.want}, builder.Deprecated(DeprecatedStatus(tc.config, time.Unix(1, 0)).V1Beta1.Conditions)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	for name, tc := range map[string]struct {
		before, config *runtimev1.ExtensionConfig
		failed         error
		want           *Event
	}{
		"discovered for the first time": {having(), having("a.ext", "b.ext"), nil, &Event{"Normal", "Discovered", "Discovered 2 handlers: a.ext, b.ext"}},
		"without handlers":              {having(), having(), nil, &Event{"Normal", "Discovered", "Discovered no handlers"}},
		"the same again":                {as(having("a.ext"), metav1.ConditionTrue, ""), having("a.ext"), nil, nil},
		"other handlers":                {as(having("a.ext"), metav1.ConditionTrue, ""), having("b.ext"), nil, &Event{"Normal", "Discovered", "Discovered 1 handlers: b.ext"}},
		"a failure":                     {as(having("a.ext"), metav1.ConditionTrue, ""), having("a.ext"), refused, &Event{"Warning", "DiscoveryFailed", "connection refused"}},
		"the same failure again":        {as(having(), metav1.ConditionFalse, "connection refused"), having(), refused, nil},
		"another failure":               {as(having(), metav1.ConditionFalse, "timeout"), having(), refused, &Event{"Warning", "DiscoveryFailed", "connection refused"}},
		"after a failure":               {as(having("a.ext"), metav1.ConditionFalse, "timeout"), having("a.ext"), nil, &Event{"Normal", "Discovered", "Discovered 1 handlers: a.ext"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Changed(tc.before, tc.config, tc.failed)); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNotesAndMessagesAreCut(t *testing.T) {
	t.Parallel()
	long := errors.New(strings.Repeat("ä", 20000))
	if c := Conditions(having(), long, nil)[0]; len(c.Message) > maxMessage || !strings.HasSuffix(c.Message, "ä …") {
		t.Errorf("message of %d bytes ends in %q", len(c.Message), c.Message[len(c.Message)-8:])
	}
	if n := Changed(having(), having(), long).Note; len(n) > maxNote || !strings.HasSuffix(n, "ä …") {
		t.Errorf("note of %d bytes", len(n))
	}
}

func TestAskAgain(t *testing.T) {
	t.Parallel()
	for failures, want := range []time.Duration{10 * time.Minute, time.Second, 2 * time.Second, 4 * time.Second} {
		if got := AskAgain(failures, 0.5); got != want {
			t.Errorf("after %d failures: %s, want %s", failures, got, want)
		}
	}
	if got := AskAgain(1000, 0); got != 4*time.Minute+30*time.Second {
		t.Errorf("after very many: %s", got)
	}
}

func TestMessagesOfOneCauseAreEqual(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ a, b string }{
		"the port we called from": {"read tcp 127.0.0.1:41234->127.0.0.1:9443: connection reset by peer", "read tcp 127.0.0.1:51234->127.0.0.1:9443: connection reset by peer"},
		"an IPv6 one":             {"write tcp6 [::1]:1->[::1]:9443: broken pipe", "write tcp6 [::1]:2->[::1]:9443: broken pipe"},
		"the time":                {"certificate has expired or is not yet valid: current time 2026-01-01T00:00:00Z is after 2025-01-01T00:00:00Z", "certificate has expired or is not yet valid: current time 2026-01-02T00:00:00Z is after 2025-01-01T00:00:00Z"},
		"how far it came":         {"time ran out after 99 bytes of its answer: context deadline exceeded", "time ran out after 100 bytes of its answer: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if a, b := message(errors.New(tc.a)), message(errors.New(tc.b)); a != b {
				t.Errorf("%q\n%q", a, b)
			}
		})
	}
	if a, b := message(errors.New("x is after 2025-01-01")), message(errors.New("x is after 2025-01-02")); a == b {
		t.Error("different causes have the same report")
	}
}
