// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestModesOfFilesDoNotDependOnTheUmask: a plane with umask 0 that runs a Pod and a
// simulated cluster creates no file that other users may write to, except in volumes of
// Pods and in images, in folders that they cannot enter.
func TestModesOfFilesDoNotDependOnTheUmask(t *testing.T) {
	testenv.OwnPlanes(t, 1)
	const programs = "CAPSTAN_TEST_PROGRAMS"
	dir, built := t.TempDir(), os.Getenv(programs)
	capstan := filepath.Join(dir, "capstan")
	script := fmt.Appendf(nil, "#!/bin/sh\numask 0\nexec %q \"$@\"\n", testenv.Binary(t))
	if err := errors.Join(atomicfile.WriteProgram(capstan, script), os.Symlink(filepath.Join(built, "test"), filepath.Join(dir, "test"))); err != nil {
		t.Fatal(err)
	}
	t.Setenv(programs, dir)
	for name, folder := range map[string]string{"HOME": "home", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "XDG_DATA_HOME": "data"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv(name, filepath.Join(dir, folder))
	}
	b := newPodLab(t)
	const volumes = "volumes: [{name: v, emptyDir: {}}, {name: d, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]"
	b.becomes(b.deploy("good", b.push("good", b.image()), ", volumeMounts: [{name: v, mountPath: /v}, {name: d, mountPath: /d}]", volumes))
	create := exec.CommandContext(t.Context(), capstan, "create", "cluster", "demo")
	create.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(b.dir, "kubeconfig"))
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("create a cluster: %v\n%s", err, out)
	}
	files := 0
	for _, top := range []string{dir, b.dir} {
		b.must(filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && e.Type()&fs.ModeSymlink != 0 { // a link has no mode
				return nil
			}
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return nil // deleted meanwhile
			}
			files++
			// The modes of these come from a Pod or an image: a folder above keeps
			// others out.
			for _, theirs := range []string{"pods/volumes/*/*", "images/roots/*"} {
				if is, err := filepath.Match(filepath.Join(b.dir, theirs), path); err != nil || is {
					return cmp.Or(err, fs.SkipDir)
				}
			}
			if info.Mode().Perm()&0o022 != 0 {
				t.Errorf("%s has mode %s", path, info.Mode())
			}
			return nil
		}))
	}
	if files < 50 {
		t.Errorf("only %d files were found", files)
	}
}
