// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/internal/kit/registry"
)

// oci are the artifacts of a registry, one for each release with a layer for each
// file, as `oras push HOST/REPOSITORY:VERSION FILE...` creates them.
type oci struct {
	fetch               *fetcher
	where               string // oci://HOST/REPOSITORY
	repo                *registry.Repository
	version, components string
}

// newOCI opens the artifacts of a URL oci://HOST/REPOSITORY:VERSION[/FILE]. http is
// only for registries on this host.
func newOCI(p config.Provider, o Options) (*oci, error) {
	host, rest, _ := strings.Cut(strings.TrimPrefix(p.URL, "oci://"), "/")
	repository, rest, tagged := strings.Cut(rest, ":")
	version, components, _ := strings.Cut(rest, "/")
	switch {
	case strings.Contains(host, "@"):
		return nil, errors.New("give the user in OCI_USERNAME and the password in OCI_PASSWORD, not in the URL")
	case !tagged || strings.Contains(components, "/"):
		return nil, errors.New("use oci://HOST/REPOSITORY:VERSION/FILE, with a version or latest")
	case components == "":
		components = p.ComponentsFile()
	}
	if err := checkDefault(version); err != nil {
		return nil, err
	}
	r := &oci{fetch: newFetcher(o), where: "oci://" + host + "/" + repository, version: version, components: components}
	if _, err := reference.WithName(host + "/" + repository); err != nil {
		return nil, fmt.Errorf("invalid repository %s: %w", r.where, err)
	}
	client, err := o.registry(host)
	if err != nil {
		return nil, fmt.Errorf("invalid registry %s: %w", r.where, err)
	}
	if r.repo, err = client.Repository(host, repository, nil); err != nil {
		return nil, fmt.Errorf("invalid registry %s: %w", r.where, err)
	}
	return r, nil
}

// registry returns the client for a registry. The credentials of the settings are for
// this registry, not for its mirrors.
func (o Options) registry(host string) (*registry.Client, error) {
	own, err := name.NewRegistry(host)
	if err != nil {
		return nil, err
	}
	with := registry.Options{Transport: o.Transport, Once: true, Idle: cmp.Or(o.Stall, defaultStall), Keychain: registry.Keys{own.RegistryStr(): {
		Username: o.setting("OCI_USERNAME", ""), Password: o.setting("OCI_PASSWORD", ""),
		RegistryToken: o.setting("OCI_ACCESS_TOKEN", ""), IdentityToken: o.setting("OCI_REFRESH_TOKEN", ""),
	}}}
	if o.Registries != "" {
		if with, err = with.Read(o.Registries); err != nil {
			return nil, err
		}
	}
	return registry.New(with)
}

func (r *oci) DefaultVersion() string { return r.version }

func (r *oci) ComponentsFile() string { return r.components }

// Versions are the tags that are versions.
func (r *oci) Versions(ctx context.Context) (versions []string, err error) {
	err = r.fetch.again(ctx, func(ctx context.Context) error {
		all, err := r.repo.Tags(ctx)
		versions = sortedVersions(all)
		return r.explain(err)
	})
	if isNotFound(err) {
		return nil, &NotFoundError{Where: r.where}
	}
	return versions, err
}

func (r *oci) File(ctx context.Context, version, name string) (data []byte, err error) {
	if err := checkFile(version, name); err != nil {
		return nil, err
	}
	absent := &NotFoundError{Where: r.where, Version: version}
	err = r.fetch.again(ctx, func(ctx context.Context) error {
		layers, err := r.layers(ctx, version)
		if err != nil {
			return r.explain(err)
		}
		var there []string
		for _, l := range layers {
			title := path.Base(l.Annotations[ocispec.AnnotationTitle])
			if title == name {
				data, err = r.layer(ctx, l, name)
				return r.explain(err)
			}
			there = append(there, title)
		}
		absent.Name, absent.Hint = name, "it has "+strings.Join(there, ", ")
		return permanentError{absent}
	})
	if isNotFound(err) {
		return nil, absent
	}
	return data, err
}

// layers are the files of a release.
func (r *oci) layers(ctx context.Context, version string) ([]ocispec.Descriptor, error) {
	desc, err := r.repo.Manifest(ctx, version)
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(desc.Manifest, &m); err != nil || desc.MediaType != types.OCIManifestSchema1 {
		return nil, permanentError{fmt.Errorf("release %s of %s is no artifact, but %s", version, r.where, desc.MediaType)}
	}
	return m.Layers, nil
}

// layer returns the content of a layer, which has the digest and size of l.
func (r *oci) layer(ctx context.Context, l ocispec.Descriptor, name string) ([]byte, error) {
	if l.Size > maxFile {
		return nil, permanentError{fmt.Errorf("%s of %s is larger than %d MiB: is it the right file?", name, r.where, maxFile>>20)}
	}
	digest, err := v1.NewHash(l.Digest.String())
	if err != nil {
		return nil, permanentError{fmt.Errorf("%s: %w", name, err)}
	}
	data, err := r.repo.Content(ctx, digest, l.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

// explain turns a registry's error into that of other repositories, and adds what
// to do.
func (r *oci) explain(err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[*transport.Error](err)
	if !ok {
		return fmt.Errorf("read %s: %w", r.where, err)
	}
	status := &StatusError{URL: r.where, Status: answer.StatusCode}
	if len(answer.Errors) > 0 {
		status.text = errorText([]byte(answer.Errors[0].String()))
	}
	if answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden {
		return fmt.Errorf("%w: set OCI_USERNAME and OCI_PASSWORD, or OCI_ACCESS_TOKEN, to those of one who may read it", status)
	}
	return status
}
