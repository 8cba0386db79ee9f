// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

// Limits of the caches. A fleet of ten thousand clusters that are all blocked at
// the same time fits.
const (
	maxBlocked      = 20_000
	maxBlockedBytes = 32 << 20
	maxAnswers      = 20_000
	maxAnswerBytes  = 64 << 20
	answerTTL       = 10 * time.Minute
)

// subject is the hook and object of a blocking response.
type subject struct {
	hook   catalog.GroupHook
	object string
}

func subjectOf(hook catalog.GroupHook, o metav1.Object) subject {
	if isNil(o) {
		return subject{hook: hook}
	}
	if uid := o.GetUID(); uid != "" {
		return subject{hook, string(uid)}
	}
	return subject{hook, fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())}
}

// blocked is a blocking response of several handlers.
type blocked struct {
	by      []*handler // in the order of their names
	message string
	until   time.Time
}

// rememberBlocked caches a blocking response.
func (c *Client) rememberBlocked(about subject, by []*handler, response hooksv1.ResponseObject) {
	retry, ok := response.(hooksv1.RetryResponseObject)
	if !ok || retry.GetRetryAfterSeconds() <= 0 {
		return
	}
	until := c.clock.Now().Add(time.Duration(retry.GetRetryAfterSeconds()) * time.Second)
	c.blocked.put(about, blocked{by: by, message: retry.GetMessage(), until: until}, 200+len(retry.GetMessage()), until)
}

// stillBlocked returns a cached blocking response if it is from the registrations
// that would be called now.
func (c *Client) stillBlocked(about subject, by []*handler, d catalog.Descriptor, response hooksv1.ResponseObject) bool {
	retry, ok := response.(hooksv1.RetryResponseObject)
	if !ok {
		return false
	}
	now := c.clock.Now()
	b, ok := c.blocked.get(about, now)
	if !ok || !slices.Equal(b.by, by) {
		return false
	}
	extensionconfig.Reset(retry, d.Response)
	retry.SetMessage(b.message)
	left := b.until.Sub(now)
	retry.SetRetryAfterSeconds(int32((left + time.Second - 1) / time.Second)) // rounded up: never too early
	return true
}

// answerKey identifies a request and its handler: the handler, its registration,
// the resourceVersion of its ExtensionConfig and the encoded request.
type answerKey [sha256.Size]byte

// answer is the body of a successful response.
type answer struct {
	of   uint64 // registration
	body []byte
}

func keyOf(h *handler, body []byte) (key answerKey) {
	hash := sha256.New()
	var id [8]byte
	binary.BigEndian.PutUint64(id[:], h.of.id)
	hash.Write(id[:])
	for _, part := range []string{h.name, *h.of.version.Load()} {
		hash.Write([]byte(part))
		hash.Write([]byte{0})
	}
	hash.Write(body)
	hash.Sum(key[:0])
	return key
}

// rememberAnswer caches a response, unless its handler was removed meanwhile.
func (c *Client) rememberAnswer(key answerKey, h *handler, body []byte) {
	c.answers.put(key, answer{of: h.of.id, body: body}, len(body), c.clock.Now().Add(answerTTL))
	if h.of.gone.Load() { // checked last: a removal sets this before it evicts
		c.answers.drop(func(a answer) bool { return a.of == h.of.id })
	}
}
