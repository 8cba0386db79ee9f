// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/bench/planes"
	"github.com/capstan-dev/capstan/clusterctl/apply"
	"github.com/capstan-dev/capstan/clusterctl/components"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/install"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/manifests"
)

// pattern is the definition that those of the provider are copied from: two versions
// with large schemas, as real providers have them.
const pattern = "machinepools.cluster.x-k8s.io"

// definitions installs a provider with the scenario's number of definitions, as
// `capstan init` does.
func (b *bench) definitions(ctx context.Context, r *Result) error {
	n := b.scenario.Definitions
	if n == 0 {
		return nil
	}
	many, err := manyDefinitions(n)
	if err != nil {
		return err
	}
	cluster, err := apply.New(b.config)
	if err != nil {
		return err
	}
	before, err := b.settled(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	i := install.Installer{Cluster: cluster, Source: many, Progress: func(string) {}}
	if _, err := i.Init(ctx, install.InitOptions{Selection: install.Selection{clusterctlv1.InfrastructureProviderType: {many.release.Provider.Name}}}); err != nil {
		return fmt.Errorf("install %d definitions: %w", n, err)
	}
	r.Install.Seconds = round(time.Since(begin).Seconds())
	after, err := b.settled(ctx)
	if err != nil {
		return err
	}
	r.Install.CPUSeconds = round(after.cpu - before.cpu)
	r.Install.Requests = after.requests.Since(before.requests).Sum(planes.Counted)
	return nil
}

// single is a Source of one release.
type single struct{ release install.Release }

func (s single) Release(context.Context, install.Wanted, string) (install.Release, error) {
	return s.release, nil
}

var errSingle = errors.New("there is one release")

func (single) Versions(context.Context, install.Wanted) ([]string, error) { return nil, errSingle }

func (single) Metadata(context.Context, install.Wanted, string) (*clusterctlv1.Metadata, error) {
	return nil, errSingle
}

// manyDefinitions is a provider of n kinds.
func manyDefinitions(n int) (single, error) {
	all, err := manifests.CRDs()
	if err != nil {
		return single{}, err
	}
	var file bytes.Buffer
	file.WriteString("apiVersion: v1\nkind: Namespace\nmetadata: {name: many-system}\n")
	for _, crd := range all {
		if crd.Name != pattern {
			continue
		}
		for i := range n {
			doc, err := json.Marshal(like(crd, fmt.Sprintf("Many%03d", i)))
			if err != nil {
				return single{}, err
			}
			fmt.Fprintf(&file, "---\n%s\n", doc)
		}
	}
	c, err := components.Load(components.Input{Provider: config.Provider{Name: "many", Type: clusterctlv1.InfrastructureProviderType}, Version: "v1.0.0", Raw: file.Bytes()})
	return single{install.Release{Components: c, Contract: contract.Versions()[0]}}, err
}

// like is a definition of another kind.
func like(crd *apiextensionsv1.CustomResourceDefinition, kind string) *apiextensionsv1.CustomResourceDefinition {
	const group = "infrastructure.cluster.x-k8s.io"
	out := crd.DeepCopy()
	out.APIVersion, out.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	out.Name = contract.CRDName(group, kind)
	plural := out.Name[:len(out.Name)-len(group)-1]
	out.Spec.Group = group
	out.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: plural[:len(plural)-1]}
	return out
}
