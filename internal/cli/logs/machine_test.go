// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

func TestTheConsoleOfAMachineIsShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record, console := filepath.Join(dir, "machines/machines/m0-1"), filepath.Join(dir, "containers/containers/m0-1")
	if err := errors.Join(
		os.MkdirAll(record, 0o700), os.MkdirAll(console, 0o700),
		os.WriteFile(filepath.Join(record, "machine.json"), []byte(`{"namespace": "default", "name": "m0"}`), 0o600),
		os.WriteFile(filepath.Join(console, "console.old"), []byte("first\r\n"), 0o600),
		os.WriteFile(filepath.Join(console, "console.log"), []byte("kubeadm join --token abcdef.0123456789abcdef\r\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args      []string
		out, fail string
	}{
		"of a machine":         {[]string{"m0"}, "first\nkubeadm join --token [...]\n", ""},
		"of an unknown one":    {[]string{"m1"}, "", "there is no container machine m1 in namespace default: there are m0"},
		"of another namespace": {[]string{"m0", "-n", "prod"}, "", "there is no container machine in namespace prod of " + dir + ": --namespace and --containers-dir choose others"},
		"of no machine":        {nil, "", `the name of one machine is needed; for a cluster with the name machine, use "capstan events machine"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			env := &command.Env{Out: &out, Err: &out, LookupEnv: func(string) (string, bool) { return "", false }}
			cmd := newMachine(env)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append(tc.args, "--containers-dir", dir))
			err := cmd.ExecuteContext(t.Context())
			if diff := cmp.Diff(tc.out, out.String()); diff != "" || (err == nil) != (tc.fail == "") || err != nil && err.Error() != tc.fail {
				t.Errorf("error %v, output (-want +got):\n%s", err, diff)
			}
		})
	}
}
