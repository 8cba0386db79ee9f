// SPDX-License-Identifier: Apache-2.0

// Command release builds the parts of a release: programs and their images, a list of the
// modules in each program, the chart and the objects of the manager, completion files, a
// systemd unit, an installer, a Homebrew formula, and the checksums of all. From one
// commit, one Go version and the same flags it builds the same files byte for byte: they
// do not contain the time, the path or the machine of the build.
package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"embed"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/template"

	"k8s.io/apimachinery/pkg/util/version"
)

// platforms are the platforms that programs are built for; those that contain a
// management plane run only on Linux.
var platforms = []struct{ program, os, arch string }{
	{"capstan", "linux", "amd64"}, {"capstan", "linux", "arm64"},
	{"capstan", "darwin", "amd64"}, {"capstan", "darwin", "arm64"},
	{"capstan-manager", "linux", "amd64"}, {"capstan-manager", "linux", "arm64"},
	{"capstan-network", "linux", "amd64"}, {"capstan-network", "linux", "arm64"},
}

//go:embed files
var files embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	out, ldflags := flag.String("out", "dist", "folder to write to; it must not be there"), flag.String("ldflags", "-s -w", "flags of the Go linker")
	flag.Parse()
	err := run(ctx, *out, *ldflags)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run writes a release into a folder that does not exist yet, or nothing: files without
// checksums are no release.
func run(ctx context.Context, out, ldflags string) error {
	if _, err := os.Stat(out); err == nil {
		return fmt.Errorf("%s is there already: remove it, or name another folder with -out", out)
	}
	dir := out + ".part"
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	var release string
	for _, p := range platforms {
		file := filepath.Join(dir, strings.Join([]string{p.program, p.os, p.arch}, "_"))
		if err := build(ctx, file, "./cmd/"+p.program, p.os, p.arch, ldflags); err != nil {
			return err
		}
		built, err := describe(file)
		if err != nil {
			return err
		}
		if err := mayBeReleased(built); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		release = built
	}
	if err := completions(ctx, dir); err != nil {
		return err
	}
	if err := deployment(ctx, filepath.Join(dir, "capstan_"+runtime.GOOS+"_"+runtime.GOARCH), dir, release); err != nil {
		return err
	}
	if err := addImages(ctx, dir, release, ldflags); err != nil {
		return err
	}
	if err := fill(dir, release); err != nil {
		return err
	}
	if err := writeSums(dir); err != nil {
		return err
	}
	return os.Rename(dir, out)
}

// mayBeReleased refuses a build that does not contain its own version: its installer
// could not find the release, and users could not distinguish it from others.
func mayBeReleased(built string) error {
	if _, err := version.ParseSemantic(built); err != nil {
		return fmt.Errorf("its version is %q: build it in a clone of the repository, not in a worktree of one, with git at hand", built)
	}
	return nil
}

// build compiles one program. The user's own build settings are ignored: the version is
// recorded, and the processor is any of its architecture.
func build(ctx context.Context, file, pkg, goos, arch, ldflags string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags", ldflags, "-o", file, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOOS="+goos, "GOARCH="+arch)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s for %s/%s: %w", pkg, goos, arch, err)
	}
	return nil
}

// describe lists the modules of a program in a file next to it, and returns its version.
func describe(file string) (version string, err error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read what %s is made of: %w", file, err)
	}
	sum, err := checksum(file)
	if err != nil {
		return "", err
	}
	list, err := billOfMaterials(filepath.Base(file), sum, info)
	if err != nil {
		return "", err
	}
	return info.Main.Version, os.WriteFile(file+".spdx.json", list, 0o644)
}

// completions runs the program for this machine to write its completion files.
func completions(ctx context.Context, dir string) error {
	program := filepath.Join(dir, "capstan_"+runtime.GOOS+"_"+runtime.GOARCH)
	// The program uses the name of its file, and the completion files are for that name.
	named := filepath.Join(dir, "capstan")
	if err := os.Link(program, named); err != nil {
		return fmt.Errorf("write completion files: releases are built on one of their platforms: %w", err)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		text, err := exec.CommandContext(ctx, named, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("write the completion file of %s: %w", shell, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "capstan.completion."+shell), text, 0o644); err != nil {
			return err
		}
	}
	return os.Remove(named)
}

// fill writes the files that contain the checksums of the programs.
func fill(dir, version string) error {
	t, err := template.New("").Delims("<<", ">>").ParseFS(files, "files/*")
	if err != nil {
		return err
	}
	sums := map[string]string{}
	for _, p := range platforms {
		name := strings.Join([]string{p.program, p.os, p.arch}, "_")
		if sums[name], err = checksum(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, tmpl := range t.Templates() {
		var text strings.Builder
		if err := tmpl.Execute(&text, map[string]any{"Version": version, "Sums": sums}); err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(tmpl.Name(), ".sh") {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(dir, tmpl.Name()), []byte(text.String()), mode); err != nil {
			return err
		}
	}
	return nil
}

// writeSums writes the checksums of all files, as sha256sum -c reads them.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		sum, err := checksum(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, sum+"  "+e.Name()+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[sha256.Size*2:], b[sha256.Size*2:]) })
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}

func checksum(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
