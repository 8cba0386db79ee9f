// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/capstan-dev/capstan/clusterctl/config"
)

// maxTagPages bounds the pages of tags: a registry gives a hundred and more in one.
const maxTagPages = 100

// oci are the artifacts of a registry, one for each release with a layer for each
// file, as `oras push HOST/REPOSITORY:VERSION FILE...` creates them.
type oci struct {
	fetch               *fetcher
	where               string // oci://HOST/REPOSITORY
	repo                name.Repository
	credentials         authn.Authenticator
	plain               bool // the registry is on this host and has no TLS
	version, components string

	mu     sync.Mutex // guards puller
	puller *remote.Puller
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
	hostname, _, err := net.SplitHostPort(host)
	if err != nil {
		hostname = host
	}
	var options []name.Option
	if r.plain = isLoopback(hostname); r.plain {
		options = append(options, name.Insecure)
	}
	registry, err := name.NewRegistry(host, options...)
	if err != nil {
		return nil, fmt.Errorf("invalid registry %s: %w", r.where, err)
	}
	r.repo = registry.Repo(repository)
	r.credentials = authn.FromConfig(authn.AuthConfig{
		Username: o.setting("OCI_USERNAME", ""), Password: o.setting("OCI_PASSWORD", ""),
		RegistryToken: o.setting("OCI_ACCESS_TOKEN", ""), IdentityToken: o.setting("OCI_REFRESH_TOKEN", ""),
	})
	return r, nil
}

// connect authenticates at the registry. The result is reused, and requests a new
// token when the old one expires.
func (r *oci) connect(ctx context.Context) (*remote.Puller, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.puller != nil {
		return r.puller, nil
	}
	guarded := transport.NewUserAgent(newRegistryGuard(r), "capstan")
	authorized, err := transport.NewWithContext(ctx, r.repo.Registry, r.credentials, guarded, []string{r.repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, err
	}
	// Page size 0 leaves the number of tags in a page to the registry.
	puller, err := remote.NewPuller(remote.WithTransport(authorized), remote.WithPageSize(0))
	if err != nil {
		return nil, err
	}
	r.puller = puller
	return puller, nil
}

func (r *oci) DefaultVersion() string { return r.version }

func (r *oci) ComponentsFile() string { return r.components }

// Versions are the tags that are versions.
func (r *oci) Versions(ctx context.Context) (versions []string, err error) {
	err = r.fetch.again(ctx, func(ctx context.Context) error {
		all, err := r.tags(ctx)
		versions = sortedVersions(all)
		return r.explain(err)
	})
	if isNotFound(err) {
		return nil, &NotFoundError{Where: r.where}
	}
	return versions, err
}

func (r *oci) tags(ctx context.Context) ([]string, error) {
	puller, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	pages, err := puller.Lister(ctx, r.repo)
	if err != nil {
		return nil, err
	}
	var all []string
	for n := 0; pages.HasNext(); n++ {
		if n == maxTagPages {
			return nil, permanentError{fmt.Errorf("more than %d pages of tags", maxTagPages)}
		}
		page, err := pages.Next(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Tags...)
	}
	return all, nil
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
	puller, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	desc, err := puller.Get(ctx, r.repo.Tag(version))
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
	puller, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	layer, err := puller.Layer(ctx, r.repo.Digest(l.Digest.String()))
	if err != nil {
		return nil, err
	}
	body, err := layer.Compressed() // as it is stored; it checks the digest at its end
	if err != nil {
		return nil, reason(ctx, err) // without the URL, which can be a signed one
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(body)
	if err == nil && int64(len(data)) != l.Size {
		err = fmt.Errorf("size mismatch: %d bytes, the manifest has %d", len(data), l.Size)
	}
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
