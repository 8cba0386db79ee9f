// SPDX-License-Identifier: Apache-2.0

package ssadiff

import (
	"fmt"
	"reflect"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Reason is why an apply would change an object.
type Reason string

// The reasons, in the order in which they are checked.
const (
	// Unchanged: it would change nothing.
	Unchanged Reason = ""
	// FieldsLost: the object has no managedFields at all, or had none when another
	// client applied it. Seed is needed first.
	FieldsLost Reason = "ManagedFieldsLost"
	// NeverApplied: the manager has no entry in managedFields yet.
	NeverApplied Reason = "NeverApplied"
	// OtherVersion: the entry is for another version of the kind.
	OtherVersion Reason = "OtherVersion"
	// Ownership: fields must be added to the entry or removed from it. Fields that
	// another client took over by an update are among those added.
	Ownership Reason = "Ownership"
	// Values: the entry is correct, and a value or the order of a list differs.
	Values Reason = "Values"
	// Misfit: the live object does not match the schema, because one of both is older
	// than the other. Problem has the details.
	Misfit Reason = "DoesNotFitSchema"
)

// Comparison is the result of a comparison.
type Comparison struct {
	Reason Reason
	// Owned are the fields in the intent's current entry; nil without an entry.
	Owned *Fields
	// Added and Removed are the fields that an apply adds to the entry and removes from
	// it; nil if there are none to compare.
	Added, Removed *Fields
	// Problem is the error of a Misfit.
	Problem string
}

// Changed reports whether an apply is needed.
func (v Comparison) Changed() bool { return v.Reason != Unchanged }

// Against compares the intent with a live object, which is decoded from the server's
// JSON and has the same version. A typed object that was converted cannot be used: it
// omits explicit zeros, so that the intent would never match. settled, which may be nil,
// is the result of the intent at the server before.
func (in *Intent) Against(live map[string]any, settled *Settled) Comparison {
	all := entries(live)
	var entry map[string]any
	for _, e := range all {
		if in.ours(e) {
			entry = e
		}
	}
	switch {
	case entry == nil && in.Fields.Empty():
		return Comparison{} // the server stores no empty entry
	case len(all) == 0, slices.ContainsFunc(all, unknown):
		return Comparison{Reason: FieldsLost, Added: in.Fields}
	case entry == nil:
		return Comparison{Reason: NeverApplied, Added: in.Fields}
	}
	// The same encoder wrote both, so equal fields have equal encodings. That is the
	// usual case, and costs a tenth of decoding. Decoded values are compared, since the
	// server escapes characters such as & and this package does not.
	owned := in.Fields
	if !reflect.DeepEqual(entry["fieldsV1"], any(in.coded)) {
		var err error
		if owned, err = decode(entry); err != nil {
			return Comparison{Reason: Misfit, Problem: fmt.Sprintf("managedFields of %s: %v", in.manager, err)}
		}
	}
	v := Comparison{Owned: owned}
	switch {
	case entry["apiVersion"] != in.of.gvk.GroupVersion().String():
		v.Reason = OtherVersion
	case settled.holds(in, owned, live):
	case !owned.Equals(in.Fields):
		v.Reason, v.Added, v.Removed = Ownership, in.Fields.Difference(owned), owned.Difference(in.Fields)
	default:
		v.Reason, v.Problem = in.merge(live)
	}
	return v
}

// merge reports whether merging the intent into the live object changes it, by the
// server's comparison. The order counts: typed.Compare ignores it, and treats sets and
// keyed lists as equal that the server writes again.
func (in *Intent) merge(live map[string]any) (reason Reason, problem string) {
	have, err := in.read(live)
	if err != nil {
		return Misfit, err.Error()
	}
	merged, err := have.Merge(in.typed)
	if err != nil {
		return Misfit, err.Error()
	}
	if !value.EqualsUsing(value.NewFreelistAllocator(), have.AsValue(), merged.AsValue()) {
		return Values, ""
	}
	return Unchanged, ""
}

// read converts the live object to a typed value, without the parts that the intent
// cannot change: status and managedFields are most of an object.
func (in *Intent) read(live map[string]any) (*typed.TypedValue, error) {
	return in.of.typed.FromUnstructured(in.shared(live), typed.AllowDuplicates)
}

// shared is the part of the live object below the fields of the intent, at the top and
// in metadata.
func (in *Intent) shared(live map[string]any) map[string]any {
	out := make(map[string]any, len(in.object))
	for name := range in.object {
		if have, ok := live[name]; ok {
			out[name] = have
		}
	}
	wanted, _ := in.object["metadata"].(map[string]any)
	have, _ := out["metadata"].(map[string]any)
	if have == nil {
		return out
	}
	meta := make(map[string]any, len(wanted))
	for name, want := range wanted {
		if name == "uid" || name == "resourceVersion" { // preconditions, not fields
			meta[name] = want
		} else if x, ok := have[name]; ok {
			meta[name] = x
		}
	}
	out["metadata"] = meta
	return out
}
