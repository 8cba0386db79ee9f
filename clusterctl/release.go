// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/clusterctl/repository"
	"github.com/capstan-dev/capstan/clusterctl/template"
)

// Release is one release of an infrastructure provider, which has templates of
// clusters.
type Release struct {
	Repository repository.Repository
	Version    string
}

// Template reads the template of a flavor; "" is that without one.
func (r Release) Template(ctx context.Context, flavor string) ([]byte, error) {
	doc, err := r.Repository.File(ctx, r.Version, template.File(flavor))
	if err != nil {
		return nil, fmt.Errorf("template of a cluster: %w", err)
	}
	return doc, nil
}

// Class reads the objects of a ClusterClass; nil if the release has none of that name.
func (r Release) Class(ctx context.Context, name string) ([]byte, error) {
	doc, err := r.Repository.File(ctx, r.Version, template.ClassFile(name))
	if errors.As(err, new(*repository.NotFoundError)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ClusterClass %s: %w", name, err)
	}
	return doc, nil
}

// Providers lists the providers that the management cluster has.
func (c *Client) Providers(ctx context.Context) (inventory.Providers, error) {
	return inventory.New(c.mgmt).List(ctx)
}
