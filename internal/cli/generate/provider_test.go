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

// TestProviderIsRefusedByItsMetadata in each form of the output, as by upstream.
func TestProviderIsRefusedByItsMetadata(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\n"
	for name, tc := range map[string]struct{ metadata, want string }{
		"none":                  {"", "has no file metadata.yaml"},
		"another version":       {"apiVersion: v1\nkind: Metadata\nreleaseSeries: [{major: 1, minor: 0, contract: v1beta2}]", `apiVersion is "v1"`},
		"without series":        {head, "releaseSeries has no series"},
		"another series":        {head + "releaseSeries: [{major: 1, minor: 1, contract: v1beta2}]", "metadata.yaml has no series 1.0 of version v1.0.0"},
		"an old contract":       {head + "releaseSeries: [{major: 1, minor: 0, contract: v1alpha4}]", "provider infrastructure-x: release v1.0.0 keeps the contract v1alpha4, and v1beta2 or v1beta1 is needed: choose another version"},
		"the contract before":   {head + "releaseSeries: [{major: 1, minor: 0, contract: v1beta1}]", ""},
		"the contract of today": {head + "releaseSeries: [{major: 1, minor: 0, contract: v1beta2}]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			folder := filepath.Join(dir, "infrastructure-x", "v1.0.0")
			err := errors.Join(os.MkdirAll(folder, 0o700), os.Mkdir(filepath.Join(dir, ".cluster-api"), 0o700),
				os.WriteFile(filepath.Join(folder, "infrastructure-components.yaml"), []byte("{apiVersion: v1, kind: Namespace, metadata: {name: x-system}}\n"), 0o600),
				os.WriteFile(filepath.Join(dir, ".cluster-api", "clusterctl.yaml"), []byte("providers: [{name: x, type: InfrastructureProvider, url: "+dir+"/infrastructure-x/v1.0.0/infrastructure-components.yaml}]\n"), 0o600))
			if tc.metadata != "" {
				err = errors.Join(err, os.WriteFile(filepath.Join(folder, "metadata.yaml"), []byte(tc.metadata), 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, form := range []string{"--describe=false", "--describe", "--raw"} {
				var out bytes.Buffer
				env := &command.Env{Out: &out, Err: &out, LookupEnv: func(name string) (string, bool) { return dir, name == "HOME" }}
				root := &cobra.Command{Use: "capstan", SilenceErrors: true, SilenceUsage: true}
				root.AddCommand(New(env))
				root.SetArgs([]string{"generate", "provider", "-i", "x", form})
				err := root.Execute()
				if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: error %v, want %q", form, err, tc.want)
				}
				if (out.Len() == 0) != (tc.want != "") {
					t.Errorf("%s: printed %q", form, out.String())
				}
			}
		})
	}
}
