// SPDX-License-Identifier: Apache-2.0

package ssadiff

import (
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Settled is the server's result for an intent that it does not store as sent, because a
// webhook changes values. It compares values, not resourceVersion, so that a write to
// the status does not cause another apply. It is valid for one schema: for an intent of
// another Type it does not apply.
type Settled struct {
	of     *Type
	object map[string]any // the intent
	owned  *Fields
	values *typed.TypedValue
}

// Settle records the response to an apply of the intent. It is nil if the response
// contains the intent as sent, so that there is nothing to record.
func (in *Intent) Settle(answer map[string]any) *Settled {
	v := in.Against(answer, nil)
	if !v.Changed() || v.Owned == nil {
		return nil
	}
	values, err := in.extract(answer)
	if err != nil {
		return nil
	}
	return &Settled{of: in.of, object: in.object, owned: v.Owned, values: values}
}

func (s *Settled) holds(in *Intent, owned *Fields, live map[string]any) bool {
	if s == nil || s.of != in.of || !s.owned.Equals(owned) || !value.Equals(value.NewValueInterface(s.object), value.NewValueInterface(in.object)) {
		return false
	}
	values, err := in.extract(live)
	return err == nil && value.Equals(s.values.AsValue(), values.AsValue())
}

// extract returns the fields of the intent from the live object.
func (in *Intent) extract(live map[string]any) (*typed.TypedValue, error) {
	have, err := in.read(live)
	if err != nil {
		return nil, err
	}
	return have.ExtractItems(in.Fields), nil
}
