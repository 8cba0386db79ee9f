// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
	"github.com/capstan-dev/capstan/internal/pure/patchvalidation"
)

// tightTimeout is a short timeout that callers may set.
const tightTimeout = time.Second

// answersInTime makes the first call.
func answersInTime(ctx context.Context, s *session, h *handler) error {
	first, err := s.start(ctx, h)
	if err != nil {
		return err
	}
	// A server that stops writing when the caller disconnects can seem to have ended its
	// answer properly, so the duration counts too.
	if limit := s.limit(h.timeout); late(first.err) || first.took >= limit {
		return fmt.Errorf("no answer within %s", limit)
	}
	return nil // any answer is in time
}

// answersAsItsHook checks status code, content type, kind and version.
func answersAsItsHook(ctx context.Context, s *session, h *handler) error {
	first, err := s.start(ctx, h)
	if err != nil {
		return err
	}
	if first.err != nil {
		return first.err
	}
	fields, err := decode[map[string]any](first.raw)
	if err != nil {
		return err
	}
	wantVersion, wantKind := h.response.ToAPIVersionAndKind()
	for field, want := range map[string]string{"apiVersion": wantVersion, "kind": wantKind} {
		if got, ok := fields[field]; ok && got != "" && got != want {
			return fmt.Errorf("%s is %v: want %s, or none", field, got, want)
		}
	}
	typed, err := s.config.Catalog.NewResponse(h.hook)
	if err != nil {
		return err
	}
	if _, err := decodeInto(first.raw, typed); err != nil {
		return fmt.Errorf("it is no %s: %w", wantKind, err)
	}
	return nil
}

// fields is the first answer, undecoded, and its status.
func (s *session) fields(ctx context.Context, h *handler) (fields map[string]any, status any, err error) {
	first, err := s.start(ctx, h)
	if err == nil {
		fields, err = decode[map[string]any](first.raw)
	}
	return fields, fields["status"], err
}

func statusKnown(_ context.Context, _ *session, _ *handler, _ map[string]any, status any) error {
	switch status {
	case string(hooksv1.ResponseStatusSuccess), string(hooksv1.ResponseStatusFailure):
		return nil
	case nil:
		return errors.New("the answer has no status")
	default:
		return fmt.Errorf("the status is %v", status)
	}
}

func failureExplained(_ context.Context, _ *session, _ *handler, fields map[string]any, status any) error {
	if status != string(hooksv1.ResponseStatusFailure) {
		return nil
	}
	if message, _ := fields["message"].(string); message == "" {
		return errors.New("the answer is a Failure without a message")
	}
	return nil
}

// blockingWellFormed checks the first answer, and the next one, which a caller requests
// after it had to wait.
func blockingWellFormed(ctx context.Context, s *session, h *handler, fields map[string]any, _ any) error {
	if err := retryWellFormed(fields); err != nil {
		return err
	}
	if seconds, _ := fields["retryAfterSeconds"].(float64); seconds == 0 {
		return nil
	}
	raw, _, err := s.post(ctx, h, h.first.request.json())
	if err != nil {
		return fmt.Errorf("second call after a blocking answer: %w", err)
	}
	if fields, err = decode[map[string]any](raw); err == nil {
		err = retryWellFormed(fields)
	}
	if err != nil {
		return fmt.Errorf("second call after a blocking answer: %w", err)
	}
	return nil
}

func retryWellFormed(fields map[string]any) error {
	value, ok := fields["retryAfterSeconds"]
	if !ok && fields["status"] == string(hooksv1.ResponseStatusFailure) {
		return nil // a Failure always blocks
	}
	if !ok {
		return errors.New("the answer has no retryAfterSeconds")
	}
	seconds, ok := value.(float64)
	if most := extensionconfig.MaxRetryAfter.Seconds(); !ok || seconds < 0 || seconds > most || seconds != math.Trunc(seconds) {
		return fmt.Errorf("retryAfterSeconds is %v: want a whole number from 0 to %v", value, most)
	}
	return nil
}

func othersDoNotBlock(_ context.Context, _ *session, h *handler, fields map[string]any, _ any) error {
	if value, ok := fields["retryAfterSeconds"]; ok {
		return fmt.Errorf("the answer has retryAfterSeconds %v, which %s does not know", value, h.hook.Hook)
	}
	return nil
}

// timeoutHonoured sends the server a timeout that is shorter than the announced one.
func timeoutHonoured(ctx context.Context, s *session, h *handler, r request, _ answer) error {
	e := exchange{method: http.MethodPost, path: h.path + "?timeout=" + tightTimeout.String(), contentType: jsonType, body: bytes.NewReader(r.json())}
	if _, _, err := s.send(ctx, e, tightTimeout+grace); errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("called with ?timeout=%s, it neither answered nor hung up within %s", tightTimeout, tightTimeout+grace)
	}
	return nil
}

