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
	"net/netip"
	"path"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/capstan-dev/capstan/clusterctl/config"
)

// maxTagPages bounds the pages of tags: a registry gives a hundred and more in one.
const maxTagPages = 100

// oci are the artifacts of a registry, one for each release with a layer for each
// file, as `oras push HOST/REPOSITORY:VERSION FILE...` makes them.
type oci struct {
	fetch               *fetcher
	remote              *remote.Repository
	version, components string
}

// newOCI opens the artifacts of a URL oci://HOST/REPOSITORY:VERSION[/FILE]. http is
// for registries of this host alone.
func newOCI(p config.Provider, o Options) (*oci, error) {
	host, rest, _ := strings.Cut(strings.TrimPrefix(p.URL, "oci://"), "/")
	name, rest, tagged := strings.Cut(rest, ":")
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
	repo, err := remote.NewRepository(host + "/" + name)
	if err != nil {
		return nil, err
	}
	r := &oci{fetch: newFetcher(o), remote: repo, version: version, components: components}
	client := &auth.Client{
		Client: r.fetch.client, Header: http.Header{"User-Agent": {"capstan"}}, Cache: auth.NewCache(),
		Credential: auth.StaticCredential(host, auth.Credential{
			Username: o.setting("OCI_USERNAME", ""), Password: o.setting("OCI_PASSWORD", ""),
			AccessToken: o.setting("OCI_ACCESS_TOKEN", ""), RefreshToken: o.setting("OCI_REFRESH_TOKEN", ""),
		}),
	}
	here, _, err := net.SplitHostPort(host)
	if err != nil {
		here = host
	}
	if isLoopback(here) {
		repo.PlainHTTP, client.BlockedRealmPrefixes = true, []netip.Prefix{} // it may send to itself for a token
	}
	repo.Client, repo.TagListMaxPages = client, maxTagPages
	return r, nil
}

func (r *oci) DefaultVersion() string { return r.version }

func (r *oci) ComponentsFile() string { return r.components }

// Versions are the tags that are versions.
func (r *oci) Versions(ctx context.Context) (versions []string, err error) {
	err = r.fetch.again(ctx, func(ctx context.Context) error {
		var all []string
		err := r.remote.Tags(ctx, "", func(tags []string) error {
			all = append(all, tags...)
			return nil
		})
		versions = sortedVersions(all)
		return r.explain(err)
	})
	if isNotFound(err) {
		return nil, &NotFoundError{Where: "oci://" + r.remote.Reference.String()}
	}
	return versions, err
}

func (r *oci) File(ctx context.Context, version, name string) (data []byte, err error) {
	if err := checkFile(version, name); err != nil {
		return nil, err
	}
	absent := &NotFoundError{Where: "oci://" + r.remote.Reference.String(), Version: version}
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
	desc, body, err := r.remote.FetchReference(ctx, version)
	if err != nil {
		return nil, err
	}
	raw, err := readAll(body, desc)
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(raw, &m); err != nil || desc.MediaType != ocispec.MediaTypeImageManifest {
		return nil, permanentError{fmt.Errorf("release %s of oci://%s is no artifact, but %s", version, r.remote.Reference, desc.MediaType)}
	}
	return m.Layers, nil
}

func (r *oci) layer(ctx context.Context, l ocispec.Descriptor, name string) ([]byte, error) {
	if l.Size > maxFile {
		return nil, permanentError{fmt.Errorf("%s of oci://%s is larger than %d MiB: is it the right file?", name, r.remote.Reference, maxFile>>20)}
	}
	body, err := r.remote.Fetch(ctx, l)
	if err != nil {
		return nil, err
	}
	return readAll(body, l)
}

// readAll reads what has a size and a digest, and nothing else.
func readAll(body io.ReadCloser, desc ocispec.Descriptor) ([]byte, error) {
	defer func() { _ = body.Close() }()
	if desc.Size > maxFile {
		return nil, permanentError{fmt.Errorf("a manifest of %d bytes is none", desc.Size)}
	}
	return content.ReadAll(body, desc)
}

// explain makes of a registry's answer what others answer, with what to do.
func (r *oci) explain(err error) error {
	if err == nil {
		return nil
	}
	where := "oci://" + r.remote.Reference.String()
	if errors.Is(err, errdef.ErrNotFound) {
		return &StatusError{URL: where, Status: http.StatusNotFound}
	}
	answer, ok := errors.AsType[*errcode.ErrorResponse](err)
	if !ok {
		return fmt.Errorf("read %s: %w", where, err)
	}
	status := &StatusError{URL: where, Status: answer.StatusCode}
	if len(answer.Errors) > 0 {
		status.text = errorText([]byte(answer.Errors.Error()))
	}
	if answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden {
		return fmt.Errorf("%w: set OCI_USERNAME and OCI_PASSWORD, or OCI_ACCESS_TOKEN, to those of one who may read it", status)
	}
	return status
}
