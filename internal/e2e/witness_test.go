// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// witness is a proxy between managers and the API server that records what they
// request, as "verb resource.group/subresource", and what they are refused.
type witness struct {
	*httptest.Server
	fleet fleet

	mu      sync.Mutex // guards what follows
	asked   map[string]bool
	refused map[string]bool
}

func newWitness(f fleet) *witness {
	f.Helper()
	w := &witness{fleet: f, asked: map[string]bool{}, refused: map[string]bool{}}
	to, err := url.Parse(f.Config.Host)
	f.must(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(f.Config.CAData)
	info := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	w.Server = httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true},
		FlushInterval: -1, // events of a watch are not kept
		ModifyResponse: func(resp *http.Response) error {
			asked, err := info.NewRequestInfo(resp.Request)
			if err != nil || !asked.IsResourceRequest {
				return err
			}
			w.note(right(asked.Verb, asked.APIGroup, asked.Resource, asked.Subresource), resp.StatusCode == http.StatusForbidden)
			if asked.Verb == "patch" && resp.StatusCode == http.StatusCreated { // what is applied is created, which requires both rights
				w.note(right("create", asked.APIGroup, asked.Resource, asked.Subresource), false)
			}
			return nil
		},
	})
	f.Cleanup(w.CloseClientConnections)
	return w
}

// authority is that of its certificate, in PEM.
func (w *witness) authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw})
}

func (w *witness) note(right string, refused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[right] = true
	if refused {
		w.refused[right] = true
	}
}

// right is how a right is written here.
func right(verb, group, resource, subresource string) string {
	text := verb + " " + resource
	if group != "" {
		text += "." + group
	}
	if subresource != "" {
		text += "/" + subresource
	}
	return text
}

// compare fails the test when managers were refused something, and when they have
// rights that they have not used, unless unused explains them.
func (w *witness) compare(objects []*unstructured.Unstructured) {
	w.fleet.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, refused := range slices.Sorted(maps.Keys(w.refused)) {
		w.fleet.Errorf("managers were refused: %s", refused)
	}
	granted := w.granted(objects)
	for _, may := range slices.Sorted(maps.Keys(granted)) {
		if !w.asked[may] && whyUnused(may) == "" {
			w.fleet.Errorf("%s has an unused right: %s", granted[may], may)
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(unused)) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(granted)), func(may string) bool { return matches(pattern, may) }) {
			w.fleet.Errorf("the list explains an unused right that no role has: %s", pattern)
		}
	}
}

// granted are the rights of the manager's roles, each with the role that has it.
func (w *witness) granted(objects []*unstructured.Unstructured) map[string]string {
	w.fleet.Helper()
	all := map[string]string{}
	for _, obj := range objects {
		if !strings.HasSuffix(obj.GetKind(), "Role") {
			continue
		}
		role := &rbacv1.ClusterRole{}
		w.fleet.must(runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, role))
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						resource, sub, _ := strings.Cut(resource, "/")
						all[right(verb, group, resource, sub)] = fmt.Sprintf("%s %s", obj.GetKind(), obj.GetName())
					}
				}
			}
		}
	}
	return all
}

// unused explains rights, by a regular expression for all of each, which no story
// of the test needs.
var unused = map[string]string{
	`get .*`:  "who lists may get as well; what is read past the cache is got",
	`list .*`: "what fills a cache is listed where the API server cannot begin a watch with it",
	`\w+ \*\.(infrastructure|bootstrap|controlplane)\.cluster\.x-k8s\.io`:                        "kinds of other vendors, which are not installed here",
	`\w+ local\w+\.infrastructure\.capstan\.dev`:                                                 "the contract asks a provider with a group of its own to give all of these to core",
	`update \w+\.[a-z.]*cluster\.x-k8s\.io/finalizers`:                                           "an API server with OwnerReferencesPermissionEnforcement asks for it",
	`delete (secrets|configmaps)`:                                                                "the same, of who takes over the owning of what a ClusterResourceSet applies",
	`patch secrets`:                                                                              "a ClusterResourceSet becomes an owner of the Secrets that it applies",
	`patch customresourcedefinitions\.apiextensions\.k8s\.io/status`:                             "objects are stored again where definitions are older",
	`patch (machinedrainrules|clusterclasses|ip\w+|extensionconfigs)\.[a-z.]*cluster\.x-k8s\.io`: "the same, of all kinds",
	`patch ipaddressclaims\.ipam\.cluster\.x-k8s\.io/status`:                                     "the same, of what old versions keep there",
	`watch namespaces`: "the namespaces of runtime extensions, of which there is none here",
	`patch extensionconfigs\.runtime\.cluster\.x-k8s\.io/status`:                                 "the status of the same",
	`patch events(\.events\.k8s\.io)?`:                                                           "an event that is repeated is counted",
	`(create|delete) (mutating|validating)webhookconfigurations\.admissionregistration\.k8s\.io`: "a manager without manifests registers its webhooks itself",
	`delete machinehealthchecks\.cluster\.x-k8s\.io`:                                             "a topology deletes those that its class no longer has",
	`create machine(healthchecks|pools)\.cluster\.x-k8s\.io`:                                     "a topology makes them",
	`update providers\.clusterctl\.cluster\.x-k8s\.io`:                                           "a newer release writes its version",
}

func whyUnused(may string) string {
	for pattern, why := range unused {
		if matches(pattern, may) {
			return why
		}
	}
	return ""
}

func matches(pattern, may string) bool {
	return regexp.MustCompile(`^(` + pattern + `)$`).MatchString(may)
}
