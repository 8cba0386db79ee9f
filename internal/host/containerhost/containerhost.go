// SPDX-License-Identifier: Apache-2.0

// Package containerhost combines the parts of container machines on this host: the
// container runtime, the store of node images, and the endpoints of clusters.
package containerhost

import (
	"context"
	"path/filepath"

	"github.com/go-logr/logr"

	"github.com/capstan-dev/capstan/internal/host/containers"
	"github.com/capstan-dev/capstan/internal/kit/dialguard"
)

// Options define where container machines are stored.
type Options struct {
	// Dir has images, containers and machines.
	Dir string
	// Namespaces are the namespaces in which clusters and machines can be created;
	// "*" means all;
	// "none" alone, none.
	Namespaces []string
	// Guard receives the addresses of the endpoints of clusters, so that Pods reach
	// them; nil if this process runs no Pods.
	Guard *dialguard.Guard
	// Log receives events without a caller.
	Log logr.Logger

	// check returns what the host lacks; nil is containers.Check.
	check func(context.Context) []containers.Problem
}

// The directories in Options.Dir.
func (o Options) images() string     { return filepath.Join(o.Dir, "images") }
func (o Options) containers() string { return filepath.Join(o.Dir, "containers") }
func (o Options) machines() string   { return filepath.Join(o.Dir, "machines") }
