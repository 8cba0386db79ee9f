// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// generateManager runs the command and returns what it prints.
func generateManager(args ...string) (string, error) {
	var out bytes.Buffer
	env := &command.Env{Out: &out, Err: &out, LookupEnv: func(string) (string, bool) { return "", false }}
	root := &cobra.Command{Use: "capstan", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(New(env))
	root.SetArgs(append([]string{"generate", "manager"}, args...))
	err := root.Execute()
	return out.String(), err
}

func TestTheManagerIsPrintedAsTheFlagsSay(t *testing.T) {
	t.Parallel()
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("replicas: 5\nverbosity: 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"nothing":               {nil, []string{"kind: Namespace", "name: capstan-system", "image: ghcr.io/capstan-dev/capstan-manager:", "replicas: 2", "--providers=core,kubeadm"}},
		"a namespace":           {[]string{"-n", "mine"}, []string{"name: mine", "--webhook-service=mine/capstan-webhooks"}},
		"an image with a tag":   {[]string{"--image=host:5000/m:v1"}, []string{"image: host:5000/m:v1\n"}},
		"an image of a port":    {[]string{"--image=host:5000/m"}, []string{"image: host:5000/m:"}},
		"an image by digest":    {[]string{"--image=host/m:v1@sha256:abc"}, []string{"image: host/m@sha256:abc\n"}},
		"what runs":             {[]string{"--providers=local", "--feature-gates=MachinePool=false", "--watch-filter=a", "--watch-namespace=b"}, []string{"--providers=local\n", "MachinePool=false", "--watch-filter=a", "--namespace=b"}},
		"a file":                {[]string{"--values=" + values}, []string{"replicas: 5", "--v=4"}},
		"a file and flags":      {[]string{"--values=" + values, "--replicas=1"}, []string{"replicas: 1", "--v=4"}},
		"certificates by other": {[]string{"--cert-manager"}, []string{"kind: Certificate", "--webhook-cert-dir="}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := generateManager(tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing", want)
				}
			}
		})
	}
}

func TestManagersThatAreRefused(t *testing.T) {
	t.Parallel()
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("replica: 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a namespace that is none": {[]string{"-n", "A"}, `--namespace "A"`},
		"an unknown provider":      {[]string{"--providers=aws"}, `"aws" is not known: choose among`},
		"fewer than no replicas":   {[]string{"--replicas=-1"}, "--replicas -1: give 0 or more"},
		"an unknown value":         {[]string{"--values=" + values}, "value replica: the chart has no such value: choose among"},
		"a file that is not there": {[]string{"--values=" + values + "x"}, "read the values"},
		"two folders":              {[]string{"--write-chart=a", "--write-kustomization=b"}, "give one of them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := generateManager(tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestFoldersForHelmAndKustomize(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string][]string{
		"--write-chart":         {"Chart.yaml", "values.yaml", "templates/manager.yaml", "files/crds/clusters.cluster.x-k8s.io.yaml", "files/roles/capstan-manager.yaml", "files/webhooks/core.yaml"},
		"--write-kustomization": {"kustomization.yaml", "crds.yaml", "rbac.yaml", "manager.yaml", "webhooks.yaml"},
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "to")
			printed, err := generateManager(flag + "=" + dir)
			if err != nil || printed != "" {
				t.Fatalf("error %v, printed %.100q", err, printed)
			}
			for _, file := range want {
				if info, err := os.Stat(filepath.Join(dir, file)); errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
					t.Errorf("%s is missing or empty", file)
				}
			}
		})
	}
}
