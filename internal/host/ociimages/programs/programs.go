// SPDX-License-Identifier: Apache-2.0

// Package programs builds images of programs and writes images into files. The same
// programs give the same images, byte for byte.
package programs

import (
	"bytes"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Options configure an image in addition to its programs.
type Options struct {
	// Created is the time of the image and all its files, to the second; zero is 1970.
	Created time.Time
	// Labels are those of its configuration.
	Labels map[string]string
}

// User is the user of its programs; its ID is the usual one for this purpose.
const User = 65532

// machines are the ELF machines of programs for an architecture.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// Image builds an image for Linux on an architecture from programs, files of this
// host, which are placed at its root. It runs the first. In addition, the image has
// only certificates of authorities, a user other than root, and a folder for temporary
// files. Image refuses a program that needs a library, and one for another
// architecture.
func Image(arch string, files []string, o Options) (v1.Image, error) {
	if len(files) == 0 {
		return nil, errors.New("make an image: name a program")
	}
	if o.Created.IsZero() {
		o.Created = time.Unix(0, 0)
	}
	o.Created = o.Created.UTC().Truncate(time.Second)
	// Files that all images share are in a separate layer, so that they are stored
	// once.
	base, err := layerOf(system(), o.Created, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make an image: %w", err)
	}
	var all []File
	for _, file := range files {
		if err := Check(file, arch); err != nil {
			return nil, fmt.Errorf("make an image of %s: %w", file, err)
		}
		all = append(all, File{Path: filepath.Base(file), From: file})
	}
	own, err := layerOf(all, o.Created, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make an image: %w", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, layer := range []v1.Layer{base, own} {
		// History names no tool and no machine.
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: o.Created}}})
		if err != nil {
			return nil, fmt.Errorf("make an image: %w", err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("make an image: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: o.Created}
	config.Config = v1.Config{
		Entrypoint: []string{"/" + filepath.Base(files[0])}, User: fmt.Sprintf("%d:%d", User, User), WorkingDir: "/", Labels: o.Labels,
		Env: []string{"PATH=/", "HOME=/home/nonroot"},
	}
	return mutate.ConfigFile(image, config)
}

// Check refuses programs that cannot run in an image without libraries.
func Check(file, arch string) error {
	machine, ok := machines[arch]
	if !ok {
		return fmt.Errorf("architecture %q is not known: use amd64 or arm64", arch)
	}
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("it is no program for Linux: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	if f.Machine != machine {
		return fmt.Errorf("it is for %s, not for %s", f.Machine, machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it needs libraries, which its image has not: build it with CGO_ENABLED=0")
		}
	}
	return nil
}

// system returns the files that programs expect.
func system() []File {
	var certificates bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a file cannot express for which names such an authority may sign
		}
		_ = pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer accepts all data
	}
	return []File{
		{Path: "etc/group", Mode: 0o644, Content: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", User)},
		{Path: "etc/passwd", Mode: 0o644, Content: fmt.Appendf(nil, "root:x:0:0:root:/:/none\nnonroot:x:%d:%d:nonroot:/home/nonroot:/none\n", User, User)},
		{Path: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Content: certificates.Bytes()},
		{Path: "home/nonroot", Mode: 0o700, Owner: User, Folder: true},
		{Path: "tmp", Mode: 0o1777, Folder: true},
	}
}
