// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

// state has what one reconcile has read.
type state struct {
	config *runtimev1.ExtensionConfig
	before *runtimev1.ExtensionConfig // as it was read
	now    time.Time
	failed error  // why the handlers may not be the current ones
	where  string // with failed: why the certificate authority was not found in its place

	asked *inputs   // the inputs of the discovery; nil if there was none
	due   time.Time // when the next discovery is due, after the first one
}

// observe ends calls to an extension that is being deleted, and returns no state
// for it.
func (r *Reconciler) observe(ctx context.Context, config *runtimev1.ExtensionConfig) (*state, error) {
	if !config.DeletionTimestamp.IsZero() {
		return nil, r.sweep(ctx, config.Name)
	}
	if pause.Requested(nil, config) {
		r.attempts.forget(config.Name) // it is discovered when the pause ends
	}
	return &state{config: config, before: config.DeepCopy(), now: r.Clock.Now()}, nil
}

func (s *state) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// misplaced records why no certificate authority can be injected.
func (s *state) misplaced(err error) {
	s.fail(err)
	s.where = err.Error()
}

func (s *state) inputs() inputs {
	return inputs{s.config.UID, s.generation(), fmt.Sprint(s.config.Annotations), s.where} // maps print sorted
}

// generation returns the generation that the spec will have once it is stored.
func (s *state) generation() int64 {
	return patch.Generation(s.config, &s.before.Spec, s.config.Spec)
}

func (s *state) set(c metav1.Condition) {
	c.ObservedGeneration = s.generation()
	conditions.Set(s.config, s.now, c)
}

// report sets the conditions from the state. failed is why the state is incomplete.
func (r *Reconciler) report(s *state, failed error) {
	if failed != nil {
		return
	}
	if s.asked != nil {
		for _, c := range extensionconfig.Conditions(s.config, s.failed, extensionconfig.Deprecated(r.Catalog, s.config.Status.Handlers)) {
			s.set(c)
		}
	}
	s.set(pause.Condition(nil, s.config))
}

// reportDeprecated sets the fields for clients of v1beta1 after a discovery.
func reportDeprecated(s *state, failed error) {
	if failed == nil && s.asked != nil {
		s.config.Status.Deprecated = extensionconfig.DeprecatedStatus(s.config, s.now)
	}
}

// emit emits an event and a log line for what has changed, once.
func (r *Reconciler) emit(ctx context.Context, s *state) {
	log, news := ctrl.LoggerFrom(ctx), extensionconfig.Changed(s.before, s.config, s.failed)
	switch {
	case news != nil && s.failed != nil:
		log.Info("Keeping what is known of an extension that cannot be discovered", "reason", news.Note)
	case news != nil:
		log.Info("Registering what the extension can do", "found", news.Note)
	case s.failed != nil:
		log.V(2).Info("Discovering the extension again later", "reason", s.failed.Error())
	}
	if news != nil {
		r.Recorder.Eventf(s.config, nil, news.Type, news.Reason, "Discover", "%s", news.Note)
	}
}
