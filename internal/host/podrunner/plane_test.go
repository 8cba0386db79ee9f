// SPDX-License-Identifier: Apache-2.0

package podrunner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/host/ociimages/programs"
	"github.com/capstan-dev/capstan/internal/host/podagent"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

// TestImagesFindsNamesOnly: a Pod must not get the image of another tenant by digits of
// its digest, which are valid names of images.
func TestImagesFindsNamesOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	archive := filepath.Join(dir, "a.tar")
	if err := programs.Save(archive, "tool:v1", []string{"/tool"}, []programs.File{{Path: "/tool", Content: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	store, err := ociimages.Open(filepath.Join(dir, "images"), ociimages.Options{})
	if err != nil {
		t.Fatal(err)
	}
	imported, err := store.Import(t.Context(), archive)
	if err != nil || len(imported) != 1 {
		t.Fatalf("imported %v, %v", imported, err)
	}
	digest := imported[0].Digest
	digits := strings.TrimPrefix(digest, "sha256:")
	for name, tc := range map[string]struct {
		ref                string
		wantID             string
		missing, wantError bool
	}{
		"a name":             {ref: "docker.io/library/tool:v1", wantID: digest},
		"a short name":       {ref: "tool:v1", wantID: digest},
		"another tag":        {ref: "tool:v2", missing: true, wantError: true},
		"digits":             {ref: digits[:12], missing: true, wantError: true},
		"digits with a kind": {ref: "sha256:" + digits[:12], missing: true, wantError: true},
		"a digest":           {ref: digest, missing: true, wantError: true},
		"all digits":         {ref: digits, wantError: true}, // no name, as for containerd
		"no name":            {ref: "Tool", wantError: true},
		"an empty name":      {ref: "", wantError: true},
	} {
		got, err := Images{Store: store}.Find(tc.ref)
		if got.Digest != tc.wantID || (err != nil) != tc.wantError || errors.Is(err, podagent.ErrNoImage) != tc.missing {
			t.Errorf("%s: got %q, %v, want %q, missing %v", name, got.Digest, err, tc.wantID, tc.missing)
		}
	}
	if got, err := (Images{Store: store}).Find("tool:v1"); err != nil || !cmp.Equal(got.Entrypoint, []string{"/tool"}) || !got.Imported {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestKeychainErrorShowsNoSecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"auths": {"r.io": {"password": "s3cret"`, `["s3cret"]`, `{"auths": "s3cret"}`} {
		if chain, err := keychain([][]byte{[]byte(text)}); err == nil || chain != nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, %v, want an error without its text", text, chain, err)
		}
	}
	if chain, err := keychain(nil); chain != nil || err != nil {
		t.Errorf("without Secrets: got %v, %v, want nil: the keychain of the host", chain, err)
	}
}

func TestNodeNameIsThatOfHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"Worker-1.Example.com": "worker-1.example.com", "node": "node", "": "capstan", "my_host": "capstan", "-a": "capstan",
		"a..b": "capstan", "a.-b": "capstan", "a/../b": "capstan", "ä": "capstan", strings.Repeat("a", 254): "capstan",
	} {
		if got := nodeName(host, nil); got != want {
			t.Errorf("%.20q: got %q, want %q", host, got, want)
		}
	}
	if got := nodeName("node", os.ErrInvalid); got != "capstan" {
		t.Errorf("after an error: got %q", got)
	}
}

func TestNodeIsReadyOnlyWithSandboxes(t *testing.T) {
	t.Parallel()
	p := &Plane{sandboxes: none{errors.New("no user namespaces")}}
	if got := p.ready(); got.Status != corev1.ConditionFalse || got.Message != "no user namespaces" || got.Reason != "NoSandboxes" {
		t.Errorf("without sandboxes: got %+v", got)
	}
	if _, err := p.sandboxes.Start(t.Context(), podagent.Sandbox{}); err == nil || !strings.HasSuffix(err.Error(), "capstan doctor shows: no user namespaces") {
		t.Errorf("a Pod gets %v", err)
	}
	p = &Plane{sandboxes: Sandboxes{}, log: logr.Discard()}
	if got := p.ready(); got.Status != corev1.ConditionTrue || got.Message != "the plane runs Pods" {
		t.Errorf("with sandboxes: got %+v", got)
	}
	p.leave(errors.New("first"))
	p.leave(nil)
	p.leave(errors.New(strings.Repeat("long\n", maxLeft)))
	got := p.ready()
	if !strings.HasPrefix(got.Message, "the plane runs Pods; files of earlier Pods take space: first long") || strings.Contains(got.Message, "\n") || len(got.Message) > 2*maxLeft {
		t.Errorf("with files of earlier Pods: got %d bytes: %.80q", len(got.Message), got.Message)
	}
	node := nodeObject("n", got)
	if node.Labels[corev1.LabelArchStable] != goruntime.GOARCH || node.Labels[corev1.LabelHostname] != "n" {
		t.Errorf("its labels are %v", node.Labels)
	}
	if a := node.Status.Addresses; len(a) != 1 || a[0].Type != corev1.NodeHostName { // an IP address would be dialed
		t.Errorf("its addresses are %v", a)
	}
	c := node.Status.Capacity
	if c.Cpu().Value() != int64(goruntime.NumCPU()) || c.Pods().Value() != 110 || goruntime.GOOS == "linux" && c.Memory().Value() < 1<<20 {
		t.Errorf("its capacity is %v", c)
	}
}

// TestPodsReachNothingBeforeSetup: a sandbox may start before the routes exist.
func TestPodsReachNothingBeforeSetup(t *testing.T) {
	t.Parallel()
	p := &Plane{}
	if reply, err := (network{p}).Resolve(t.Context(), netip.Addr{}, []byte("query")); reply != nil || err == nil {
		t.Errorf("DNS: got %q, %v", reply, err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	c, err := p.Dial(t.Context(), "tcp", ln.Addr().String()) // the plane itself reaches the host
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if err := p.Close(); err != nil {
		t.Errorf("a plane without sandboxes ends with %v", err)
	}
}

func TestTokenIsBoundToItsPod(t *testing.T) {
	t.Parallel()
	ends := metav1.NewTime(time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC))
	for name, tc := range map[string]struct {
		pod           string
		token         podspec.Token
		wantAccount   string
		wantAudiences []string
	}{
		"by default":    {"spec: {}", podspec.Token{Seconds: 3607}, "default", nil},
		"for a service": {"spec: {serviceAccountName: robot}", podspec.Token{Seconds: 600, Audience: "vault"}, "robot", []string{"vault"}},
	} {
		client := fake.NewClientset()
		var asked authenticationv1.TokenRequestSpec
		var account string
		client.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, runtime.Object, error) {
			create := a.(clienttesting.CreateActionImpl)
			asked, account = create.Object.(*authenticationv1.TokenRequest).Spec, create.Namespace+"/"+create.Name
			return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "t", ExpirationTimestamp: ends}}, nil
		})
		pod := builder.Parse[corev1.Pod](t, "metadata: {namespace: ns, name: p, uid: u}\n"+tc.pod)
		token, until, err := tokens{client}.Token(t.Context(), pod, tc.token)
		if err != nil || token != "t" || !until.Equal(ends.Time) || account != "ns/"+tc.wantAccount {
			t.Errorf("%s: got %q until %s of %s, %v", name, token, until, account, err)
		}
		want := authenticationv1.TokenRequestSpec{
			Audiences: tc.wantAudiences, ExpirationSeconds: &tc.token.Seconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"},
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// TestEndingReportsTheEndOfItsConnection: a read that is interrupted by a deadline, as
// the HTTP server does when it passes a connection on, is no end.
func TestEndingReportsTheEndOfItsConnection(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	ctx, closed := context.WithCancel(t.Context())
	defer closed()
	e := &ending{far, closed}
	if err := e.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("after a deadline: %v, %v", err, ctx.Err())
	}
	if err := e.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(near, bytes.NewReader([]byte("x"))); _ = near.Close() }()
	if all, err := io.ReadAll(e); string(all) != "x" || err != nil || ctx.Err() == nil {
		t.Errorf("at its end: got %q, %v, %v", all, err, ctx.Err())
	}
}
