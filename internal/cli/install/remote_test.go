// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// gitHub is a fake of GitHub, its API, and a Go module proxy, on which every
// repository has a release v1.2.0 and a tag v1.3.0.
type gitHub struct {
	*httptest.Server
	mu        sync.Mutex
	downloads []string // requests since they were last taken
}

func newGitHub(t *testing.T) *gitHub {
	t.Helper()
	g := &gitHub{}
	mux := http.NewServeMux()
	mux.HandleFunc("/proxy/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/v2/@v/list") {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprint(w, "v1.1.0\nv1.3.0\nv1.2.0\n")
	})
	mux.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", "1795384800")
		w.WriteHeader(http.StatusForbidden)
	})
	mux.HandleFunc("/web/{owner}/{name}/releases/download/{version}/{file}", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.downloads = append(g.downloads, strings.TrimPrefix(r.URL.Path, "/web/"))
		g.mu.Unlock()
		switch file := r.PathValue("file"); {
		case r.PathValue("version") == "v1.3.0":
			http.NotFound(w, r)
		case file == "metadata.yaml":
			_, _ = fmt.Fprint(w, "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n- {major: 1, minor: 2, contract: v1beta2}\n- {major: 1, minor: 1, contract: v1beta1}\n")
		default:
			_, _ = fmt.Fprintf(w, "apiVersion: v1\nkind: Namespace\nmetadata: {name: space}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: deployment, namespace: space}\nspec: {template: {spec: {containers: [{name: manager, image: 'r.example/%s/%s'}]}}}\n", r.PathValue("name"), strings.TrimSuffix(file, ".yaml")+":"+r.PathValue("version"))
		}
	})
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Close)
	return g
}

func (g *gitHub) takeDownloads() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := g.downloads
	g.downloads = nil
	return taken
}

// run runs the program in a home, with variables.
func run(t *testing.T, home string, environment []string, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, talk bytes.Buffer
	cmd := exec.CommandContext(t.Context(), testenv.Binary(t), args...)
	cmd.Env = append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, environment...)
	cmd.Stdout, cmd.Stderr = &out, &talk
	_ = cmd.Run() // its output is the result
	return out.String(), talk.String()
}

func TestTheProgramReadsReleasesOfGitHubAndKeepsThem(t *testing.T) {
	t.Parallel()
	g, home := newGitHub(t), t.TempDir()
	environment := []string{"GOPROXY=" + g.URL + "/proxy,direct", "CAPSTAN_GITHUB_URL=" + g.URL + "/web", "CAPSTAN_GITHUB_API_URL=" + g.URL + "/api"}
	list := []string{"init", "list-images", "--infrastructure", "aws,docker:v1.1.0", "--bootstrap", "-", "--control-plane", "-"}
	const want = `r.example/cert-manager/cert-manager:v1.21.1
r.example/cluster-api-provider-aws/infrastructure-components:v1.2.0
r.example/cluster-api/core-components:v1.2.0
r.example/cluster-api/infrastructure-components-development:v1.1.0
`
	for n := range 2 {
		stdout, stderr := run(t, home, environment, list...)
		if diff := cmp.Diff(want, stdout); diff != "" || stderr != "" {
			t.Errorf("stderr %s, images (-want +got):\n%s", stderr, diff)
		}
		for _, at := range g.takeDownloads() {
			if n > 0 && !strings.Contains(at, "/v1.3.0/") {
				t.Errorf("%s is fetched again", at)
			}
		}
	}
	_, stderr := run(t, home, append(environment, "GOPROXY=off"), list...)
	if !strings.Contains(stderr, "GitHub's rate limit is used up until 2026-11-22 22:00:00 UTC: wait until then, or set GITHUB_TOKEN") {
		t.Errorf("stderr %s", stderr)
	}
}
