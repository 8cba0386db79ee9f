// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/pure/patchvalidation"
	"github.com/capstan-dev/capstan/internal/pure/variables"
)

// ask builds the question of a patch, for all templates in their current state.
func (r *Run) ask(p *patch) (*Question, error) {
	request := &hooksv1.GeneratePatchesRequest{TypeMeta: kind("GeneratePatchesRequest"), CommonRequest: hooksv1.CommonRequest{Settings: p.external.Settings}}
	var err error
	if request.Variables, err = r.variables(p); err != nil {
		return nil, err
	}
	for _, t := range r.states {
		own, err := t.variables(r, p)
		if err != nil {
			return nil, err
		}
		object, err := t.object()
		if err != nil {
			return nil, err
		}
		request.Items = append(request.Items, hooksv1.GeneratePatchesRequestItem{UID: t.uid(), HolderReference: t.holder(), Object: object, Variables: own})
	}
	r.asked = true
	return &Question{Patch: p.name, Extension: p.external.GeneratePatchesExtension, Request: request}, nil
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: hooksv1.GroupVersion().String(), Kind: name}
}

// variables are the cluster-wide variables that a patch can see.
func (r *Run) variables(p *patch) ([]hooksv1.Variable, error) {
	out, err := request(variables.Visible(r.of.status, p.name, r.in.Variables), r.in.Builtins)
	if err != nil {
		return nil, fmt.Errorf("patch %q: %w", p.name, err)
	}
	return out, nil
}

// variables are the variables of one template that a patch can see.
func (t *templateState) variables(r *Run, p *patch) ([]hooksv1.Variable, error) {
	out, err := request(variables.Visible(r.of.status, p.name, t.Overrides), t.Builtins)
	if err != nil {
		return nil, fmt.Errorf("%s: patch %q: %w", t, p.name, err)
	}
	return out, nil
}

// Answer applies an extension's answer to the last question. An answer for an unknown
// item concerns no single template: it is an error of the whole.
func (r *Run) Answer(answer *hooksv1.GeneratePatchesResponse) error {
	if !r.asked {
		return fmt.Errorf("nothing was asked")
	}
	p := &r.of.patches[r.next]
	for _, item := range answer.Items {
		i := slices.IndexFunc(r.states, func(t *templateState) bool { return t.uid() == item.UID })
		if i < 0 {
			return fmt.Errorf("patch %q: extension %s answered for item %q, which it was not asked about: an answer has the uid of an item of the request", p.name, p.external.GeneratePatchesExtension, item.UID)
		}
		if t := r.states[i]; t.err == nil && !nothing(item.Patch) {
			t.err = t.external(p, item)
		}
	}
	r.asked = false
	r.next++
	return nil
}

// nothing reports whether a patch changes nothing, in either form.
func nothing(patch []byte) bool {
	patch = bytes.TrimSpace(patch)
	return len(patch) == 0 || string(patch) == "[]" || string(patch) == "{}"
}

func (t *templateState) external(p *patch, item hooksv1.GeneratePatchesResponseItem) error {
	after, err := t.answered(item)
	if err != nil {
		return fmt.Errorf("patch %q: what extension %s answered for item %q: %w", p.name, p.external.GeneratePatchesExtension, item.UID, err)
	}
	for _, path := range patchable {
		take(t.document, after, path, path)
	}
	t.patched = true
	return nil
}

// answered is the template after an extension's patch.
func (t *templateState) answered(item hooksv1.GeneratePatchesResponseItem) (after map[string]any, err error) {
	before, err := json.Marshal(t.document)
	if err != nil {
		return nil, err
	}
	text, err := patchvalidation.ApplyTo(before, item.PatchType, item.Patch)
	if err != nil {
		return nil, err
	}
	value, err := decodeJSON(text)
	after, ok := value.(map[string]any)
	if err == nil && !ok {
		err = errors.New("it leaves no object")
	}
	return after, err
}

// object is the template in the form sent to extensions: equal templates are identical
// byte for byte, regardless of the order in which patches added fields.
func (t *templateState) object() (runtime.RawExtension, error) {
	text, err := json.Marshal(t.document)
	if err != nil {
		return runtime.RawExtension{}, fmt.Errorf("%s: %w", t, err)
	}
	return runtime.RawExtension{Raw: text}, nil
}

// Validation is a question to an extension after all patches.
type Validation struct {
	Patch     string
	Extension string
	Request   *hooksv1.ValidateTopologyRequest
}

// Validations returns the questions, in the order of the class, each with the settings
// and variables of its own patch. They do not contain a template on which a patch
// failed: its part is not written, so it is not validated.
func (r *Run) Validations() ([]Validation, error) {
	var out []Validation
	for i := range r.of.patches {
		p := &r.of.patches[i]
		if p.external == nil || p.external.ValidateTopologyExtension == "" {
			continue
		}
		request := &hooksv1.ValidateTopologyRequest{TypeMeta: kind("ValidateTopologyRequest"), CommonRequest: hooksv1.CommonRequest{Settings: p.external.Settings}}
		var err error
		if request.Variables, err = r.variables(p); err != nil {
			return nil, err
		}
		for _, t := range r.states {
			if t.err != nil {
				continue
			}
			own, err := t.variables(r, p)
			if err != nil {
				return nil, err
			}
			object, err := t.object()
			if err != nil {
				return nil, err
			}
			request.Items = append(request.Items, &hooksv1.ValidateTopologyRequestItem{HolderReference: t.holder(), Object: object, Variables: own})
		}
		out = append(out, Validation{Patch: p.name, Extension: p.external.ValidateTopologyExtension, Request: request})
	}
	return out, nil
}
