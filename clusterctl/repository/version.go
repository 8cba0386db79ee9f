// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/contract"
)

// Candidates is how many releases are checked for the newest one: a release is tagged
// before its files are published, and a few may have none. It is upstream's.
const Candidates = 5

// parseVersion parses a semantic version, with or without a v.
func parseVersion(version string) (semver.Version, error) {
	v, err := semver.Parse(strings.TrimPrefix(version, "v"))
	if err != nil {
		return v, fmt.Errorf("%q is no semantic version, such as v1.2.3", version)
	}
	return v, nil
}

// sortedVersions are those names that are versions, the oldest first.
func sortedVersions(names []string) []string {
	parsed := map[string]semver.Version{}
	var versions []string
	for _, name := range names {
		v, err := parseVersion(name)
		if _, twice := parsed[name]; err != nil || twice {
			continue
		}
		parsed[name] = v
		versions = append(versions, name)
	}
	slices.SortFunc(versions, func(a, b string) int {
		return cmp.Or(parsed[a].Compare(parsed[b]), cmp.Compare(a, b))
	})
	return versions
}

// checkDefault refuses a version that cannot be that of a URL.
func checkDefault(version string) error {
	if version == LatestVersion {
		return nil
	}
	_, err := parseVersion(version)
	return err
}

// checkFile refuses versions and names that are no single step of a path.
func checkFile(version, name string) error {
	if _, err := parseVersion(version); err != nil {
		return err
	}
	if name == "" || name == "." || name == ".." || len(name) > 255 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || strings.ContainsRune(`/\?#%`, r) }) {
		return fmt.Errorf("%q is no name of a file of a release", name)
	}
	return nil
}

// Resolve returns the version that a user means: the given one, or else that of the
// repository's URL. The newest is the newest for the contract of this version of Cluster
// API.
func Resolve(ctx context.Context, r Repository, version string) (string, error) {
	version = cmp.Or(version, r.DefaultVersion())
	if version == LatestVersion {
		return Latest(ctx, r, contract.V1Beta2)
	}
	_, err := parseVersion(version)
	return version, err
}

// Latest returns the newest release that implements a contract, or one that is compatible
// with it if none does; an empty contract allows any. The metadata of the newest release
// defines the contract of each series. A pre-release counts only where there is no other.
func Latest(ctx context.Context, r Repository, wanted string) (string, error) {
	versions, err := r.Versions(ctx)
	if err != nil {
		return "", err
	}
	newest, metadata, err := newestOf(ctx, r, versions)
	if err != nil || wanted == "" {
		return newest, err
	}
	for _, keeps := range append([]string{wanted}, compatible[wanted]...) {
		of := slices.DeleteFunc(slices.Clone(versions), func(v string) bool {
			c, err := Contract(metadata, v)
			return err != nil || c != keeps
		})
		if len(of) > 0 { // a series may be named before it has a release
			newest, _, err = newestOf(ctx, r, of)
			return newest, err
		}
	}
	return "", fmt.Errorf("no release keeps the contract %s: by %s of release %s, the series are %s", wanted, MetadataFile, newest, seriesText(metadata))
}

// newestOf returns the newest of versions whose files exist, with its metadata.
func newestOf(ctx context.Context, r Repository, versions []string) (string, *clusterctlv1.Metadata, error) {
	order := slices.Clone(versions)
	slices.Reverse(order)
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(preRelease(a), preRelease(b)) })
	var absent error = errors.New("there is no release whose tag is a semantic version")
	for _, v := range order[:min(Candidates, len(order))] {
		m, err := Metadata(ctx, r, v)
		if err == nil {
			return v, m, nil
		}
		if !errors.As(err, new(*NotFoundError)) {
			return "", nil, err
		}
		absent = errors.Join(absent, err)
	}
	return "", nil, absent
}

func preRelease(version string) int {
	v, err := parseVersion(version)
	if err == nil && len(v.Pre) > 0 {
		return 1
	}
	return 0
}
