// SPDX-License-Identifier: Apache-2.0

// Package containerhost puts the container machines of this host together: what
// launches containers, what keeps node images, and the endpoints of clusters.
package containerhost

import (
	"context"
	"path/filepath"

	"github.com/go-logr/logr"

	"github.com/capstan-dev/capstan/internal/access/containers"
	"github.com/capstan-dev/capstan/internal/kit/dialguard"
)

// Options say where container machines are kept.
type Options struct {
	// Dir holds images, containers and machines.
	Dir string
	// Namespaces are those in which clusters and machines can be created; "*" means all;
	// "none" alone, none.
	Namespaces []string
	// Guard is told where endpoints of clusters listen, so that Pods reach them; nil if
	// this process runs no Pods.
	Guard *dialguard.Guard
	// Log is told of what happens by itself.
	Log logr.Logger

	// check tells what the host lacks; nil is containers.Check.
	check func(context.Context) []containers.Problem
}

// The folders in Options.Dir.
func (o Options) images() string     { return filepath.Join(o.Dir, "images") }
func (o Options) containers() string { return filepath.Join(o.Dir, "containers") }
func (o Options) machines() string   { return filepath.Join(o.Dir, "machines") }