// unknownFieldsTolerated adds fields at several places.
func unknownFieldsTolerated(ctx context.Context, s *session, h *handler) error {
	if h == s.discovery {
		r := s.finish(request{}, h).withoutSettings()
		addUnknown(r)
		_, err := s.ask(ctx, h, r)
		return err
	}
	r, before, err := s.firstAnswer(ctx, h)
	if err != nil {
		return err
	}
	addUnknown(r)
	for _, at := range [][]string{
		{"cluster"}, {"cluster", "metadata"}, {"cluster", "spec"}, {"cluster", "spec", "topology"},
		{"current"}, {"current", "machine", "spec"}, {"current", "machineSet", "spec"},
		{"desired"}, {"desired", "machine", "spec"}, {"desired", "machineSet", "spec"},
	} {
		if m := within(r, at...); m != nil {
			addUnknown(m)
		}
	}
	for _, item := range append(r.list("items"), r.list("variables")...) {
		addUnknown(item)
		if holder := within(item, "holderReference"); holder != nil {
			addUnknown(holder)
		}
	}
	after, err := s.ask(ctx, h, r)
	if err != nil {
		return err
	}
	return sameKind(before, after)
}

func addUnknown(m map[string]any) {
	m["capstanConformance"] = map[string]any{"nested": []any{"value"}}
}

// settingsAccepted adds a setting that is meant for another handler.
func settingsAccepted(ctx context.Context, s *session, h *handler, r request, before answer) error {
	settings, _ := r["settings"].(map[string]any)
	if settings == nil {
		settings = map[string]any{}
	}
	settings[ClusterName] = "a setting for another handler"
	r["settings"] = settings
	after, err := s.ask(ctx, h, r)
	if err != nil {
		return err
	}
	return sameKind(before, after)
}

// again sends the same request twice more and compares each answer with the one before.
func again(ctx context.Context, s *session, h *handler, compare func(before, after answer) error) error {
	r, before, err := s.firstAnswer(ctx, h)
	if err != nil {
		return err
	}
	for range 2 {
		after, err := s.ask(ctx, h, r)
		if err != nil {
			return err
		}
		if err := compare(before, after); err != nil {
			return err
		}
		before = after
	}
	return nil
}

// sameKind compares what two answers to the same request mean. A blocking answer may be
// followed by one that does not block; the reverse would block what has already started.
func sameKind(before, after answer) error {
	if b, a := before.response.GetStatus(), after.response.GetStatus(); a != b {
		return fmt.Errorf("the answer was %s at first, then %s%s", b, a, because(after))
	}
	b, ok := before.response.(hooksv1.RetryResponseObject)
	if !ok {
		return nil
	}
	a := after.response.(hooksv1.RetryResponseObject)
	if b.GetRetryAfterSeconds() == 0 && a.GetRetryAfterSeconds() > 0 && b.GetStatus() == hooksv1.ResponseStatusSuccess {
		return fmt.Errorf("the answer did not block at first, then blocked for %d s%s", a.GetRetryAfterSeconds(), because(after))
	}
	return nil
}

func because(a answer) string {
	if m := a.response.GetMessage(); m != "" {
		return ": " + m
	}
	return ""
}

// sameAnswer compares the complete content of two answers.
func sameAnswer(before, after answer) error {
	if err := sameKind(before, after); err != nil {
		return err
	}
	if d := patchvalidation.Differences(before.fields, after.fields); len(d) > 0 {
		return fmt.Errorf("the answers to the same request differ in %s", patchvalidation.Join(d))
	}
	return nil
}

// valueStable sends the same request again, and expects the same answer.
func valueStable(ctx context.Context, s *session, h *handler) error {
	return again(ctx, s, h, func(before, after answer) error {
		delete(before.fields, "message")
		delete(after.fields, "message")
		return sameAnswer(before, after)
	})
}

// concurrentCallsAnswered sends many calls concurrently, each with its own uids where the
// hook has some.
func concurrentCallsAnswered(ctx context.Context, s *session, h *handler, r request, before answer) error {
	calls := make([]request, inParallel)
	owner := map[string]int{} // of a uid: the call
	for i := range calls {
		calls[i] = r.clone()
		for _, item := range calls[i].list("items") {
			if uid, ok := item["uid"].(string); ok {
				item["uid"] = fmt.Sprintf("%s-%d", uid, i)
				owner[fmt.Sprintf("%s-%d", uid, i)] = i
			}
		}
	}
	return firstOf(parallel(inParallel, func(i int) error {
		after, err := s.ask(ctx, h, calls[i])
		if err != nil {
			return err
		}
		if patches, ok := after.response.(*hooksv1.GeneratePatchesResponse); ok {
			for _, p := range patches.Items {
				if whose, ok := owner[string(p.UID)]; ok && whose != i {
					return fmt.Errorf("a patch is for uid %q, which another call asked for", p.UID)
				}
			}
		}
		return sameKind(before, after)
	}))
}
