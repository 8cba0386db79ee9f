// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

const (
	// hashed starts each value that replaces a secret. With 16 hexadecimal digits the
	// value has the form of a bootstrap token, so that facts can be decoded again.
	hashed     = "sha256."
	hashDigits = 16

	// maxText is the length of a text in facts, in bytes. Conditions have messages of
	// at most 1 KiB in practice; longer texts are scripts, files and certificates.
	maxText = 1 << 10

	// maxAnnotation is the length of the value of an annotation, in bytes: longer ones
	// hold copies of objects.
	maxAnnotation = 256
)

// publicBytes is the field of a kubeconfig whose bytes are no secret: facts with other
// bytes there could not be decoded again.
const publicBytes = "certificateAuthorityData"

// valueLists are the names of lists, in lower case, whose items have a name and a value
// that only users know.
var valueLists = map[string]bool{"env": true, "extraenvs": true, "extraargs": true, "variables": true, "overrides": true, "httpheaders": true}

// Redact returns JSON with hashes in place of the values of secrets.
func (r *Recorder) Redact(text []byte) json.RawMessage {
	v, err := Decode(text)
	if err != nil || v == nil {
		return nil
	}
	out, err := Encode(r.redact(v))
	if err != nil {
		return nil
	}
	return out
}

func (r *Recorder) redact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			v[name] = r.field(v, name, value)
		}
	case []any:
		for i := range v {
			v[i] = r.redact(v[i])
		}
	case string:
		return r.text(v, maxText)
	}
	return v
}

// field redacts one field of an object.
func (r *Recorder) field(of map[string]any, name string, value any) any {
	lower := strings.ToLower(name)
	switch {
	case lower == "managedfields":
		delete(of, name)
		return nil
	case lower == "annotations":
		return r.annotations(value)
	case sanitize.IsSecretField(name):
		return r.hash(value, false)
	}
	if items, is := value.([]any); is && valueLists[lower] {
		for _, item := range items {
			if item, is := item.(map[string]any); is && item["value"] != nil {
				item["value"] = r.hash(item["value"], true)
			}
		}
	}
	return r.redact(value)
}

// annotations redacts long values, and that of kubectl: they hold whole objects.
func (r *Recorder) annotations(v any) any {
	all, is := v.(map[string]any)
	if !is {
		return r.redact(v)
	}
	for name, value := range all {
		if text, is := value.(string); is && name == corev1.LastAppliedConfigAnnotation {
			all[name] = r.sum(text)
		} else if is {
			all[name] = r.text(text, maxAnnotation)
		}
	}
	return all
}

// hash replaces all texts in v, and with numbers those too: a field of a type has a
// text if it is a secret, but the value of a variable can be anything.
func (r *Recorder) hash(v any, numbers bool) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			if !strings.EqualFold(name, publicBytes) {
				v[name] = r.hash(v[name], numbers)
			}
		}
		return v
	case []any:
		for i := range v {
			v[i] = r.hash(v[i], numbers)
		}
		return v
	case string:
		return r.sum(v)
	case json.Number:
		if numbers {
			return r.sum(v.String())
		}
	}
	return v
}

// sum is the hash of a text. An empty text stays, and so does a hash.
func (r *Recorder) sum(text string) string {
	if text == "" || isHash(text) {
		return text
	}
	h := hmac.New(sha256.New, r.key)
	h.Write([]byte(text))
	return hashed + hex.EncodeToString(h.Sum(nil))[:hashDigits]
}

// isHash reports whether a text replaces a secret.
func isHash(text string) bool {
	rest, is := strings.CutPrefix(text, hashed)
	return is && len(rest) == hashDigits && strings.Trim(rest, "0123456789abcdef") == ""
}

// text hashes a text that is too long or has a private key.
func (r *Recorder) text(text string, most int) string {
	if len(text) > most || strings.Contains(text, "PRIVATE KEY-----") || strings.Contains(text, "client-key-data") {
		return r.sum(text)
	}
	return text
}
