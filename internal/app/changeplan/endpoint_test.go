// SPDX-License-Identifier: Apache-2.0

package changeplan_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-dev/capstan/internal/app/changeplan"
)

// jane is the client of these tests.
var jane = &user.DefaultInfo{Name: "jane", UID: "7", Groups: []string{"team-a"}, Extra: map[string][]string{"scope": {"x"}}}

// endpoint serves the endpoint of a plane to jane. The shell runs script in place of the
// program that makes plans, with its arguments. before, if not nil, is called first.
func endpoint(t *testing.T, script string, before func()) (url, dir string) {
	t.Helper()
	dir = t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	cfg := clientcmdapi.NewConfig()
	cfg.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: "secret"}
	if err := clientcmd.WriteToFile(*cfg, kubeconfig); err != nil {
		t.Fatal(err)
	}
	e := changeplan.NewEndpoint(kubeconfig, func(ctx context.Context, args ...string) *exec.Cmd {
		if before != nil {
			before()
		}
		return exec.CommandContext(ctx, "sh", append([]string{"-c", script}, args...)...)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Anonymous") == "" {
			r = r.WithContext(request.WithUser(r.Context(), jane))
		}
		e.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, dir
}

func post(url, body string) (code int, text string, err error) {
	r, err := http.Post(url, "application/yaml", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = r.Body.Close() }()
	data, err := io.ReadAll(r.Body)
	return r.StatusCode, string(data), err
}

func TestEndpointPlansAsItsClient(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"0", "2", "3"} {
		url, dir := endpoint(t, `echo "$0 $*"; cat; cp "${4#--kubeconfig=}" "${4#--kubeconfig=}.copy"; exit `+status, nil)
		code, text, err := post(url+"?namespace=team-a", "kind: Cluster\n")
		file := filepath.Join(dir, "plan.kubeconfig")
		want := "plan --filename=- --output=json --namespace=team-a --kubeconfig=" + file + "\nkind: Cluster\n"
		if code != http.StatusOK || err != nil || text != want {
			t.Errorf("status %s: %d, %v, %q, want %q", status, code, err, text, want)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("the kubeconfig of the plan is still there: %v", err)
		}
		cfg, err := clientcmd.LoadFromFile(file + ".copy")
		if err != nil {
			t.Fatal(err)
		}
		as := cfg.AuthInfos["admin"]
		if as.Impersonate != "jane" || as.ImpersonateUID != "7" || strings.Join(as.ImpersonateGroups, ",") != "team-a" || as.ImpersonateUserExtra["scope"][0] != "x" {
			t.Errorf("the plan is made as %+v", as)
		}
	}
}

func TestEndpointSaysWhyThereIsNoPlan(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script, query, body string
		code                int
		want                string
	}{
		"a change that is refused":        {"echo 'capstan: Cluster x: forbidden' >&2; exit 1", "", "kind: Cluster", 400, "Cluster x: forbidden"},
		"a program that fails":            {"echo panic >&2; exit 9", "", "", 500, "panic"},
		"a program with much to say":      {"head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1", "", "", 400, "xxx"},
		"an unknown parameter":            {"", "?output=yaml", "", 400, `parameter "output"`},
		"a parameter that is given twice": {"", "?namespace=a&namespace=b", "", 400, `parameter "namespace"`},
		"a large change":                  {"", "", strings.Repeat("x", 3<<20+1), 413, "at most 3 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := endpoint(t, tc.script, nil)
			code, text, err := post(url+tc.query, tc.body)
			var status metav1.Status
			if code != tc.code || err != nil || json.Unmarshal([]byte(text), &status) != nil || status.Kind != "Status" || !strings.Contains(status.Message, tc.want) || len(text) > 40_000 {
				t.Errorf("%d, %v, %.300s; want %d, %s", code, err, text, tc.code, tc.want)
			}
		})
	}
	url, _ := endpoint(t, "", nil)
	for method, header := range map[string]string{"GET": "X", "POST": "Anonymous"} {
		r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(header, "true")
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if want := map[string]int{"GET": 405, "POST": 401}[method]; got.StatusCode != want {
			t.Errorf("%s: %s, want %d", method, got.Status, want)
		}
	}
}

func TestEndpointBreaksOffAPlanThatIsIncomplete(t *testing.T) {
	t.Parallel()
	url, _ := endpoint(t, `echo '{"kind": "Plan",'; exit 9`, nil)
	if _, text, err := post(url, ""); err == nil {
		t.Errorf("the client gets %q as a whole plan", text)
	}
}

func TestEndpointMakesOnePlanAtATime(t *testing.T) {
	t.Parallel()
	begins, goOn := make(chan struct{}), make(chan struct{})
	url, _ := endpoint(t, "echo {}", func() {
		begins <- struct{}{}
		<-goOn
	})
	first := make(chan int)
	for range 2 {
		go func() {
			code, _, _ := post(url, "")
			first <- code
		}()
		<-begins
		if code, text, _ := post(url, ""); code != http.StatusTooManyRequests || !strings.Contains(text, `"retryAfterSeconds":10`) {
			t.Errorf("a request while a plan is made: %d %s", code, text)
		}
		goOn <- struct{}{}
		if code := <-first; code != http.StatusOK {
			t.Errorf("the request that was first: %d", code)
		}
	}
}
