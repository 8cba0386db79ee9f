// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	kjson "sigs.k8s.io/json"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Metadata reads the contracts of a provider from a release.
func Metadata(ctx context.Context, r Repository, version string) (*clusterctlv1.Metadata, error) {
	raw, err := r.File(ctx, version, MetadataFile)
	if err != nil {
		return nil, err
	}
	m, err := parseMetadata(raw)
	if err != nil {
		return nil, fmt.Errorf("%s of release %s: %w", MetadataFile, version, err)
	}
	return m, nil
}

// maxMetadata bounds metadata.yaml; those of old providers have some kilobytes.
const maxMetadata = 1 << 20

var contractForm = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// parseMetadata names all that is wrong in one error.
func parseMetadata(raw []byte) (*clusterctlv1.Metadata, error) {
	if len(raw) > maxMetadata {
		return nil, errors.New("it is larger than 1 MiB: is it the right file?")
	}
	text, err := sanitize.YAMLToJSON(raw)
	if err == nil {
		err = oneDocument(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("it is not valid YAML: %w", err)
	}
	m := &clusterctlv1.Metadata{}
	errs, err := kjson.UnmarshalStrict(text, m)
	if err != nil {
		return nil, fmt.Errorf("it is no Metadata: %w", err)
	}
	if want := clusterctlv1.GroupVersion().String(); m.APIVersion != want {
		errs = append(errs, fmt.Errorf("apiVersion is %q, not %s", m.APIVersion, want))
	}
	if m.Kind != "" && m.Kind != "Metadata" { // published releases of providers leave it out
		errs = append(errs, fmt.Errorf("kind is %q, not Metadata", m.Kind))
	}
	if len(m.ReleaseSeries) == 0 {
		errs = append(errs, errors.New("releaseSeries has no series: list each minor version with its contract"))
	}
	seen := map[[2]int32]bool{}
	for i, s := range m.ReleaseSeries {
		bad := func(text string, args ...any) {
			errs = append(errs, fmt.Errorf("releaseSeries[%d] (%d.%d): %s", i, s.Major, s.Minor, fmt.Sprintf(text, args...)))
		}
		if s.Major < 0 || s.Minor < 0 {
			bad("major and minor cannot be negative")
		}
		if key := [2]int32{s.Major, s.Minor}; seen[key] {
			bad("this series is there already")
		} else {
			seen[key] = true
		}
		if !contractForm.MatchString(s.Contract) {
			bad("contract %q has not the form v1beta2", s.Contract)
		}
	}
	return m, utilerrors.NewAggregate(errs)
}

// oneDocument refuses what would be overlooked behind the first document.
func oneDocument(raw []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(raw))
	for n := 0; ; n++ {
		err := d.Decode(&yaml.Node{})
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n > 0:
			return errors.New("there is more than one document")
		}
	}
}

// Contract returns the contract that a version keeps. The error names the series
// that the metadata has.
func Contract(m *clusterctlv1.Metadata, version string) (string, error) {
	v, err := parseVersion(version)
	if err != nil {
		return "", err
	}
	for _, s := range m.ReleaseSeries {
		if uint64(s.Major) == v.Major && uint64(s.Minor) == v.Minor {
			return s.Contract, nil
		}
	}
	return "", fmt.Errorf("%s has no series %d.%d of version %s, but %s", MetadataFile, v.Major, v.Minor, version, seriesText(m))
}

// ContractOf returns the contract of a release, according to its metadata.yaml.
func ContractOf(ctx context.Context, r Repository, version string) (string, error) {
	m, err := Metadata(ctx, r, version)
	if err != nil {
		return "", err
	}
	return Contract(m, version)
}

// CheckContract returns an error if the contract of what, a release, is not among the
// supported ones.
func CheckContract(what, contract string, supported []string) error {
	if slices.Contains(supported, contract) {
		return nil
	}
	return fmt.Errorf("%s keeps the contract %s, and %s is needed: choose another version", what, contract, strings.Join(supported, " or "))
}

// compatible are the older contracts that a management cluster of a contract
// understands.
var compatible = map[string][]string{contract.V1Beta2: {contract.V1Beta1}}

func seriesText(m *clusterctlv1.Metadata) string {
	var all []string
	for _, s := range slices.SortedFunc(slices.Values(m.ReleaseSeries), func(a, b clusterctlv1.ReleaseSeries) int {
		return cmp.Or(cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor))
	}) {
		all = append(all, fmt.Sprintf("%d.%d (%s)", s.Major, s.Minor, s.Contract))
	}
	return strings.Join(all, ", ")
}
