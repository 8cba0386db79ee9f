// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/cli"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestInitRefusesClusterWithManager has capstan-manager run in a cluster, as an
// administrator starts it.
func TestInitRefusesClusterWithManager(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	c := newCluster(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	var log bytes.Buffer
	go func() {
		defer close(ended)
		env := &cli.Env{Env: command.Env{Name: "capstan-manager", Out: &log, Err: &log, LookupEnv: os.LookupEnv, Now: time.Now}, SetLog: cli.SetLog}
		cli.RunManager(ctx, env, []string{"--kubeconfig", c.Kubeconfig, "--providers", "core,kubeadm"})
	}()
	want := []string{"capstan-system/bootstrap-kubeadm", "capstan-system/cluster-api", "capstan-system/control-plane-kubeadm"}
	testenv.Eventually(t, func() error {
		select {
		case <-ended:
			t.Fatalf("the manager has ended:\n%s", log.String())
		default:
		}
		if diff := cmp.Diff(want, unversioned(c.inventory(t))); diff != "" {
			return fmt.Errorf("inventory (-want +got):\n%s", diff)
		}
		return nil
	})
	c.must(t, "Nothing to install. Built into the management cluster: cluster-api ", "init", "--skip-cert-manager")
	// A cluster in which a manager runs has nodes: Deployments are awaited there, also
	// those of a provider that is installed already.
	initialize := []string{"init", "--infrastructure", "plain", "--skip-cert-manager"}
	for _, command := range [][]string{initialize, initialize, {"upgrade", "apply", "--contract", "v1beta2"}} {
		c.refused(t, "* Deployment plain-system/plain: no controller of Deployments has observed it", append(command, "--wait-providers", "--wait-provider-timeout", "1")...)
	}
	if diff := cmp.Diff(append(want, "plain-system/infrastructure-plain"), unversioned(c.inventory(t))); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
	for _, name := range []string{"cluster-api-system", "bootstrap-kubeadm-system", "control-plane-kubeadm-system"} {
		if err := c.Client.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
			t.Errorf("namespace %s: %v, want that it is not there", name, err)
		}
	}
	c.refused(t, "cluster-api is built into the management cluster", "delete", "--core", "cluster-api", "--yes")
	c.refused(t, "cluster-api is built into the management cluster", "upgrade", "apply", "--core", "cluster-api:v1.99.0")
	stop()
	<-ended
}

// unversioned are providers without their versions.
func unversioned(all []string) (names []string) {
	for _, p := range all {
		name, _, _ := strings.Cut(p, " ")
		names = append(names, name)
	}
	return names
}

// TestARealProviderIsInstalledOnAPlane installs the real release of a provider, whose
// Certificates the plane itself honours.
func TestARealProviderIsInstalledOnAPlane(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	dir := t.TempDir()
	if _, err := testenv.Up(t, "--data-dir="+dir, "--listen=127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	env, err := testenv.Connect(filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	c := withRepositories(t, env)
	out := c.must(t, "Installed: infrastructure-aws v2.11.1.", "init", "--infrastructure", "aws")
	if want := "Certificates are honoured here already"; !strings.Contains(out, want) {
		t.Errorf("said, without %q:\n%s", want, out)
	}
	if missing, kinds := c.installed(t, "--infrastructure", "aws"); len(missing) > 0 || kinds["CustomResourceDefinition"] != 23 {
		t.Errorf("missing %v of %v", missing, kinds)
	}
	c.established(t)
	testenv.Eventually(t, func() error {
		cert := &certmanagerv1.Certificate{}
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "capa-system", Name: "capa-serving-cert"}, cert); err != nil {
			return err
		}
		if !conditions.IsTrue(cert, certmanagerv1.ReadyCondition) {
			return errors.New(conditions.Message(cert, certmanagerv1.ReadyCondition))
		}
		hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if err := c.Client.Get(t.Context(), client.ObjectKey{Name: "capa-validating-webhook-configuration"}, hooks); err != nil {
			return err
		}
		if slices.ContainsFunc(hooks.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return len(w.ClientConfig.CABundle) == 0 }) {
			return errors.New("the webhooks have no authority")
		}
		return nil
	})
	c.must(t, "Deleted: infrastructure-aws v2.11.1.", "delete", "--infrastructure", "aws", "--include-crd", "--include-namespace", "--yes")
	testenv.Eventually(t, func() error {
		if all := c.inventory(t); slices.ContainsFunc(all, func(p string) bool { return !strings.HasPrefix(p, "capstan-system/") }) {
			return fmt.Errorf("inventory %v", all)
		}
		return nil
	})
}
