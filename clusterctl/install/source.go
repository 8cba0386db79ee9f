// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/components"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/repository"
)

// Repositories is the Source that the configuration of a user defines.
type Repositories struct {
	Config  *config.Config
	Options repository.Options
	// OnlyLook is for callers that do not install releases: variables may have no value.
	OnlyLook bool
	// Warn receives what a provider should not do; nil ignores it.
	Warn func(text string)
}

func (s *Repositories) open(ctx context.Context, w Wanted) (config.Provider, repository.Repository, error) {
	p, err := s.Config.Provider(w.Name, w.Type)
	if err != nil {
		return p, nil, err
	}
	r, err := repository.Open(ctx, p, s.Options)
	return p, r, err
}

// Release implements Source.
func (s *Repositories) Release(ctx context.Context, w Wanted, namespace string) (Release, error) {
	p, r, err := s.open(ctx, w)
	if err != nil {
		return Release{}, err
	}
	version, err := repository.Resolve(ctx, r, w.Version)
	if err != nil {
		return Release{}, fmt.Errorf("%s: %w", w.Label(), err)
	}
	keeps, err := repository.ContractOf(ctx, r, version)
	if err != nil {
		return Release{}, fmt.Errorf("%s: %w", w.Label(), err)
	}
	raw, err := r.File(ctx, version, r.ComponentsFile())
	if err != nil {
		return Release{}, fmt.Errorf("%s: %w", w.Label(), err)
	}
	c, err := components.Load(components.Input{
		Provider: p, Version: version, Raw: raw, Namespace: namespace, Variables: s.Config.Variable, Image: s.Config.Image, OnlyLook: s.OnlyLook,
	})
	if err != nil {
		return Release{}, err
	}
	for _, text := range c.Warnings {
		if s.Warn != nil {
			s.Warn(w.Label() + ": " + text)
		}
	}
	return Release{Components: c, Contract: keeps}, nil
}

// Versions implements Source.
func (s *Repositories) Versions(ctx context.Context, w Wanted) ([]string, error) {
	_, r, err := s.open(ctx, w)
	if err != nil {
		return nil, err
	}
	all, err := r.Versions(ctx)
	if errors.As(err, new(*repository.NoListError)) && r.DefaultVersion() != repository.LatestVersion {
		return []string{r.DefaultVersion()}, nil
	}
	return all, err
}

// Metadata implements Source.
func (s *Repositories) Metadata(ctx context.Context, w Wanted, version string) (*clusterctlv1.Metadata, error) {
	_, r, err := s.open(ctx, w)
	if err != nil {
		return nil, err
	}
	return repository.Metadata(ctx, r, version)
}

// Images returns those of the releases that a first installation would use.
func Images(ctx context.Context, s Source, selection Selection, namespace string) (images []string, err error) {
	wanted, err := selection.withDefaults(nil).Wanted()
	if err != nil {
		return nil, err
	}
	for _, w := range wanted {
		if w.Name == None {
			continue
		}
		r, err := s.Release(ctx, w, namespace)
		if err != nil {
			return nil, err
		}
		images = append(images, r.Images...)
	}
	return images, nil
}
