// SPDX-License-Identifier: Apache-2.0

// Package modules builds the parts of a node from source, using only Go modules:
// the module proxy is enough if neither releases nor a registry can be reached.
package modules

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // for the source of pause
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/host/nodeimages/buildcache"
	"github.com/capstan-dev/capstan/internal/host/ociimages/programs"
	"github.com/capstan-dev/capstan/internal/pure/nodecomponents"
)

//go:embed pause/main.go
var pauseSource []byte

// recipe is incremented when the same inputs give another result.
const recipe = "modules 1"

// Source builds parts with the go command.
type Source struct {
	// Go is the command, by default go in the path.
	Go string
	// Env is its environment.
	Env []string
}

// Name is the origin of the parts, which images record.
func (s *Source) Name() string { return "modules" }

// Check returns an error that names what is missing on this host.
func (s *Source) Check() error {
	var errs []error
	for _, tool := range []struct{ command, remedy string }{
		{cmp.Or(s.Go, "go"), "install Go, or take the parts from releases with --source release"},
		{"gcc", "install gcc and libseccomp-dev, which runc is built with, or take the parts from releases with --source release"},
	} {
		if _, err := exec.LookPath(tool.command); err != nil {
			errs = append(errs, fmt.Errorf("%w: %s", err, tool.remedy))
		}
	}
	return errors.Join(errs...)
}

// Programs builds the executables of a node: its programs in one folder, its
// plugins in another.
func (s *Source) Programs(ctx context.Context, c *buildcache.Cache, v nodecomponents.Versions) (executables, plugins []string, err error) {
	build := func(names []string) (files []string, err error) {
		for _, name := range names {
			file, err := s.program(ctx, c, v, name)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		return files, nil
	}
	if executables, err = build(nodecomponents.Programs()); err == nil {
		plugins, err = build(nodecomponents.Plugins())
	}
	return executables, plugins, err
}

// Image builds the archive of an image that kubeadm names. Some images also contain
// programs of the system, which are taken from its root.
func (s *Source) Image(ctx context.Context, c *buildcache.Cache, v nodecomponents.Versions, image nodecomponents.Image, root buildcache.Outcome) (string, error) {
	inputs := []string{recipe, image.Ref}
	var files []programs.File
	entrypoint := []string(nil)
	in := func(file string) string { return "/usr/local/bin/" + filepath.Base(file) }
	switch image.Name {
	case "pause":
		file, err := s.pause(ctx, c)
		if err != nil {
			return "", err
		}
		files, entrypoint = []programs.File{{Path: "/pause", From: file}}, []string{"/pause"}
	default:
		file, err := s.program(ctx, c, imageVersions(v, image), image.Name)
		if err != nil {
			return "", err
		}
		files = append(files, programs.File{Path: in(file), From: file})
		if image.Name == "coredns" {
			entrypoint = []string{in(file)}
		}
	}
	if image.Name == "kube-proxy" {
		tools, err := filesOf(root.Dir, proxyTools)
		if err != nil {
			return "", fmt.Errorf("image %s: %w", image.Ref, err)
		}
		files, inputs = append(files, tools...), append(inputs, root.Digest)
	}
	inputs = append(inputs, files[0].From) // its folder name depends on its inputs
	o, err := c.Do(ctx, buildcache.Step{Name: "image-" + image.Name, Inputs: inputs, Make: func(_ context.Context, dir string) error {
		return programs.Save(filepath.Join(dir, image.Name+".tar"), image.Ref, entrypoint, files)
	}})
	return filepath.Join(o.Dir, image.Name+".tar"), err
}

// proxyTools are the programs that kube-proxy runs: their path in the root of a
// node, by the name in the image. The configuration of kube-proxy decides which
// rules it writes.
var proxyTools = map[string]string{
	"/usr/sbin/nft":               "/usr/sbin/nft",
	"/usr/sbin/iptables":          "/usr/sbin/xtables-nft-multi",
	"/usr/sbin/iptables-save":     "/usr/sbin/xtables-nft-multi",
	"/usr/sbin/iptables-restore":  "/usr/sbin/xtables-nft-multi",
	"/usr/sbin/ip6tables":         "/usr/sbin/xtables-nft-multi",
	"/usr/sbin/ip6tables-save":    "/usr/sbin/xtables-nft-multi",
	"/usr/sbin/ip6tables-restore": "/usr/sbin/xtables-nft-multi",
}

// program builds a program and returns its file.
func (s *Source) program(ctx context.Context, c *buildcache.Cache, v nodecomponents.Versions, name string) (string, error) {
	p, ok := recipes(v)[name]
	if !ok {
		return "", fmt.Errorf("no module is known that %s is built from: take the parts from releases with --source release", name)
	}
	module, err := s.wrap(ctx, c, p.wrapper)
	if err != nil {
		return "", err
	}
	toolchain, err := s.version(ctx)
	if err != nil {
		return "", err
	}
	inputs := append([]string{recipe, module.Digest, p.main, strings.Join(p.flags, " "), fmt.Sprint(p.cgo), toolchain}, runtime.GOARCH)
	o, err := c.Do(ctx, buildcache.Step{Name: "build-" + name, Inputs: inputs, Make: func(ctx context.Context, dir string) error {
		args := append(append([]string{"build", "-trimpath"}, p.flags...), "-o", filepath.Join(dir, name), p.main)
		cgo := "0"
		if p.cgo {
			cgo = "1"
		}
		return s.run(ctx, module.Dir, []string{"CGO_ENABLED=" + cgo, "GOFLAGS=-buildvcs=false -mod=readonly"}, args...)
	}})
	return filepath.Join(o.Dir, name), err
}

// wrap creates the module in which a program is built.
func (s *Source) wrap(ctx context.Context, c *buildcache.Cache, w wrapper) (buildcache.Outcome, error) {
	inputs := append([]string{recipe, w.module, w.version}, w.packages...)
	return c.Do(ctx, buildcache.Step{Name: "module-" + w.name(), Inputs: inputs, Make: func(ctx context.Context, dir string) error {
		if err := s.run(ctx, dir, nil, "mod", "init", "capstan.invalid/fetch"); err != nil {
			return err
		}
		if err := s.run(ctx, dir, nil, "mod", "download", w.module+"@"+w.version); err != nil {
			return fmt.Errorf("%w: is %s a version that was released?", err, w.version)
		}
		found, err := s.output(ctx, dir, nil, "list", "-m", "-f", "{{.GoMod}}", w.module+"@"+w.version)
		if err != nil {
			return err
		}
		gomod, err := os.ReadFile(strings.TrimSpace(found))
		if err != nil {
			return err
		}
		w.gomod = string(gomod)
		text, err := w.goMod()
		if err != nil {
			return err
		}
		_ = os.Remove(filepath.Join(dir, "go.sum")) // go mod tidy writes its own
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "imports.go"), []byte(w.imports()), 0o600)); err != nil {
			return err
		}
		if err := s.run(ctx, dir, nil, "mod", "tidy"); err != nil {
			return err
		}
		// Dependencies are fetched here, so that a build needs no network.
		return s.run(ctx, dir, nil, "mod", "download")
	}})
}

