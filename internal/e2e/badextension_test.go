// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// handlers is an answer to discovery.
func handlers(list string) http.HandlerFunc {
	return answers("application/json", `{"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "DiscoveryResponse", "status": "Success", "handlers": [`+list+`]}`)
}

func handler(name, version, hook string) string {
	return fmt.Sprintf(`{"name": %q, "requestHook": {"apiVersion": "hooks.runtime.cluster.x-k8s.io/%s", "hook": %q}}`, name, version, hook)
}

func answers(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

// badExtensions are each a separate server, and the messages that its
// ExtensionConfig must have.
var badExtensions = map[string]struct {
	serve http.HandlerFunc
	leaf  func(*certs.Leaf)
	says  []string
}{
	"an answer that is no JSON": {
		serve: answers("application/json", `{"status": "Succ`),
		says:  []string{"unexpected end of JSON input"},
	},
	"a page of something else": {
		serve: answers("text/html", "<html>Welcome to nginx!</html>"),
		says:  []string{"its answer is text/html, not application/json: is this the server of an extension?"},
	},
	"an answer to another question": {
		serve: answers("application/json", `{"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "BeforeClusterCreateResponse", "status": "Success"}`),
		says:  []string{"BeforeClusterCreateResponse", "DiscoveryResponse"},
	},
	"an answer that says neither Success nor Failure": {
		serve: answers("application/json", `{"status": "Perhaps"}`),
		says:  []string{`"Perhaps"`, "Success", "Failure"},
	},
	"a failure": {
		serve: answers("application/json", `{"status": "Failure", "message": "the licence has expired"}`),
		says:  []string{"the licence has expired"},
	},
	"handlers with all kinds of mistakes": {
		serve: handlers(strings.Join([]string{
			handler("twice", "v1alpha1", "BeforeClusterCreate"), handler("twice", "v1alpha1", "BeforeClusterDelete"),
			handler("Upper", "v1alpha1", "BeforeClusterCreate"), handler("new", "v9", "BeforeClusterCreate"),
			handler("lunch", "v1alpha1", "BeforeLunch"), handler("itself", "v1alpha1", "Discovery"),
			strings.Replace(handler("slow", "v1alpha1", "BeforeClusterCreate"), "{", `{"timeoutSeconds": 31, "failurePolicy": "Shrug", `, 1),
		}, ",")),
		says: []string{`handlers[1] "twice"`, `handlers[2] "Upper"`, "x-k8s.io/v9", "BeforeLunch", `handlers[5] "itself"`, "31", `"Shrug"`},
	},
	"an answer without end": {
		serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for spaces := bytes.Repeat([]byte(" "), 1<<20); ; {
				if _, err := w.Write(spaces); err != nil {
					return // the plane has seen enough
				}
			}
		},
		says: []string{"its answer has more than the 20971520 bytes allowed"},
	},
	"five gibibytes": {
		serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "5368709120")
			w.WriteHeader(http.StatusOK)
		},
		says: []string{"its answer has 5368709120 bytes, more than the 20971520 allowed"},
	},
	"an answer that trickles": {
		serve: func(w http.ResponseWriter, r *http.Request) {
			for tick := time.NewTicker(100 * time.Millisecond); r.Context().Err() == nil; <-tick.C {
				_, _ = io.WriteString(w, " ")
				w.(http.Flusher).Flush()
			}
		},
		says: []string{"time ran out after some bytes of its answer"},
	},
	"a server that hangs up in the middle": {
		serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"status": `)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		says: []string{"its answer broke off after some bytes"},
	},
	"a redirect": {
		serve: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example.com/", http.StatusTemporaryRedirect)
		},
		says: []string{"elsewhere.example.com"},
	},
	"an error of the server": {
		serve: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "out of memory", http.StatusInternalServerError)
		},
		says: []string{"500", "out of memory"},
	},
	"a certificate that has expired": {
		serve: handlers(""), leaf: func(l *certs.Leaf) { l.Now, l.Validity = time.Now().Add(-2*time.Hour), time.Hour },
		says: []string{"certificate", "expired"},
	},
	"a certificate for another name": {
		serve: handlers(""), leaf: func(l *certs.Leaf) { l.IPs, l.DNSNames = nil, []string{"other.example.com"} },
		says: []string{"certificate", "other.example.com", "127.0.0.1"},
	},
}

func TestBadExtensionsAreReported(t *testing.T) {
	t.Parallel()
	for name, tc := range badExtensions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &extension{fleet: newFleet(t)}
			ca, err := certs.NewCA(certs.ECDSAP256, "bad", time.Now().Add(-3*time.Hour), 24*time.Hour)
			x.must(err)
			x.serveBadly(ca, tc.serve, tc.leaf)
			c := x.config("", func(c *runtimev1.ExtensionConfig) {
				c.Annotations, c.Spec.ClientConfig.CABundle = nil, ca.Cert
			})
			x.eventually(func() error { return x.undiscovered(c, tc.says[0]) })
			for _, says := range tc.says[1:] {
				x.must(x.undiscovered(c, says))
			}
			x.must(x.registered(c.Name)) // nothing of it can be called
		})
	}
}

// serveBadly starts a server with a certificate of ca.
func (x *extension) serveBadly(ca certs.Pair, serve http.HandlerFunc, change func(*certs.Leaf)) {
	x.Helper()
	leaf := certs.Leaf{CommonName: "bad", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true, Now: time.Now(), Validity: time.Hour}
	if change != nil {
		change(&leaf)
	}
	issued, err := ca.Issue(leaf)
	x.must(err)
	pair, err := tls.X509KeyPair(issued.Cert, issued.Key)
	x.must(err)
	x.server = httptest.NewUnstartedServer(serve)
	x.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	x.server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused certificates are part of the test
	x.server.StartTLS()
	x.Cleanup(x.server.Close)
	x.Cleanup(x.server.CloseClientConnections)
}

func TestExtensionConfigsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	x := &extension{fleet: newFleet(t)}
	for name, tc := range map[string]struct {
		edit func(*runtimev1.ExtensionConfig)
		want string
	}{
		"a selector that cannot be parsed": {
			func(c *runtimev1.ExtensionConfig) {
				c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
			},
			"spec.namespaceSelector",
		},
		"a url and a service": {
			func(c *runtimev1.ExtensionConfig) {
				c.Spec.ClientConfig.Service = runtimev1.ServiceReference{Namespace: "a", Name: "b"}
			},
			"spec.clientConfig: Forbidden: has both url and service; leave one of them out",
		},
		"plain http": {
			func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = "http://example.com" },
			"spec.clientConfig.url",
		},
		"an authority that is none": {
			func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.CABundle = []byte("trust me") },
			"spec.clientConfig.caBundle",
		},
	} {
		c := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: x.Namespace}}
		c.Spec.ClientConfig.URL = "https://example.com"
		tc.edit(c)
		if err := x.Client.Create(t.Context(), c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}
