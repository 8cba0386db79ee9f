// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

const manifest = `{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json"}}`

// fake is a registry of one image, which accepts the clients for which the function
// may returns true.
type fake struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string // METHOD PATH Authorization
	status int      // instead of the manifest
}

func newFake(t *testing.T, challenge string, may func(r *http.Request) bool) *fake {
	t.Helper()
	f := unstarted(challenge, may)
	f.Start()
	t.Cleanup(f.Close)
	return f
}

func unstarted(challenge string, may func(r *http.Request) bool) *fake {
	f := &fake{}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.asked = append(f.asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")))
		status := f.status
		f.mu.Unlock()
		switch {
		case r.URL.Path == "/token":
			user, password, _ := r.BasicAuth()
			if user+":"+password != "me:secret" || r.URL.Query().Get("service") != "here" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = fmt.Fprintf(w, `{"token":"t-%s"}`, r.URL.Query().Get("scope"))
		case may != nil && !may(r):
			w.Header().Set("WWW-Authenticate", strings.ReplaceAll(challenge, "SELF", f.URL))
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/v2/":
		case status != 0:
			w.WriteHeader(status)
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			_, _ = fmt.Fprint(w, manifest)
		}
	}))
	return f
}

func (f *fake) host() string { return f.Listener.Addr().String() }

func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// pull requests the manifest of an image.
func pull(t *testing.T, image string, o Options) error {
	t.Helper()
	o.Pause = time.Microsecond
	c, err := New(o)
	if err != nil {
		return err
	}
	full, err := Name(image)
	if err != nil {
		return err
	}
	r, err := c.Open(full, nil)
	if err != nil {
		return err
	}
	m, err := r.Manifest(t.Context(), "")
	if err == nil && string(m.Manifest) != manifest {
		t.Errorf("the manifest is %s", m.Manifest)
	}
	return err
}

func TestWhoAsksIsSaidAsTheRegistryWantsIt(t *testing.T) {
	t.Parallel()
	basic := func(r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		return user+":"+password == "me:secret"
	}
	bearer := func(r *http.Request) bool {
		return r.Header.Get("Authorization") == "Bearer t-repository:org/a:pull"
	}
	for name, tc := range map[string]struct {
		challenge      string
		may            func(*http.Request) bool
		user, password string
		denied         bool
	}{
		"unknown":                     {"", nil, "", "", false},
		"basic":                       {`Basic realm="x"`, basic, "me", "secret", false},
		"basic, wrong":                {`Basic realm="x"`, basic, "me", "guess", true},
		"basic, unknown":              {`Basic realm="x"`, basic, "", "", true},
		"a token":                     {`Bearer realm="SELF/token",service="here"`, bearer, "me", "secret", false},
		"a token, wrong":              {`Bearer realm="SELF/token",service="here"`, bearer, "me", "guess", true},
		"a token is not worth enough": {`Bearer realm="SELF/token",service="here"`, func(*http.Request) bool { return false }, "me", "secret", true},
	} {
		f := newFake(t, tc.challenge, tc.may)
		err := pull(t, f.host()+"/org/a:v1", Options{Keychain: Keys{f.host(): {Username: tc.user, Password: tc.password}}})
		if errors.As(err, new(*DeniedError)) != tc.denied || err != nil && !tc.denied {
			t.Errorf("%s: got %v, denied: want %v", name, err, tc.denied)
		}
		if err != nil && tc.password != "" && strings.Contains(err.Error(), tc.password) {
			t.Errorf("%s: the error reveals the password: %v", name, err)
		}
	}
}

