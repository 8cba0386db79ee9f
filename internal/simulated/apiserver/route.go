// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

var noResource = schema.GroupResource{}

// route answers a request that is allowed.
func (s *Server) route(w http.ResponseWriter, r *request) error {
	if r.gvr.Resource == "" {
		return s.document(w, r)
	}
	if r.kind == nil && s.objects.Kinds().Group(r.gvr.Group) == nil {
		return errNoPage
	}
	if r.kind == nil || !r.kind.HasSub(r.sub) {
		return notServed()
	}
	if r.kind.Namespaced && r.namespace == "" && (r.name != "" || r.verb == "create") {
		if r.verb == "create" {
			return apierrors.NewBadRequest("an empty namespace may not be set during creation")
		}
		return notServed()
	}
	if r.namespace != "" && !r.kind.Namespaced && r.kind.Resource != "namespaces" {
		return notServed()
	}
	if c := r.kind.Custom; c != nil && c.Warning != "" {
		warn(w, []string{c.Warning})
	}
	if r.kind.Virtual {
		return s.answerQuestion(w, r)
	}
	switch r.sub {
	case "", "status", "approval", "finalize", "ephemeralcontainers", "resize":
		return s.object(w, r)
	case "binding":
		return s.bind(w, r)
	case "log", "exec", "attach", "proxy":
		return s.unmachined(r)
	case "scale":
		return s.scale(w, r)
	case "eviction":
		return s.evict(w, r)
	case "token":
		return s.token(w, r)
	case "portforward":
		return s.forward(w, r)
	}
	return notServed()
}

func (s *Server) object(w http.ResponseWriter, r *request) error {
	if r.sub == "" && r.kind.Custom == nil && !slices.Contains(r.kind.Verbs, r.verb) {
		return notAllowed()
	}
	switch r.verb {
	case "get":
		return s.get(w, r)
	case "list":
		return s.list(w, r)
	case "watch":
		return s.watch(w, r)
	case "create":
		if r.name == "" {
			return s.create(w, r)
		}
	case "update":
		if r.name != "" {
			return s.update(w, r)
		}
	case "patch":
		if r.name != "" {
			return s.patch(w, r)
		}
	case "delete":
		if r.sub == "" {
			return s.delete(w, r)
		}
	case "deletecollection":
		return s.deleteAll(w, r)
	}
	return notAllowed()
}

func notAllowed() error {
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", noResource, "", "", 0, false)
}

// document answers what is not about a resource.
func (s *Server) document(w http.ResponseWriter, r *request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return apierrors.NewMethodNotSupported(noResource, r.verb)
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch parts[0] {
	case "healthz", "livez", "readyz":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok")) // a client that left needs no answer
		return nil
	case "version":
		return respond(w, http.StatusOK, s.versionInfo())
	case "":
		return respond(w, http.StatusOK, metav1.RootPaths{Paths: s.objects.Kinds().Paths()})
	case "api", "apis":
		return s.discovery(w, r, parts)
	case "metrics":
		s.metrics(w)
		return nil
	case "openapi":
		return s.openAPI(w, r, parts[1:])
	}
	return errNoPage
}

func (s *Server) versionInfo() version.Info {
	text := s.version()
	info := version.Info{GitVersion: text, GitTreeState: "clean", GoVersion: "go", Compiler: "gc", Platform: "linux/amd64"}
	if parts := strings.SplitN(strings.TrimPrefix(text, "v"), ".", 3); len(parts) == 3 {
		info.Major, info.Minor = parts[0], parts[1]
	}
	return info
}

// discovery answers /api and /apis and what is below them, down to the
// resources of a version.
func (s *Server) discovery(w http.ResponseWriter, r *request, parts []string) error {
	legacy, served := parts[0] == "api", s.objects.Kinds()
	switch {
	case len(parts) == 1 && wantsAggregated(r.Header.Get("Accept")):
		list := served.Aggregated(legacy)
		w.Header().Set("Vary", "Accept")
		return respondAs(w, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", list)
	case len(parts) == 1 && legacy:
		return respond(w, http.StatusOK, metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host}},
		})
	case len(parts) == 1:
		return respond(w, http.StatusOK, served.Groups())
	case len(parts) == 2 && !legacy:
		if g := served.Group(parts[1]); g != nil && parts[1] != "" {
			return respond(w, http.StatusOK, g)
		}
	default:
		gv := schema.GroupVersion{Version: parts[len(parts)-1]}
		if !legacy {
			gv.Group = parts[1]
		}
		if list := served.Resources(gv); list != nil && legacy == (gv.Group == "") {
			return respond(w, http.StatusOK, list)
		}
		if served.Group(gv.Group) != nil {
			return notServed()
		}
	}
	return errNoPage
}

func wantsAggregated(accept string) bool {
	for media := range strings.SplitSeq(accept, ",") {
		media = strings.ReplaceAll(media, " ", "")
		if strings.HasPrefix(media, "application/json;") && strings.Contains(media, "as=APIGroupDiscoveryList") &&
			strings.Contains(media, "v=v2") && !strings.Contains(media, "v=v2beta1") {
			return true
		}
	}
	return false
}

// notServed is an API server's answer for an unknown path.
func notServed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
	}}
}
