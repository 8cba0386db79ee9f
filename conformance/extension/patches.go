// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"errors"
	"fmt"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/internal/pure/patchvalidation"
)

// patchable are the fields that are copied from a patched template; the others are
// dropped silently.
var patchable = []string{"spec.template.spec", "spec.template.metadata", "metadata.labels", "metadata.annotations"}

// patchesOf is an answer to GeneratePatches, of any version.
func patchesOf(a answer) (*hooksv1.GeneratePatchesResponse, error) {
	patches, ok := a.response.(*hooksv1.GeneratePatchesResponse)
	if !ok {
		return nil, conformance.Skip("patches of %T are not known to the suite", a.response)
	}
	return patches, nil
}

// patched returns a request whose objects have the patches of an answer.
func patched(r request, a answer) (request, error) {
	patches, err := patchesOf(a)
	if err != nil {
		return nil, err
	}
	r = r.clone()
	items := map[string]map[string]any{}
	for _, item := range r.list("items") {
		uid, _ := item["uid"].(string)
		items[uid] = item
	}
	var errs []error
	for i, p := range patches.Items {
		item := items[string(p.UID)]
		if item == nil {
			errs = append(errs, fmt.Errorf("items[%d]: the request has no item with uid %q", i, p.UID))
			continue
		}
		object, _ := item["object"].(map[string]any)
		after, err := patchvalidation.Apply(object, p.PatchType, p.Patch)
		if err != nil {
			errs = append(errs, fmt.Errorf("items[%d], the patch of %s: %w", i, objectName(object), err))
			continue
		}
		item["object"] = after
	}
	return r, errors.Join(errs...)
}

func objectName(object map[string]any) string {
	name, _ := within(object, "metadata")["name"].(string)
	return fmt.Sprintf("%v %s", object["kind"], name)
}

func patchesApply(_ context.Context, _ *session, _ *handler, r request, a answer) error {
	_, err := patched(r, a)
	return err
}

// patchesOnlyWhatTheyMay compares templates before and after.
func patchesOnlyWhatTheyMay(_ context.Context, _ *session, _ *handler, before, after request) error {
	var errs []error
	then := after.list("items")
	for i, item := range before.list("items") {
		if out := patchvalidation.Outside(patchvalidation.Differences(item["object"], then[i]["object"]), patchable...); len(out) > 0 {
			object, _ := item["object"].(map[string]any)
			errs = append(errs, fmt.Errorf("of %s, %s is patched", objectName(object), patchvalidation.Join(out)))
		}
	}
	return errors.Join(errs...)
}

// patchedOnce returns the first request, and the same with its patches.
func (s *session) patchedOnce(ctx context.Context, h *handler) (before, after request, err error) {
	before, a, err := s.succeeded(ctx, h)
	if err != nil {
		return nil, nil, err
	}
	if after, err = patched(before, a); err != nil {
		return nil, nil, conformance.Skip("its patches cannot be applied")
	}
	return before, after, nil
}

// patchesDeterministic compares patches byte by byte. The order of the templates does not
// matter; the order of the patches of one template does.
func patchesDeterministic(ctx context.Context, s *session, h *handler, r request, a answer) error {
	want, err := byUID(a)
	if err != nil {
		return err
	}
	for range 3 {
		again, err := s.ask(ctx, h, r)
		if err != nil {
			return err
		}
		got, err := byUID(again)
		if err != nil {
			return err
		}
		if d := patchvalidation.Differences(want, got); len(d) > 0 {
			return fmt.Errorf("the same request is answered with other patches for %s", patchvalidation.Join(d))
		}
	}
	return nil
}

func byUID(a answer) (map[string]any, error) {
	patches, err := patchesOf(a)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, p := range patches.Items {
		uid := string(p.UID)
		text, _ := out[uid].(string)
		out[uid] = text + string(p.PatchType) + " " + string(p.Patch) + "\n"
	}
	return out, nil
}

// patchesIdempotent requests patches for templates that are already patched.
func patchesIdempotent(ctx context.Context, s *session, h *handler, _, once request) error {
	again, err := s.ask(ctx, h, once)
	if err != nil {
		return err
	}
	if again.response.GetStatus() != hooksv1.ResponseStatusSuccess {
		return fmt.Errorf("patched templates are answered with Failure%s", because(again))
	}
	twice, err := patched(once, again)
	if err != nil {
		return fmt.Errorf("the patches of patched templates: %w", err)
	}
	var errs []error
	then := twice.list("items")
	for i, item := range once.list("items") {
		if d := patchvalidation.Differences(item["object"], then[i]["object"]); len(d) > 0 {
			object, _ := item["object"].(map[string]any)
			errs = append(errs, fmt.Errorf("of %s, which is patched, %s is changed again", objectName(object), patchvalidation.Join(d)))
		}
	}
	return errors.Join(errs...)
}

// patchedAccepted has the templates validated with the patches of all handlers of the
// server for GeneratePatches, applied in sequence.
func patchedAccepted(ctx context.Context, s *session, h *handler, validate request, _ answer) error {
	var templates request
	for _, g := range generating(s) {
		r, a, err := s.succeeded(ctx, g)
		if err != nil {
			return err
		}
		if templates != nil {
			r["items"] = templates["items"]
			if a, err = s.ask(ctx, g, r); err != nil {
				return err
			}
		}
		if templates, err = patched(r, a); err != nil {
			return conformance.Skip("the patches of %s cannot be applied", g.name)
		}
	}
	if templates == nil {
		return conformance.Skip("it has no handler for GeneratePatches")
	}
	for _, item := range templates.list("items") {
		delete(item, "uid") // ValidateTopology does not have it
	}
	validate["items"], validate["variables"] = templates["items"], templates["variables"]
	a, err := s.ask(ctx, h, validate)
	if err != nil {
		return err
	}
	if a.response.GetStatus() != hooksv1.ResponseStatusSuccess {
		return fmt.Errorf("the answer is Failure%s", because(a))
	}
	return nil
}
