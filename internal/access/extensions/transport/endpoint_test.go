// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/pem"
	neturl "net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPathsAreJoinedToThatOfTheEndpoint(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		endpoint Endpoint
		want     string
	}{
		"URL without a path":                    {Endpoint{URL: "https://ext.example"}, "https://ext.example/v1/hook"},
		"URL with a slash":                      {Endpoint{URL: "https://ext.example/"}, "https://ext.example/v1/hook"},
		"URL with a path":                       {Endpoint{URL: "https://ext.example:8443/a/b"}, "https://ext.example:8443/a/b/v1/hook"},
		"URL with a path and a slash":           {Endpoint{URL: "https://ext.example/a/"}, "https://ext.example/a/v1/hook"},
		"URL with an escape":                    {Endpoint{URL: "https://ext.example/a%2Fb"}, "https://ext.example/a%2Fb/v1/hook"},
		"URL of an IPv6 address":                {Endpoint{URL: "https://[::1]:8443"}, "https://[::1]:8443/v1/hook"},
		"Service":                               {Endpoint{Service: &Service{Namespace: "ns", Name: "svc"}}, "https://svc.ns.svc:443/v1/hook"},
		"Service with a port":                   {Endpoint{Service: &Service{Namespace: "ns", Name: "svc", Port: 9443}}, "https://svc.ns.svc:9443/v1/hook"},
		"Service with a path":                   {Endpoint{Service: &Service{Namespace: "ns", Name: "svc", Path: "/a/"}}, "https://svc.ns.svc:443/a/v1/hook"},
		"Service with a path, no slash":         {Endpoint{Service: &Service{Namespace: "ns", Name: "svc", Path: "a"}}, "https://svc.ns.svc:443/a/v1/hook"},
		"Service whose path looks like a query": {Endpoint{Service: &Service{Namespace: "ns", Name: "svc", Path: "/a?b"}}, "https://svc.ns.svc:443/a%3Fb/v1/hook"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, Options{})
			s, err := p.server(tc.endpoint)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second result is cached
				u := *s.target("/v1/hook")
				u.RawQuery = "timeout=1s"
				if got := u.String(); got != tc.want+"?timeout=1s" {
					t.Errorf("got %s, want %s", got, tc.want)
				}
			}
		})
	}
}

func TestHostIsWhatMessagesAndMetricsName(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]Endpoint{
		"ext.example:443":  {URL: "https://EXT.example/path"},
		"ext.example:8443": {URL: "https://user:secret@ext.example:8443"},
		"[::1]:443":        {URL: "https://[::1]"},
		"svc.ns.svc:443":   {Service: &Service{Namespace: "ns", Name: "svc"}},
		"svc.ns.svc:9443":  {Service: &Service{Namespace: "ns", Name: "svc", Port: 9443}},
		"unknown host":     {URL: "https://\x01secret"},
	} {
		if got := e.Host(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestAnEndpointThatMakesNoSenseIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	broken := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")}))
	tests := map[string]struct {
		endpoint Endpoint
		want     string
	}{
		"nothing":                      {Endpoint{}, "neither a URL nor a Service is given"},
		"both":                         {Endpoint{URL: "https://a", Service: &Service{Namespace: "ns", Name: "svc"}}, "both a URL and a Service"},
		"plain HTTP":                   {Endpoint{URL: "http://a"}, "must begin with https://, not http://"},
		"no scheme":                    {Endpoint{URL: "ext.example"}, "must begin with https://"},
		"no host":                      {Endpoint{URL: "https:///a"}, "names no host"},
		"password":                     {Endpoint{URL: "https://u:secret@a"}, "must not hold a user or a password"},
		"password that cannot be read": {Endpoint{URL: "https://u:secret\x01@a"}, "cannot be parsed"},
		"query":                        {Endpoint{URL: "https://a?b"}, "without a query and a fragment"},
		"empty query":                  {Endpoint{URL: "https://a?"}, "without a query and a fragment"},
		"fragment":                     {Endpoint{URL: "https://a#b"}, "without a query and a fragment"},
		"port too high":                {Endpoint{URL: "https://a:65536"}, "port 65536 of the URL is not within 1 and 65535"},
		"Service without a name":       {Endpoint{Service: &Service{Namespace: "ns"}}, "needs a name and a namespace"},
		"Service with a negative port": {Endpoint{Service: &Service{Namespace: "ns", Name: "svc", Port: -1}}, "port -1 of the Service is not within"},
		"bundle without a certificate": {Endpoint{URL: "https://a", CABundle: []byte("hello")}, "the CA bundle holds no PEM certificate: put the certificate"},
		"bundle with a key alone":      {Endpoint{URL: "https://a", CABundle: []byte(key)}, "the CA bundle holds no PEM certificate"},
		"bundle with a broken one":     {Endpoint{URL: "https://a", CABundle: []byte(broken)}, "the CA bundle holds a certificate that cannot be parsed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, Options{Services: resolver(func(string, string, int32) (string, error) {
				t.Error("a connection is made")
				return "", nil
			})})
			for range 3 { // it does not cause backoff
				_, err := p.Post(within(t), tc.endpoint, path, []byte(`{}`))
				wantError(t, err, BadEndpoint, tc.want)
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("reveals a secret: %v", err)
				}
			}
		})
	}
}

func TestEndpointsThatDifferDoNotShareConnections(t *testing.T) {
	t.Parallel()
	bundle := newAuthority(t, "a").pem
	svc := Service{Namespace: "ns", Name: "svc"}
	all := []Endpoint{
		{URL: "https://a"}, {URL: "https://b"}, {URL: "https://a", CABundle: bundle}, {URL: "https://a/x"},
		{Service: &svc}, {Service: &Service{Namespace: "ns", Name: "svc", Port: 1}}, {Service: &Service{Namespace: "ns", Name: "svc", Path: "/x"}}, {Service: &svc, CABundle: bundle},
	}
	seen := map[key]int{}
	for i, e := range all {
		if other, ok := seen[e.key()]; ok {
			t.Errorf("%v and %v share", all[other], e)
		}
		seen[e.key()] = i
	}
	if (Endpoint{Service: new(svc)}).key() != all[4].key() {
		t.Error("the same Service twice is not the same")
	}
}

func FuzzEndpointsTakeAnyURL(f *testing.F) {
	for _, u := range []string{"", "https://a", "https://u:p@[::1%25eth0]:1/x/../y?z#w", "https://%e4/%2f//b", "https://a:99999", "//a", "https://a\x00"} {
		f.Add(u, "/v1/hook")
	}
	f.Fuzz(func(t *testing.T, url, path string) {
		e := Endpoint{URL: url}
		if host := e.Host(); !utf8.ValidString(host) || len(host) > maxExcerpt || strings.ContainsAny(host, "@\n\x00/") {
			t.Errorf("host %q", host)
		}
		base, err := e.base()
		if err != nil {
			return
		}
		s := &server{base: base, targets: map[string]*neturl.URL{}}
		if got := s.target(path); got.Scheme != "https" || got.Host != base.Host || !strings.HasPrefix(got.EscapedPath(), "/") || got.RawQuery != "" || got.User != nil {
			t.Errorf("%q and %q make %q", url, path, got)
		}
	})
}
