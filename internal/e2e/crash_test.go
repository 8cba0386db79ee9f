// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// lastWords are what the provider to copy writes last before it crashes.
const lastWords = "provider-example: it crashes because of --crash-after"

// TestCrashingProviderIsReportedAndDeleted: both the installation and the status of
// the plane show its last log lines; deleted with all that it installed, it leaves
// no Pod and no definition.
func TestCrashingProviderIsReportedAndDeleted(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	needSandboxes(t)
	x := packExample(t)
	plane := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	f := plane.start("--providers=core,kubeadm,certificates")
	x.load(f, plane.dir, "v0.2.0")
	install := exec.CommandContext(t.Context(), testenv.Binary(t), "init", "--infrastructure", "example:v0.2.0", "--wait-providers", "--wait-provider-timeout", "10",
		"--config", x.config, "--kubeconfig", f.Kubeconfig)
	install.Env = append(os.Environ(), "EXAMPLE_CRASH_AFTER=1ms")
	if out, err := install.CombinedOutput(); err == nil || !strings.Contains(string(out), "container manager: CrashLoopBackOff: ") || !strings.Contains(string(out), lastWords) {
		t.Errorf("init says %v\n%s", err, out)
	}
	f.eventually(func() error {
		out, err := exec.CommandContext(t.Context(), testenv.Binary(t), "status", "--data-dir", plane.dir).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "1, 1 of which not ready") || !strings.Contains(string(out), lastWords) {
			return fmt.Errorf("status says %w\n%s", err, out)
		}
		return nil
	})
	x.run(f, "delete", "--infrastructure", "example", "--include-crd", "--include-namespace")
	f.eventually(func() error {
		var all corev1.PodList
		var definitions apiextensionsv1.CustomResourceDefinitionList
		if err := f.Client.List(t.Context(), &all); err != nil || len(all.Items) > 0 {
			return fmt.Errorf("%d Pods, %w", len(all.Items), err)
		}
		if err := f.Client.List(t.Context(), &definitions, client.MatchingLabels{"cluster.x-k8s.io/provider": "infrastructure-example"}); err != nil || len(definitions.Items) > 0 {
			return fmt.Errorf("%d definitions, %w", len(definitions.Items), err)
		}
		if err := f.Client.Get(t.Context(), client.ObjectKey{Name: "example-system"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("its namespace is there: %w", err)
		}
		return nil
	})
}
