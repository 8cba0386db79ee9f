// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/capstan-dev/capstan/internal/app/controllers"
)

func TestDiagnosticsAskForAuthenticationWhereOthersReachThem(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		address  string
		insecure bool
		want     bool
	}{
		"no address":              {address: "0"},
		"loopback":                {address: "127.0.0.1:9090"},
		"loopback of IPv6":        {address: "[::1]:9090"},
		"loopback by name":        {address: "localhost:0"},
		"every address":           {address: ":9090", want: true},
		"every address, in words": {address: "0.0.0.0:9090", want: true},
		"every address of IPv6":   {address: "[::]:9090", want: true},
		"one address":             {address: "192.0.2.1:9090", want: true},
		"a name":                  {address: "localhost.example.com:9090", want: true},
		"no port":                 {address: "127.0.0.1", want: true},
		"told otherwise":          {address: ":9090", insecure: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served, err := Options{MetricsAddress: tc.address, InsecureDiagnostics: tc.insecure}.metrics()
			if err != nil {
				t.Fatal(err)
			}
			_, profiles := served.ExtraHandlers[profilesPath]
			if served.SecureServing != tc.want || (served.FilterProvider != nil) != tc.want || profiles != tc.want {
				t.Errorf("secure %v, filter %v, profiles %v: want %v", served.SecureServing, served.FilterProvider != nil, profiles, tc.want)
			}
			_, err = Options{Providers: []string{controllers.Core}, PprofAddress: tc.address, InsecureDiagnostics: tc.insecure}.complete()
			if (err != nil) != tc.want || err != nil && !strings.Contains(err.Error(), "--insecure-diagnostics") {
				t.Errorf("profiles: %v", err)
			}
		})
	}
}

func TestOnlyWhomTheAPIServerLetsReadsDiagnostics(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header   string
		down     bool
		wantCode int
	}{
		"nobody":                       {wantCode: 401},
		"a password":                   {header: "Basic Z29vZDpnb29k", wantCode: 401},
		"an empty token":               {header: "Bearer ", wantCode: 401},
		"a stranger":                   {header: "Bearer stranger", wantCode: 401},
		"somebody":                     {header: "Bearer somebody", wantCode: 403},
		"a reader":                     {header: "Bearer reader", wantCode: 200},
		"a reader, without API server": {header: "Bearer reader", down: true, wantCode: 500},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := fake.NewClientset()
			set.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
				review.Status.Authenticated = review.Spec.Token != "stranger"
				review.Status.User = authenticationv1.UserInfo{Username: review.Spec.Token, Groups: []string{"g"}}
				if tc.down {
					return true, nil, errors.New("no answer")
				}
				return true, review, nil
			})
			set.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
				asked := *review.Spec.NonResourceAttributes
				review.Status.Allowed = review.Spec.User == "reader" && review.Spec.Groups[0] == "g" && asked == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
				return true, review, nil
			})
			g := &guard{
				next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), log: logr.Discard(),
				tokens: set.AuthenticationV1().TokenReviews(), access: set.AuthorizationV1().SubjectAccessReviews(),
			}
			r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil), httptest.NewRecorder()
			if tc.header != "" {
				r.Header.Set("Authorization", tc.header)
			}
			if g.ServeHTTP(w, r); w.Code != tc.wantCode {
				t.Errorf("code %d, want %d", w.Code, tc.wantCode)
			}
			if _, token, _ := strings.Cut(tc.header, " "); token != "" && strings.Contains(w.Body.String(), token) {
				t.Errorf("the answer holds the token: %s", w.Body)
			}
		})
	}
}

func TestDiagnosticsAreServedByTLS(t *testing.T) {
	t.Parallel()
	cert, err := ownCertificate()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: cert.get})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_ = conn.(*tls.Conn).HandshakeContext(context.Background())
		}
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context()); err != nil {
		t.Error(err)
	}
}
