// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/access"
)

// answerQuestion answers the kinds that are asked, and not stored.
func (s *Server) answerQuestion(w http.ResponseWriter, r *request) error {
	if r.verb != "create" || r.name != "" {
		return apierrors.NewMethodNotSupported(r.kind.GroupResource(), r.verb)
	}
	switch r.kind.Kind {
	case "SelfSubjectReview":
		var q authenticationv1.SelfSubjectReview
		return answer(w, r, &q, func() { q.Status.UserInfo = userInfo(r.user) })
	case "TokenReview":
		var q authenticationv1.TokenReview
		return answer(w, r, &q, func() {
			user, err := s.authn.Token(q.Spec.Token)
			if q.Spec.Token = ""; err != nil {
				q.Status.Error = err.Error()
			} else {
				q.Status.Authenticated, q.Status.User = true, userInfo(user)
			}
		})
	case "SelfSubjectAccessReview":
		var q authorizationv1.SelfSubjectAccessReview
		return answer(w, r, &q, func() {
			q.Status.Allowed = s.authz.May(r.user, asked(q.Spec.ResourceAttributes, q.Spec.NonResourceAttributes))
		})
	case "SubjectAccessReview":
		var q authorizationv1.SubjectAccessReview
		return answer(w, r, &q, func() {
			user := access.User{Name: q.Spec.User, UID: q.Spec.UID, Groups: q.Spec.Groups}
			q.Status.Allowed = s.authz.May(user, asked(q.Spec.ResourceAttributes, q.Spec.NonResourceAttributes))
		})
	case "LocalSubjectAccessReview":
		var q authorizationv1.LocalSubjectAccessReview
		if err := receive(r, r.kind.GroupVersionKind, &q); err != nil {
			return err
		}
		if a := q.Spec.ResourceAttributes; a == nil || a.Namespace != r.namespace {
			return apierrors.NewBadRequest("spec.resourceAttributes.namespace must match the namespace of the request")
		}
		q.SetGroupVersionKind(r.kind.GroupVersionKind)
		user := access.User{Name: q.Spec.User, UID: q.Spec.UID, Groups: q.Spec.Groups}
		q.Status.Allowed = s.authz.May(user, asked(q.Spec.ResourceAttributes, nil))
		return respond(w, http.StatusCreated, &q)
	case "SelfSubjectRulesReview":
		var q authorizationv1.SelfSubjectRulesReview
		return answer(w, r, &q, func() { q.Status = rulesStatus(s.authz.Rules(r.user, q.Spec.Namespace)) })
	case "Binding":
		return s.bind(w, r)
	}
	return notServed()
}

// answer receives a question into q, and sends it with the status that fill sets.
func answer(w http.ResponseWriter, r *request, q runtime.Object, fill func()) error {
	if err := receive(r, r.kind.GroupVersionKind, q); err != nil {
		return err
	}
	q.GetObjectKind().SetGroupVersionKind(r.kind.GroupVersionKind)
	fill()
	return respond(w, http.StatusCreated, q)
}

// rulesStatus lists rules in the form of a SelfSubjectRulesReview.
func rulesStatus(rules []rbacv1.PolicyRule) (s authorizationv1.SubjectRulesReviewStatus) {
	s.ResourceRules, s.NonResourceRules = []authorizationv1.ResourceRule{}, []authorizationv1.NonResourceRule{}
	for _, r := range rules {
		if len(r.Resources) > 0 {
			s.ResourceRules = append(s.ResourceRules, authorizationv1.ResourceRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
		}
		if len(r.NonResourceURLs) > 0 {
			s.NonResourceRules = append(s.NonResourceRules, authorizationv1.NonResourceRule{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
		}
	}
	return s
}

func userInfo(u access.User) authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups}
}

func asked(r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) access.Attributes {
	switch {
	case r != nil:
		return access.Attributes{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Sub: r.Subresource, Namespace: r.Namespace, Name: r.Name}
	case n != nil:
		return access.Attributes{Verb: n.Verb, Path: n.Path}
	}
	return access.Attributes{}
}
