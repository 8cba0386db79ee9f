// SPDX-License-Identifier: Apache-2.0

// Command image builds an image of programs for amd64 and arm64 without Docker. From the
// same sources, Go version and flags it builds the same files byte for byte.
//
//	go run ./build/image -name example.com/manager:v1 -out dist/manager ./cmd/manager
package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capstan-dev/capstan/internal/host/ociimages/programs"
)

// options are the flags.
type options struct {
	name, out, ldflags, arch, epoch string
	program                         string
	labels                          labels
	packages                        []string
}

type labels map[string]string

func (l labels) String() string { return "" }

func (l labels) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return errors.New("write it as KEY=VALUE")
	}
	l[key] = value
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	o := options{labels: labels{}, epoch: os.Getenv("SOURCE_DATE_EPOCH")}
	flag.StringVar(&o.name, "name", "", "name of the image; without a tag it has the version of the programs")
	flag.StringVar(&o.out, "out", "", "folder to write to; it must not be there")
	flag.StringVar(&o.ldflags, "ldflags", "-s -w", "flags of the Go linker")
	flag.StringVar(&o.arch, "arch", "amd64,arm64", "architectures")
	flag.StringVar(&o.program, "program", "", "name of the first program in the image, for example manager; the default is that of its package")
	flag.Var(o.labels, "label", "label of the image as KEY=VALUE; may be given several times")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "image [flags] PACKAGE...\n\nThe program of the first package is the one that is run.")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.packages = flag.Args()
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run writes the image into a folder that does not exist yet, or nothing.
func run(ctx context.Context, o options) error {
	if o.name == "" || o.out == "" || len(o.packages) == 0 {
		return errors.New("-name, -out and a package are needed")
	}
	if strings.Contains(o.program, "/") {
		return fmt.Errorf("-program %s: name a file without a folder", o.program)
	}
	if _, err := os.Stat(o.out); err == nil {
		return fmt.Errorf("%s is there already: remove it, or name another folder with -out", o.out)
	}
	part := o.out + ".part"
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(part, 0o755)); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(part) }() // an incomplete image is useless
	var images []v1.Image
	ref := o.name
	for arch := range strings.SplitSeq(o.arch, ",") {
		files, err := o.build(ctx, filepath.Join(part, "bin", arch), arch)
		if err != nil {
			return err
		}
		about, err := describe(files[0], o.epoch)
		if err != nil {
			return err
		}
		if !strings.Contains(path.Base(o.name), ":") {
			ref = o.name + ":" + strings.ReplaceAll(about.version, "+", "_") // a tag has no +
		}
		image, err := programs.Image(arch, files, programs.Options{Created: about.at, Labels: about.labels(o.labels)})
		if err != nil {
			return err
		}
		images = append(images, image)
	}
	if err := programs.Write(filepath.Join(part, "image"), ref, images...); err != nil {
		return err
	}
	return os.Rename(filepath.Join(part, "image"), o.out)
}

// build compiles the programs for an architecture. The user's own build settings are
// ignored.
func (o options) build(ctx context.Context, dir, arch string) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for i, pkg := range o.packages {
		name, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.ImportPath}}", pkg).Output()
		if err != nil {
			return nil, fmt.Errorf("build %s: is it a package of this module? %w", pkg, err)
		}
		program := path.Base(strings.TrimSpace(string(name)))
		if i == 0 && o.program != "" {
			program = o.program
		}
		file := filepath.Join(dir, program)
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", o.ldflags, "-o", file, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOOS=linux", "GOARCH="+arch)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("build %s for linux/%s: %w", pkg, arch, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// about is the build information of a program.
type about struct {
	title, version, revision string
	at                       time.Time
}

// describe reads the build information. Its time is that of the sources, unless an epoch
// in seconds is given: that of the build would differ each time.
func describe(file, epoch string) (about, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return about{}, fmt.Errorf("read what %s is made of: %w", file, err)
	}
	a := about{title: filepath.Base(file), version: strings.Trim(info.Main.Version, "()")}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			a.revision = s.Value
		case "vcs.time":
			if a.at, err = time.Parse(time.RFC3339, s.Value); err != nil {
				return about{}, fmt.Errorf("read the time of the sources of %s: %w", file, err)
			}
		}
	}
	if epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return about{}, fmt.Errorf("SOURCE_DATE_EPOCH: %q is no number of seconds", epoch)
		}
		a.at = time.Unix(seconds, 0)
	}
	return a, nil
}

// labels are those of OCI, and those that the user gives.
func (a about) labels(given labels) map[string]string {
	all := map[string]string{"org.opencontainers.image.title": a.title, "org.opencontainers.image.version": a.version}
	if a.revision != "" {
		all["org.opencontainers.image.revision"] = a.revision
	}
	if !a.at.IsZero() {
		all["org.opencontainers.image.created"] = a.at.UTC().Format(time.RFC3339)
	}
	maps.Copy(all, given)
	return all
}