func TestCredentialsComeFromTheConfigurationOfDocker(t *testing.T) {
	f := newFake(t, `Basic realm="x"`, func(r *http.Request) bool { user, password, _ := r.BasicAuth(); return user+password == "mesecret" })
	dir := t.TempDir()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("DOCKER_CONFIG", dir)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	helper := `#!/bin/sh
read host
if [ "$1 $host" = "get ` + f.host() + `" ]; then
	echo '{"Username":"me","Secret":"secret"}'
else
	echo 'credentials not found in native keychain'
	exit 1
fi
`
	if err := atomicfile.WriteProgram(filepath.Join(dir, "docker-credential-test"), []byte(helper)); err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]any{
		"recorded":     map[string]any{"auths": map[string]any{f.host(): map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte("me:secret"))}}},
		"by a helper":  map[string]any{"credHelpers": map[string]string{f.host(): "test"}},
		"by the store": map[string]any{"credsStore": "test"},
	} {
		text, err := json.Marshal(config)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := pull(t, f.host()+"/org/a:v1", Options{Keychain: authn.DefaultKeychain}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMirrorsAreAskedFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int // of the first mirror
		second bool
	}{
		"it has the image":       {0, false},
		"it has not":             {http.StatusNotFound, true},
		"it refuses all clients": {http.StatusForbidden, true},
		"it is unhealthy":        {http.StatusBadGateway, true},
		"it is not there yet":    {-1, true},
	} {
		first, second := newFake(t, "", nil), newFake(t, "", nil)
		if tc.status < 0 {
			first.Close()
		}
		first.status = max(tc.status, 0)
		o := Options{Mirrors: map[string][]string{"docker.io": {first.URL + "/hub", second.URL}}}
		if err := pull(t, "busybox", o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if asked := first.requests(); tc.status >= 0 && !slices.Contains(asked, "GET /v2/hub/library/busybox/manifests/latest") {
			t.Errorf("%s: the first was asked %v", name, asked)
		}
		if asked := second.requests(); slices.Contains(asked, "GET /v2/library/busybox/manifests/latest") != tc.second {
			t.Errorf("%s: the second was asked %v", name, asked)
		}
	}
}

func TestTheRegistryItselfIsTheLastMirror(t *testing.T) {
	t.Parallel()
	mirror, own := newFake(t, "", nil), newFake(t, "", nil)
	mirror.status = http.StatusNotFound
	o := Options{Mirrors: map[string][]string{own.host(): {mirror.URL}}}
	if err := pull(t, own.host()+"/org/a:v1", o); err != nil {
		t.Error(err)
	}
	own.status = http.StatusNotFound
	err := pull(t, own.host()+"/org/a:v1", o)
	if found, ok := errors.AsType[*NotFoundError](err); !ok || found.Host != own.host() {
		t.Errorf("got %v, want that the registry has none first", err)
	}
	if _, err := New(Options{Mirrors: map[string][]string{"docker.io": {"mirror.example.com"}}}); err == nil || !strings.Contains(err.Error(), `mirror "mirror.example.com" of docker.io: write it as https://`) {
		t.Errorf("a mirror without a scheme: got %v", err)
	}
}

// elsewhere sends all requests to one server, independent of their host.
func elsewhere(f *fake) http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, f.host())
	}}
}

func TestNothingIsSaidWithoutEncryptionUnlessAskedFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		host   string
		plain  []string
		mirror string
		asked  bool
	}{
		"a registry":                  {"registry.example.com", nil, "", false},
		"a private address":           {"10.1.2.3:5000", nil, "", false},
		"a name of the local network": {"registry.local", nil, "", false},
		"one that is listed":          {"registry.example.com:5000", []string{"registry.example.com:5000"}, "", true},
		"another port of it":          {"registry.example.com:5001", []string{"registry.example.com:5000"}, "", false},
		"a mirror by http":            {"registry.example.com", nil, "http://mirror.example.com", true},
		"a mirror by https":           {"registry.example.com", nil, "https://mirror.local", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "", nil)
			o := Options{Transport: elsewhere(f), PlainHTTP: tc.plain, Keychain: Keys{tc.host: {Username: "me", Password: "secret"}}}
			if tc.mirror != "" {
				o.Mirrors = map[string][]string{tc.host: {tc.mirror}}
			}
			err := pull(t, tc.host+"/org/a:v1", o)
			if (len(f.requests()) > 0) != tc.asked || (err == nil) != tc.asked {
				t.Errorf("the server was asked %v, want %v (%v)", f.requests(), tc.asked, err)
			}
		})
	}
}

func TestARealmOrRedirectWithoutEncryptionIsNotFollowed(t *testing.T) {
	t.Parallel()
	spy := newFake(t, "", nil)
	f := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.Host, "realm"):
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+spy.URL+`/token",service="here"`)
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path != "/v2/":
			http.Redirect(w, r, spy.URL, http.StatusFound)
		}
	}))
	t.Cleanup(f.Close)
	transport := f.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.ServerName = "example.com"
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "127.") {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
		return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(f.URL, "https://"))
	}
	for _, host := range []string{"realm.example.com", "redirects.example.com"} {
		err := pull(t, host+"/org/a:v1", Options{Transport: transport, Keychain: Keys{host: {Username: "me", Password: "secret"}}})
		if err == nil || !strings.Contains(err.Error(), "would be asked without encryption") {
			t.Errorf("%s: got %v", host, err)
		}
	}
	if asked := spy.requests(); len(asked) > 0 {
		t.Errorf("it was asked %v", asked)
	}
}

func TestErrorsAreFitToRead(t *testing.T) {
	t.Parallel()
	f := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = fmt.Fprintf(w, `{"errors":[{"code":"TEAPOT","message":"\u001b[31m%s"}]}`, strings.Repeat("x", 1<<16))
	}))
	t.Cleanup(f.Close)
	err := pull(t, strings.TrimPrefix(f.URL, "http://")+"/org/a:v1", Options{})
	if err == nil || !strings.Contains(err.Error(), "it answers 418 TEAPOT") || len(err.Error()) > 1000 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got %.2000v", err)
	}
}

func TestNamesAreFull(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	for image, want := range map[string]string{
		"busybox":            "docker.io/library/busybox:latest",
		"org/a:v1":           "docker.io/org/a:v1",
		"ghcr.io/org/a":      "ghcr.io/org/a:latest",
		"localhost:5000/a:b": "localhost:5000/a:b",
		"a:v1@" + digest:     "docker.io/library/a@" + digest,
		"UPPER":              "",
		"":                   "",
		"a:b:c":              "",
		"../../a":            "",
		"a@sha256":           "",
	} {
		if got, err := Name(image); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", image, got, err, want)
		}
	}
}
