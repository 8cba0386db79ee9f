// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func TestGuardRefusesServers(t *testing.T) {
	t.Parallel()
	addresses := map[string]string{"local.example.com": "127.0.0.1", "cdn.example.com": "198.51.100.7"}
	for name, tc := range map[string]struct {
		method, url string
		redirected  bool
		registry    string // ghcr.io if empty
		plain       func(string) bool
		want        string // part of the error
	}{
		"the registry":                      {url: "https://ghcr.io/v2/"},
		"the registry on another port":      {url: "https://GHCR.io:5000/token"},
		"the registry without TLS":          {url: "http://ghcr.io/v2/", want: "would be asked without encryption"},
		"another server":                    {url: "https://cdn.example.com/blob", redirected: true},
		"another server without TLS":        {url: "http://cdn.example.com/blob", redirected: true, want: "would be asked without encryption"},
		"a private address":                 {url: "https://10.1.2.3/token"},
		"a metadata service":                {url: "https://169.254.169.254/token", want: "has the local address 169.254.169.254"},
		"a name of this host":               {url: "https://local.example.com/token", want: "ghcr.io names server local.example.com, which has the local address 127.0.0.1"},
		"a host that is not found":          {url: "https://unknown.example.com/token"},
		"a token":                           {method: http.MethodPost, url: "https://cdn.example.com/token"},
		"a redirected token":                {method: http.MethodPost, url: "https://cdn.example.com/token", redirected: true, want: "request for a token is redirected to cdn.example.com"},
		"this host for a registry of it":    {registry: "127.0.0.1", url: "http://127.0.0.2/token", plain: IsLoopback},
		"plain HTTP for a registry of it":   {registry: "127.0.0.1", url: "http://cdn.example.com/blob", plain: IsLoopback, want: "would be asked without encryption"},
		"another name for a registry of it": {registry: "local.example.com", url: "https://127.0.0.2/token", plain: IsLoopback},
		"this host for one without TLS":     {url: "http://127.0.0.2/token", plain: IsLoopback, want: "ghcr.io names server 127.0.0.2, which has the local address 127.0.0.2"},
		"metadata for one without TLS":      {url: "https://169.254.169.254/token", plain: IsLoopback, want: "has the local address 169.254.169.254"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &guard{hostname: cmp.Or(tc.registry, "ghcr.io"), plain: tc.plain, resolve: func(_ *http.Request, host string) []netip.Addr {
				if a, err := netip.ParseAddr(cmp.Or(addresses[host], host)); err == nil {
					return []netip.Addr{a}
				}
				return nil
			}}
			r, err := http.NewRequestWithContext(t.Context(), tc.method, tc.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tc.redirected {
				r.Response = &http.Response{}
			}
			if err := g.check(r); err == nil && tc.want != "" || err != nil && (tc.want == "" || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
