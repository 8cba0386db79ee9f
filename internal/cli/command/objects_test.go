// SPDX-License-Identifier: Apache-2.0

package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

func TestKustomizationIsReadByTheProgramInPath(t *testing.T) {
	const object = "echo 'apiVersion: v1'; echo 'kind: ConfigMap'; echo \"metadata: {name: $1-$2}\"\n"
	for name, tc := range map[string]struct {
		programs map[string]string // script of each program in PATH
		want     string            // name of the only object, or what the error has
	}{
		"kubectl":          {map[string]string{"kubectl": object, "kustomize": "exit 1\n"}, "kustomize-overlay"},
		"kustomize alone":  {map[string]string{"kustomize": object}, "build-overlay"},
		"none":             {nil, "-k overlay: neither kubectl nor kustomize is in PATH"},
		"it fails":         {map[string]string{"kubectl": "echo no kustomization here >&2; exit 1\n"}, "kubectl kustomize: exit status 1: no kustomization here"},
		"no YAML":          {map[string]string{"kubectl": "echo '{'\n"}, "-k overlay: "},
		"it says too much": {map[string]string{"kubectl": "exec head -c 70000000 /dev/zero\n"}, "more than 64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for program, script := range tc.programs {
				if err := atomicfile.WriteProgram(filepath.Join(dir, program), []byte("#!/bin/sh\nPATH=/bin:/usr/bin\n"+script)); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir)
			objects, err := ReadKustomization(t.Context(), "overlay")
			switch {
			case err != nil && strings.Contains(err.Error(), tc.want):
			case err != nil || len(objects) != 1 || objects[0].GetName() != tc.want:
				t.Fatalf("objects %v, error %v, want %s", objects, err, tc.want)
			}
		})
	}
}
