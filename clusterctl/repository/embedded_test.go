// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"testing"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/manifests"
)

func TestTheLocalProviderComesAlong(t *testing.T) {
	t.Parallel()
	var without config.Config
	p, err := without.Provider(config.Local, clusterctlv1.InfrastructureProviderType)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	version, err := Resolve(t.Context(), r, "")
	if err != nil || version != manifests.Release {
		t.Fatalf("%s, %v", version, err)
	}
	kinds := map[string]int{}
	for _, name := range []string{r.ComponentsFile(), "cluster-template.yaml", "cluster-template-machine-pool.yaml", "cluster-template-topology.yaml", "cluster-template-container.yaml", "cluster-template-container-topology.yaml", "clusterclass-quick-start.yaml", "clusterclass-container.yaml"} {
		raw, err := r.File(t.Context(), version, name)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := template.Objects(raw)
		if err != nil || len(objects) == 0 {
			t.Errorf("%s: %d objects, %v", name, len(objects), err)
		}
		for _, obj := range objects {
			kinds[obj.GetKind()]++
		}
	}
	if kinds["CustomResourceDefinition"] != 6 || kinds["Namespace"] != 1 || kinds["ClusterRole"] != 1 || kinds["Cluster"] != 5 || kinds["ClusterClass"] != 2 {
		t.Errorf("kinds %v", kinds)
	}
	_, err = r.File(t.Context(), version, "cluster-template-prod.yaml")
	wantError(t, err, "has no file cluster-template-prod.yaml: its flavors are container, container-topology, machine-pool and topology")
	_, err = r.File(t.Context(), "v0.1.0", "metadata.yaml")
	wantError(t, err, "the provider local of this program has no release v0.1.0: it has "+manifests.Release)
	for _, url := range []string{"embedded:///infrastructure-aws/latest/c.yaml", "embedded:///infrastructure-local/latest", "embedded:///infrastructure-local/newest/c.yaml"} {
		if _, err := Open(t.Context(), config.Provider{Name: "local", Type: clusterctlv1.InfrastructureProviderType, URL: url}, Options{}); err == nil {
			t.Errorf("%s: no error", url)
		}
	}
}
