// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// Limits of the answers of an extension. Longer waits and messages are cut; messages are
// copied to conditions, which hold 32 KiB.
const (
	MaxRetryAfter     = 24 * time.Hour
	MaxMessageLength  = 4 << 10
	maxMessagesLength = 16 << 10
)

// Answer is the response of one handler.
type Answer struct {
	Handler  string
	Response hooksv1.ResponseObject
}

// Decode reads an answer of the given kind into a response, which must be empty. The
// error says why the answer cannot be used; the response is undefined then. Unknown
// fields are ignored, so that an extension can be newer than this program.
func Decode(body []byte, kind schema.GroupVersionKind, into hooksv1.ResponseObject) error {
	if len(body) == 0 {
		return errors.New("decode answer: it is empty")
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	apiVersion, name := kind.ToAPIVersionAndKind()
	gotVersion, gotName := into.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	if gotName != "" && gotName != name || gotVersion != "" && gotVersion != apiVersion {
		return fmt.Errorf("the answer is a %s of %s: want a %s of %s", quote(gotName), quote(gotVersion), name, apiVersion)
	}
	into.GetObjectKind().SetGroupVersionKind(kind)
	switch into.GetStatus() {
	case hooksv1.ResponseStatusSuccess, hooksv1.ResponseStatusFailure:
	case "":
		return errors.New("the answer has no status: want Success or Failure")
	default:
		return fmt.Errorf("the answer has status %s: want Success or Failure", quote(string(into.GetStatus())))
	}
	if retry, ok := into.(hooksv1.RetryResponseObject); ok {
		s := retry.GetRetryAfterSeconds()
		if s < 0 {
			return fmt.Errorf("the answer has retryAfterSeconds %d: want 0 or more", s)
		}
		retry.SetRetryAfterSeconds(min(s, int32(MaxRetryAfter/time.Second)))
	}
	into.SetMessage(Shorten(into.GetMessage(), MaxMessageLength))
	return nil
}

// FailureError says that an extension was called and answered Failure. It is not subject
// to the failure policy.
type FailureError struct {
	Message string // the extension's own, bounded in length
}

// Error is the message of the extension.
func (e *FailureError) Error() string {
	if e.Message == "" {
		return "the extension answered Failure, without a message"
	}
	return "the extension answered Failure: " + e.Message
}

// Success is an error unless the answer is Success: a *FailureError if it is Failure.
func Success(answer hooksv1.ResponseObject) error {
	switch answer.GetStatus() {
	case hooksv1.ResponseStatusSuccess:
		return nil
	case hooksv1.ResponseStatusFailure:
		return &FailureError{Message: Shorten(answer.GetMessage(), MaxMessageLength)}
	}
	return fmt.Errorf("the extension answered with status %s: want Success or Failure", quote(string(answer.GetStatus())))
}

// Aggregate combines several successful answers, in the order of their handlers' names:
// Success, the messages joined by ", ", and the lowest retryAfterSeconds that is not
// zero. The previous content of into is lost.
func Aggregate(into hooksv1.ResponseObject, answers []Answer) {
	var messages []string
	var wait int32
	for _, a := range answers {
		if m := a.Response.GetMessage(); m != "" {
			messages = append(messages, m)
		}
		if retry, ok := a.Response.(hooksv1.RetryResponseObject); ok {
			if s := retry.GetRetryAfterSeconds(); s > 0 && (wait == 0 || s < wait) {
				wait = s
			}
		}
	}
	Reset(into, into.GetObjectKind().GroupVersionKind()) // only now: it may be one of the answers
	into.SetMessage(Shorten(strings.Join(messages, ", "), maxMessagesLength))
	if retry, ok := into.(hooksv1.RetryResponseObject); ok {
		retry.SetRetryAfterSeconds(wait)
	}
}

// Aggregatable reports whether answers of a type can be combined without loss: whether
// they hold only status, message and retryAfterSeconds. The type is a struct's.
func Aggregatable(response reflect.Type) bool {
	for field := range response.Fields() {
		switch field.Type {
		case reflect.TypeFor[metav1.TypeMeta](), reflect.TypeFor[hooksv1.CommonResponse](), reflect.TypeFor[hooksv1.CommonRetryResponse]():
			continue
		}
		if !field.Anonymous || field.Type.Kind() != reflect.Struct || !Aggregatable(field.Type) {
			return false
		}
	}
	return true
}

// Reset sets a response to an empty Success of a kind.
func Reset(r hooksv1.ResponseObject, kind schema.GroupVersionKind) {
	Clear(r)
	r.GetObjectKind().SetGroupVersionKind(kind)
	r.SetStatus(hooksv1.ResponseStatusSuccess)
}

// Clear empties a response.
func Clear(r hooksv1.ResponseObject) { reflect.ValueOf(r).Elem().SetZero() }

// Shorten cuts a text that is longer than limit bytes, between characters, and marks the
// cut by an ellipsis. It also replaces invalid UTF-8.
func Shorten(s string, limit int) string {
	if len(s) > limit {
		cut := limit - len("…")
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
