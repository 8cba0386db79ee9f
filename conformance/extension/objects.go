// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"encoding/json"
	"fmt"
)

// decode reads JSON.
func decode[T any](text []byte) (T, error) {
	var v T
	_, err := decodeInto(text, &v)
	return v, err
}

func decodeInto[T any](text []byte, into T) (T, error) {
	if err := json.Unmarshal(text, into); err != nil {
		return into, fmt.Errorf("decode: %w", err)
	}
	return into, nil
}

// jsonOf is a value as JSON; the value was decoded from JSON.
func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// within follows field names; nil if the object does not exist.
func within(m map[string]any, path ...string) map[string]any {
	for _, field := range path {
		next, ok := m[field].(map[string]any)
		if !ok {
			return nil
		}
		m = next
	}
	return m
}
