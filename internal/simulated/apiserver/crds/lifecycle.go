// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// CleanupFinalizer keeps a definition until the last of its objects is deleted.
const CleanupFinalizer = apiextensionsv1.CustomResourceCleanupFinalizer

var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	install.Install(s)
	return s
})

var (
	whole  = sync.OnceValue(func() rest.RESTCreateUpdateStrategy { return customresourcedefinition.NewStrategy(scheme()) })
	status = sync.OnceValue(func() rest.RESTUpdateStrategy { return customresourcedefinition.NewStatusStrategy(scheme()) })
)

// Settle prepares a definition for storage as an API server does: it sets defaults,
// resets what its writer must not set, and returns its errors. was is nil at
// creation.
func Settle(sub string, was, next *unstructured.Unstructured) (field.ErrorList, error) {
	in, err := fromStored(next)
	if err != nil {
		return nil, err
	}
	var errs field.ErrorList
	switch {
	case was == nil:
		whole().PrepareForCreate(context.Background(), in)
		errs = whole().Validate(context.Background(), in)
	default:
		old, err := fromStored(was)
		if err != nil {
			return nil, err
		}
		var strategy rest.RESTUpdateStrategy = whole()
		if sub == "status" {
			strategy = status()
		}
		strategy.PrepareForUpdate(context.Background(), in, old)
		errs = strategy.ValidateUpdate(context.Background(), in, old)
	}
	if len(errs) > 0 {
		return errs, nil
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := scheme().Convert(in, out, nil); err != nil {
		return nil, err
	}
	return nil, Write(out, next)
}

func fromStored(u *unstructured.Unstructured) (*apiextensions.CustomResourceDefinition, error) {
	crd, err := Typed(u)
	if err != nil {
		return nil, err
	}
	scheme().Default(crd)
	in := &apiextensions.CustomResourceDefinition{}
	return in, scheme().Convert(crd, in, nil)
}

// Typed reads a definition.
func Typed(u *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(raw, crd); err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", u.GetName(), err)
	}
	return crd, nil
}

// Write puts spec and status of crd into u.
func Write(crd *apiextensionsv1.CustomResourceDefinition, u *unstructured.Unstructured) error {
	raw, err := json.Marshal(map[string]any{"spec": crd.Spec, "status": crd.Status})
	if err != nil {
		return err
	}
	var content map[string]any
	if err := utiljson.Unmarshal(raw, &content); err != nil { // whole numbers stay whole
		return err
	}
	u.Object["spec"], u.Object["status"] = content["spec"], content["status"]
	if crd.Generation != 0 {
		u.SetGeneration(crd.Generation)
	}
	return nil
}

// Accept updates the status of a definition as the controllers of an API server
// would: its names are accepted if no other definition of the group has them, and
// then it is served.
func Accept(crd *apiextensionsv1.CustomResourceDefinition, others []*apiextensionsv1.CustomResourceDefinition, now metav1.Time) {
	accepted, conflict := accept(crd, others)
	crd.Status.AcceptedNames = accepted
	names := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found",
	}
	established := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
	}
	if conflict != nil {
		names.Status, names.Reason, names.Message = apiextensionsv1.ConditionFalse, conflict.reason, conflict.Error()
		established.Status, established.Reason, established.Message = apiextensionsv1.ConditionFalse, "NotAccepted", "not all names are accepted"
	}
	set(crd, names, now)
	if !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
		set(crd, established, now)
	}
	approve(crd, now)
}

// approve sets whether a kind of the project's own groups was approved.
func approve(crd *apiextensionsv1.CustomResourceDefinition, now metav1.Time) {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return
	}
	c := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant}
	state, reason := apihelpers.GetAPIApprovalState(crd.Annotations)
	switch state {
	case apihelpers.APIApproved:
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionTrue, "ApprovedAnnotation", reason
	case apihelpers.APIApprovalBypassed:
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionFalse, "UnapprovedAnnotation", reason
	case apihelpers.APIApprovalMissing:
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionFalse, "MissingAnnotation", reason
	default:
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionFalse, "InvalidAnnotation", reason
	}
	set(crd, c, now)
}

func set(crd *apiextensionsv1.CustomResourceDefinition, c apiextensionsv1.CustomResourceDefinitionCondition, now metav1.Time) {
	old := apihelpers.FindCRDCondition(crd, c.Type)
	if c.LastTransitionTime = now; old == nil {
		crd.Status.Conditions = append(crd.Status.Conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
}

// taken is the error for a name that another definition has.
type taken struct {
	error
	reason string
}

// accept decides the names: the requested ones where they are free, else the
// present ones.
func accept(crd *apiextensionsv1.CustomResourceDefinition, others []*apiextensionsv1.CustomResourceDefinition) (names apiextensionsv1.CustomResourceDefinitionNames, conflict *taken) {
	var resources, kinds []string
	for _, o := range others {
		if n := o.Status.AcceptedNames; o.Name != crd.Name && o.Spec.Group == crd.Spec.Group {
			resources = append(append(resources, n.Plural, n.Singular), n.ShortNames...)
			kinds = append(kinds, n.Kind, n.ListKind)
		}
	}
	want, names := crd.Spec.Names, crd.Status.AcceptedNames
	settle := func(want string, have *string, used []string, reason string) {
		if want != *have && slices.Contains(used, want) {
			conflict = &taken{inUse(want), reason}
			return
		}
		*have = want
	}
	settle(want.Plural, &names.Plural, resources, "PluralConflict")
	settle(want.Singular, &names.Singular, resources, "SingularConflict")
	var errs []error
	for _, short := range want.ShortNames {
		if !slices.Contains(names.ShortNames, short) && slices.Contains(resources, short) {
			errs = append(errs, inUse(short))
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		conflict = &taken{err, "ShortNamesConflict"}
	} else {
		names.ShortNames = want.ShortNames
	}
	settle(want.Kind, &names.Kind, kinds, "KindConflict")
	settle(want.ListKind, &names.ListKind, kinds, "ListKindConflict")
	names.Categories = want.Categories
	return names, conflict
}

func inUse(name string) error { return fmt.Errorf("%q is already in use", name) }

// Terminate marks a definition as being deleted: its objects are deleted first.
func Terminate(crd *apiextensionsv1.CustomResourceDefinition, now metav1.Time) {
	set(crd, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionInProgress", Message: "CustomResource deletion is in progress",
	}, now)
}

// Names reads of a stored definition what others must not be called.
func Names(raw []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	var s struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Group string `json:"group"`
		} `json:"spec"`
		Status struct {
			AcceptedNames apiextensionsv1.CustomResourceDefinitionNames `json:"acceptedNames"`
		} `json:"status"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name, crd.Spec.Group, crd.Status.AcceptedNames = s.Metadata.Name, s.Spec.Group, s.Status.AcceptedNames
	return crd, nil
}
