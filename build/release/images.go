// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// registry is the registry of the images of a release.
const registry = "ghcr.io/capstan-dev/"

// images are the programs that have one, and for what.
var images = []struct{ program, arch string }{
	{"capstan", "amd64"}, {"capstan", "arm64"}, {"capstan-manager", "amd64"}, {"capstan-manager", "arm64"},
}

// addImages writes the image of each program as an archive for each architecture, of
// the kind that registries' tools and "capstan image import" read. Its tag is the one
// in the chart of the version.
func addImages(ctx context.Context, dir, version, ldflags string) error {
	part := filepath.Join(dir, "images.part")
	for _, i := range images {
		made := filepath.Join(part, i.program)
		if _, err := os.Stat(made); errors.Is(err, os.ErrNotExist) {
			cmd := exec.CommandContext(ctx, "go", "run", "./build/image", "-ldflags", ldflags, "-name", imageName(i.program, version), "-out", made, "./cmd/"+i.program)
			cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=true") // as build has it
			cmd.Stderr = os.Stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("make the image of %s: %w", i.program, err)
			}
		}
		if err := os.Rename(filepath.Join(made, i.arch+".tar"), filepath.Join(dir, imageFile(i.program, i.arch))); err != nil {
			return fmt.Errorf("make the image of %s: %w", i.program, err)
		}
	}
	return os.RemoveAll(part)
}

// imageFile is what the image of a program is called in a release.
func imageFile(program, arch string) string { return program + "-image_linux_" + arch + ".tar" }

// imageName is what it is called where it is run; a tag has no +.
func imageName(program, version string) string {
	return registry + program + ":" + strings.ReplaceAll(version, "+", "_")
}
