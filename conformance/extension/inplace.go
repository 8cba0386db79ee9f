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

// objectPatch is the patch of one object of an in-place request.
type objectPatch struct {
	// object is the field of current and desired; allowed is the part of it that may
	// change.
	object, allowed string
	patch           hooksv1.Patch
}

// objectPatches lists the patches of an answer, including empty ones.
func objectPatches(a answer) ([]objectPatch, error) {
	switch r := a.response.(type) {
	case *hooksv1.CanUpdateMachineResponse:
		return []objectPatch{
			{"machine", "spec", r.MachinePatch},
			{"infrastructureMachine", "spec", r.InfrastructureMachinePatch},
			{"bootstrapConfig", "spec", r.BootstrapConfigPatch},
		}, nil
	case *hooksv1.CanUpdateMachineSetResponse:
		return []objectPatch{
			{"machineSet", "spec.template.spec", r.MachineSetPatch},
			{"infrastructureMachineTemplate", "spec.template.spec", r.InfrastructureMachineTemplatePatch},
			{"bootstrapConfigTemplate", "spec.template.spec", r.BootstrapConfigTemplatePatch},
		}, nil
	}
	return nil, conformance.Skip("in-place answers of %T are not known to the suite", a.response)
}

// update is one current object and the result of the answer's patch.
type update struct {
	objectPatch
	current, updated, desired map[string]any
}

// updates applies the patches of an answer to the current objects.
func updates(r request, a answer) ([]update, error) {
	patches, err := objectPatches(a)
	if err != nil {
		return nil, err
	}
	var all []update
	var errs []error
	for _, p := range patches {
		u := update{objectPatch: p, current: within(r, "current", p.object), desired: within(r, "desired", p.object)}
		u.updated = u.current
		if len(p.patch.Patch) > 0 {
			if u.current == nil {
				errs = append(errs, fmt.Errorf("%sPatch: the request has no such object", p.object))
				continue
			}
			if u.updated, err = patchvalidation.Apply(u.current, p.patch.PatchType, p.patch.Patch); err != nil {
				errs = append(errs, fmt.Errorf("%sPatch: %w", p.object, err))
				continue
			}
		}
		all = append(all, u)
	}
	return all, errors.Join(errs...)
}

// inPlacePatchesApply checks the patches of the first answer.
func inPlacePatchesApply(_ context.Context, _ *session, _ *handler, r request, a answer) error {
	all, err := updates(r, a)
	if err != nil {
		return err
	}
	var errs []error
	for _, u := range all {
		if out := patchvalidation.Outside(patchvalidation.Differences(u.current, u.updated), u.allowed); len(out) > 0 {
			errs = append(errs, fmt.Errorf("%sPatch changes %s, which is not in %s", u.object, patchvalidation.Join(out), u.allowed))
		}
	}
	return errors.Join(errs...)
}

// inPlaceTowardsDesired checks the values that the patches set.
func inPlaceTowardsDesired(_ context.Context, _ *session, _ *handler, r request, a answer) error {
	all, err := updates(r, a)
	if err != nil {
		return conformance.Skip("its patches cannot be applied")
	}
	var errs []error
	for _, u := range all {
		strayed := patchvalidation.UnexpectedFields(u.current, u.updated, u.desired)
		if strayed = patchvalidation.Below(strayed, u.allowed); len(strayed) > 0 {
			errs = append(errs, fmt.Errorf("%sPatch makes of %s what is neither current nor desired", u.object, patchvalidation.Join(strayed)))
		}
	}
	return errors.Join(errs...)
}

// inPlaceNothingToDo asks about a machine that is in its desired state.
func inPlaceNothingToDo(ctx context.Context, s *session, h *handler, r request, _ answer) error {
	r["desired"] = r.clone()["current"]
	a, err := s.ask(ctx, h, r)
	if err != nil {
		return err
	}
	if a.response.GetStatus() != hooksv1.ResponseStatusSuccess {
		return fmt.Errorf("the answer is Failure%s", because(a))
	}
	all, err := updates(r, a)
	if err != nil {
		return err
	}
	var errs []error
	for _, u := range all {
		if d := patchvalidation.Differences(u.current, u.updated); len(d) > 0 {
			errs = append(errs, fmt.Errorf("%sPatch changes %s", u.object, patchvalidation.Join(d)))
		}
	}
	return errors.Join(errs...)
}
