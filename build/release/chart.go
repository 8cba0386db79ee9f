// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// deployment runs the program to write what runs the manager in a cluster: the objects,
// and the chart in helm's package format.
func deployment(ctx context.Context, program, dir, version string) error {
	objects, err := exec.CommandContext(ctx, program, "generate", "manager").Output()
	if err != nil {
		return fmt.Errorf("write the objects of the manager: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "components.yaml"), objects, 0o644); err != nil {
		return err
	}
	chart := filepath.Join(dir, "chart.part")
	if err := exec.CommandContext(ctx, program, "generate", "manager", "--write-chart", chart).Run(); err != nil {
		return fmt.Errorf("write the chart of the manager: %w", err)
	}
	name := "capstan-chart-" + strings.TrimPrefix(version, "v") + ".tgz"
	return errors.Join(pack(chart, "capstan", filepath.Join(dir, name)), os.RemoveAll(chart))
}

// pack writes a folder into an archive, below another name. It leaves out time and owner,
// so that two archives of the same folder are equal.
func pack(dir, as, file string) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	zipped := gzip.NewWriter(out)
	packed := tar.NewWriter(zipped)
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if err := packed.WriteHeader(&tar.Header{Name: path.Join(as, name), Mode: 0o644, Size: int64(len(text))}); err != nil {
			return err
		}
		_, err = packed.Write(text)
		return err
	})
	if err := errors.Join(err, packed.Close(), zipped.Close()); err != nil {
		return fmt.Errorf("pack %s: %w", file, err)
	}
	return nil
}
