// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/testenv"
)

const decisionsPath = "/capstan/v1/decisions/"

// decisions returns the decisions at a path, as a user.
func (f fleet) decisions(path, user string) ([]decisions.Decision, []byte, error) {
	cfg := rest.CopyConfig(f.Config)
	cfg.Impersonate.UserName = user
	set, err := kubernetes.NewForConfig(cfg)
	f.must(err)
	text, err := set.RESTClient().Get().AbsPath(decisionsPath + path).DoRaw(f.Context())
	if err != nil {
		return nil, nil, err
	}
	var found struct{ Decisions []decisions.Decision }
	return found.Decisions, text, json.Unmarshal(text, &found)
}

// secret returns which of the values of the Secrets in the namespace a text has.
func (f fleet) secret(text []byte) (found []string) {
	var all corev1.SecretList
	f.must(f.Client.List(f.Context(), &all, client.InNamespace(f.Namespace)))
	if len(all.Items) == 0 {
		f.Error("there are no Secrets")
	}
	for _, s := range all.Items {
		for name, value := range s.Data {
			if name == "format" {
				continue // of bootstrap data: cloud-config or ignition
			}
			encoded, err := json.Marshal(string(value))
			f.must(err)
			if len(value) > 8 && (bytes.Contains(text, value) || bytes.Contains(text, bytes.Trim(encoded, `"`))) { // a shorter one can be part of a word
				found = append(found, fmt.Sprintf("%s of Secret %s/%s", name, s.Namespace, s.Name))
			}
		}
	}
	return found
}

func TestDecisionsSurviveRestart(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	p := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	f := p.start()
	f.create("demo", shape{controlPlane: 1, workers: 1})
	f.becomes("demo")
	of := "kubeadmcontrolplane/default/demo-control-plane"
	before, _, err := f.decisions(of, "")
	f.must(err)
	if len(before) == 0 || !strings.Contains(string(before[0].Plan), "create the first machine") {
		t.Fatalf("decisions %+v", before)
	}
	_, all, err := f.decisions("", "")
	f.must(err)
	if found := f.secret(all); len(found) > 0 {
		t.Errorf("decisions have %s", found)
	}
	f.must(p.stop())
	file := datadir.Dir(p.dir).Decisions()
	info, err := os.Stat(file)
	f.must(err)
	if info.Mode() != 0o600 {
		t.Errorf("mode of %s: %v", file, info.Mode())
	}
	f = p.start()
	after, _, err := f.decisions(of, "")
	f.must(err)
	if diff := cmp.Diff(before, after[:len(before)]); diff != "" {
		t.Errorf("decisions after a restart (-want +got):\n%s", diff)
	}
	f.must(p.stop())
	f.must(os.WriteFile(file, []byte("forged\n"), 0o600))
	f = p.start()
	if after, _, err = f.decisions(of, ""); err != nil || len(after) > 1 { // the first since this start
		t.Errorf("%d decisions of a forged file (%v)", len(after), err)
	}
}

func TestDecisionsNeedPermission(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	user := "reader-of-" + f.Namespace
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{decisionsPath + "machine/" + f.Namespace + "/*"}}},
	}
	f.make(role, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	})
	for path, want := range map[string]func(error) bool{
		"machine/" + f.Namespace + "/m":             func(err error) bool { return err == nil },
		"machine/kube-system/m":                     apierrors.IsForbidden,
		"kubeadmcontrolplane/" + f.Namespace + "/m": apierrors.IsForbidden,
		"": apierrors.IsForbidden,
	} {
		f.eventually(func() error {
			if _, _, err := f.decisions(path, user); !want(err) {
				return fmt.Errorf("%q: %v", path, err)
			}
			return nil
		})
	}
}

func TestReportHasNoSecretsAndIsReplayed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("reported", shape{controlPlane: 1, workers: 1})
	f.becomes("reported")
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	run := func(args ...string) string {
		t.Helper()
		text, err := exec.CommandContext(t.Context(), testenv.Binary(t), args...).CombinedOutput()
		if err != nil && args[0] != "replay" {
			t.Fatalf("%v: %v\n%s", args, err, text)
		}
		return string(text)
	}
	list := run("report", file, "--kubeconfig", f.Kubeconfig)
	for _, want := range []string{"decisions.json", "version.json", "metrics.txt", "objects/machines.cluster.x-k8s.io.json", "objects/localmachines.infrastructure.capstan.dev.json"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list of contents has no %s:\n%s", want, list)
		}
	}
	packed, err := os.Open(file)
	f.must(err)
	defer func() { _ = packed.Close() }()
	unzipped, err := gzip.NewReader(packed)
	f.must(err)
	content, err := io.ReadAll(unzipped)
	f.must(err)
	if found := f.secret(content); len(found) > 0 {
		t.Errorf("the report has %s", found)
	}
	// The report has the decisions of all tests that use the plane.
	if out := run("replay", file); !strings.Contains(out, "decisions are the same") || strings.Contains(out, f.Namespace) {
		t.Errorf("replay: %s", out)
	}
	if out := run("history", "kcp/reported-control-plane", "-n", f.Namespace, "--kubeconfig", f.Kubeconfig); !strings.Contains(out, "create the first machine: have 0, want 1") {
		t.Errorf("history: %s", out)
	}
}