// pause builds the program that holds the namespaces of Pods.
func (s *Source) pause(ctx context.Context, c *buildcache.Cache) (string, error) {
	toolchain, err := s.version(ctx)
	if err != nil {
		return "", err
	}
	o, err := c.Do(ctx, buildcache.Step{Name: "build-pause", Inputs: []string{recipe, string(pauseSource), toolchain, runtime.GOARCH}, Make: func(ctx context.Context, dir string) error {
		source, err := os.MkdirTemp("", "capstan-pause-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(source) }() // none of it is needed later
		if err := os.WriteFile(filepath.Join(source, "main.go"), pauseSource, 0o600); err != nil {
			return err
		}
		return s.run(ctx, source, []string{"CGO_ENABLED=0", "GO111MODULE=off", "GOFLAGS="}, "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "pause"), "main.go")
	}})
	return filepath.Join(o.Dir, "pause"), err
}

// version returns the version of the go command.
func (s *Source) version(ctx context.Context) (string, error) {
	text, err := s.output(ctx, "", nil, "env", "GOVERSION")
	return strings.TrimSpace(text), err
}

func (s *Source) run(ctx context.Context, dir string, env []string, args ...string) error {
	_, err := s.output(ctx, dir, env, args...)
	return err
}

// grace is the time limit for a stopped go command to remove its temporary files.
const grace = 10 * time.Second

// maxOutput is how much of a failed command's output is part of the error: its last
// lines, where compilers report the cause.
const maxOutput = 2000

func (s *Source) output(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, cmp.Or(s.Go, "go"), args...)
	// A workspace of the user would change the build.
	cmd.Dir, cmd.Env = dir, append(append(append([]string(nil), s.Env...), "GOWORK=off"), env...)
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, grace
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		text := strings.TrimSpace(talk.String())
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, text[max(0, len(text)-maxOutput):])
	}
	return out.String(), nil
}
