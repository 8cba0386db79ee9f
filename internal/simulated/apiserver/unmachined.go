// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unmachined answers what would need a machine to answer, or a container on
// one: its log, a command in it, a connection through it.
func (s *Server) unmachined(r *request) error {
	if _, err := s.objects.Entry(r.kind, r.namespace, r.name); err != nil {
		return err
	}
	what := map[string]string{
		"log": "there is no container that writes a log", "exec": "there is no container to run a command in",
		"attach": "there is no container to attach to", "proxy": "there is nothing to connect to",
	}[r.sub]
	return apierrors.NewBadRequest(fmt.Sprintf("%s %q is simulated: %s", r.kind.Singular(), r.name, what))
}

// bind gives a Pod to a node.
func (s *Server) bind(w http.ResponseWriter, r *request) error {
	if r.verb != "create" {
		return apierrors.NewMethodNotSupported(r.kind.GroupResource(), r.verb)
	}
	var b corev1.Binding
	if err := receive(r, corev1.SchemeGroupVersion.WithKind("Binding"), &b); err != nil {
		return err
	}
	switch {
	case r.name != "" && b.Name == "":
		b.Name = r.name
	case r.name != "" && b.Name != r.name:
		return apierrors.NewBadRequest("name in URL does not match name in Binding object")
	case b.Target.Kind != "" && b.Target.Kind != "Node" || b.Target.Name == "":
		return apierrors.NewBadRequest("target must be the name of a Node")
	}
	if err := s.objects.Bind(r.namespace, &b); err != nil {
		return err
	}
	return respond(w, http.StatusCreated, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusCreated,
	})
}
