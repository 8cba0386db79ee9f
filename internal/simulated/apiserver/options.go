// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	internalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/patching"
)

// decodeOptions reads the options in a query.
func decodeOptions(query url.Values, into runtime.Object) error {
	if err := internalscheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// listOptions returns the options of a list or watch.
func listOptions(r *request) (*internalversion.ListOptions, error) {
	o := &internalversion.ListOptions{}
	if err := decodeOptions(r.query, o); err != nil {
		return nil, err
	}
	o.Watch = r.verb == "watch"
	return o, invalidOptions("ListOptions", internalvalidation.ValidateListOptions(o, true))
}

// writing returns the options of a write.
func (s *Server) writing(r *request) (objects.Writing, error) {
	if s.answer().Has(Full) {
		return objects.Writing{}, errors.New("etcdserver: mvcc: database space exceeded")
	}
	w := objects.Writing{Check: s.authz.Limit(r.user, r.kind), Manager: patching.ManagerName(r.query.Get("fieldManager"), r.UserAgent()), Sub: r.sub}
	var dry []string
	var err error
	switch r.verb {
	case "create":
		var o metav1.CreateOptions
		if err = decodeOptions(r.query, &o); err == nil {
			err = invalidOptions("CreateOptions", validation.ValidateCreateOptions(&o))
		}
		dry = o.DryRun
	case "update":
		var o metav1.UpdateOptions
		if err = decodeOptions(r.query, &o); err == nil {
			err = invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(&o))
		}
		dry = o.DryRun
	case "patch":
		var o metav1.PatchOptions
		if err = decodeOptions(r.query, &o); err == nil {
			err = invalidOptions("PatchOptions", validation.ValidatePatchOptions(&o, types.PatchType(r.media())))
		}
		dry = o.DryRun
	}
	w.DryRun = len(dry) > 0
	return w, err
}

// deleteOptions reads how to delete, from the body or, failing that, the
// query.
func deleteOptions(r *request) (metav1.DeleteOptions, error) {
	var o metav1.DeleteOptions
	body, err := r.body()
	if err != nil {
		return o, err
	}
	if len(body) > 0 {
		if err = readable(r.Header.Get("Content-Type")); err == nil {
			err = objects.DecodeOptions(body, &o)
		}
	} else {
		err = decodeOptions(r.query, &o)
	}
	if err != nil {
		return o, err
	}
	return o, invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(&o))
}
