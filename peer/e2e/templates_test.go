// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const (
	devGroup   = "infrastructure.cluster.x-k8s.io"
	localGroup = "infrastructure.capstan.dev"
)

// convertTemplates writes upstream's templates and ClusterClasses in a folder as those of a
// set-up. YAML is edited as nodes, since quotes decide what a variable becomes.
func convertTemplates(setup, from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".yaml")
		needsExtension := strings.Contains(name, "in-memory") || strings.Contains(name, "runtimesdk")
		if name == "bases" || setup == local && needsExtension {
			continue
		}
		text, err := build(filepath.Join(from, e.Name()))
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
		text, err = convert(setup, name, text)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
		if err := os.WriteFile(filepath.Join(to, name+".yaml"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// build returns the objects of a file or a folder for kustomize. A folder of steps has one
// folder for kustomize per step.
func build(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		text, err := os.ReadFile(path)
		return string(text), err
	}
	folders := []string{path}
	if steps, _ := filepath.Glob(filepath.Join(path, "step*")); len(steps) > 0 {
		folders = steps
	}
	var texts []string
	for _, folder := range folders {
		options := krusty.MakeDefaultOptions()
		options.LoadRestrictions = types.LoadRestrictionsNone
		objects, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), folder)
		if err != nil {
			return "", err
		}
		text, err := objects.AsYaml()
		if err != nil {
			return "", err
		}
		texts = append(texts, string(text))
	}
	return strings.Join(texts, "---\n"), nil
}

func convert(setup, name, text string) (string, error) {
	objects, err := (&kio.ByteReader{Reader: strings.NewReader(text), OmitReaderAnnotations: true, DisableUnwrapping: true}).Read()
	if err != nil {
		return "", err
	}
	var kept []string
	for _, o := range objects {
		if setup == inMemory && !runsInMemory(o) {
			continue
		}
		if err := convertObject(setup, name, o); err != nil {
			return "", fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
		text, err := o.String()
		if err != nil {
			return "", err
		}
		kept = append(kept, text)
	}
	return strings.Join(kept, "---\n"), nil
}

// runsInMemory reports whether upstream's in-memory backend has use for an object: it has
// no pools, and no Pods that a CNI would be for.
func runsInMemory(o *yaml.RNode) bool {
	switch o.GetKind() {
	case "MachinePool", "DevMachinePool", "DevMachinePoolTemplate", "ClusterResourceSet", "ConfigMap":
		return false
	case "KubeadmConfig":
		return !strings.Contains(o.GetName(), "-mp-")
	}
	return true
}

func convertObject(setup, name string, o *yaml.RNode) error {
	var err error
	switch kind := o.GetKind(); {
	case kind == "ClusterClass":
		err = convertClass(setup, o)
	case kind == "Cluster" && setup == inMemory:
		err = errors.Join(clear(o, "machinePools", "spec", "topology", "workers"), clear(o, "cni", "metadata", "labels"))
	case strings.HasPrefix(kind, "Dev"):
		err = convertMachines(setup, name, o)
	}
	if err == nil && setup == local {
		rename(o.YNode())
	}
	return err
}

// convertMachines replaces the backend of a cluster, a machine or a pool, or a template of one.
func convertMachines(setup, name string, o *yaml.RNode) error {
	path := []string{"spec"}
	if strings.HasSuffix(o.GetKind(), "Template") {
		path = []string{"spec", "template", "spec"}
	}
	spec, err := o.Pipe(yaml.LookupCreate(yaml.MappingNode, path...))
	if err != nil {
		return err
	}
	domains, err := spec.Pipe(yaml.Lookup("backend", "docker", "failureDomains"))
	if err != nil {
		return err
	}
	simulated := "{vm: {startupMilliseconds: 700, jitterPercent: 20}, node: {startupMilliseconds: 300}}"
	if strings.HasPrefix(name, "cluster-template-kcp-remediation") && strings.HasSuffix(o.GetName(), "control-plane") {
		simulated = "{faults: [NeverBoots]}" // until bootWhenSignalled clears it
	}
	stage := "{provisioning: {startupDuration: 2s, startupJitter: '0.2'}}"
	backend := fmt.Sprintf("{inMemory: {vm: %[1]s, node: %[1]s, apiServer: %[1]s, etcd: %[1]s}}", stage)
	cluster, pool := strings.HasPrefix(o.GetKind(), "DevCluster"), strings.HasPrefix(o.GetKind(), "DevMachinePool")
	switch {
	case setup == inMemory && cluster:
		return set(spec, "backend", "{inMemory: {}}")
	case setup == inMemory:
		return set(spec, "backend", backend)
	case cluster:
		if domains != nil {
			err = spec.PipeE(yaml.SetField("failureDomains", domains))
		}
		// A simulated cluster chooses its port.
		return errors.Join(err, clear(spec, "controlPlaneEndpoint"), clear(spec, "backend"), set(spec, "simulated", "{}"))
	case pool:
		return errors.Join(clear(spec, "backend"), set(spec, "template", "{simulated: "+simulated+"}"))
	default:
		return errors.Join(clear(spec, "backend"), set(spec, "simulated", simulated))
	}
}

// minor is the version that a class patch of upstream's derives the image of a machine from.
var minor = regexp.MustCompile(`\.builtin\.\w+\.version`)

// convertClass converts the patches for Docker. The patch of the image still depends on the
// version, so that an upgrade rotates the templates.
func convertClass(setup string, class *yaml.RNode) error {
	if setup == inMemory {
		if err := clear(class, "machinePools", "spec", "workers"); err != nil {
			return err
		}
	}
	patches, err := class.Pipe(yaml.Lookup("spec", "patches"))
	if err != nil || patches == nil {
		return err
	}
	var kept []*yaml.Node
	err = patches.VisitElements(func(p *yaml.RNode) error {
		name := p.Field("name").Value.YNode().Value
		switch {
		case slices.Contains([]string{"preloadImages", "preloadImagesMP", "lbImageRepository"}, name):
			return nil
		case name == "customImage":
			if err := convertImagePatch(setup, p); err != nil {
				return err
			}
		}
		kept = append(kept, p.YNode())
		return nil
	})
	patches.YNode().Content = kept
	return err
}

func convertImagePatch(setup string, p *yaml.RNode) error {
	definitions, err := p.Pipe(yaml.Lookup("definitions"))
	if err != nil {
		return err
	}
	var kept []*yaml.Node
	err = definitions.VisitElements(func(d *yaml.RNode) error {
		kind, err := d.GetString("selector.kind")
		if err != nil || setup == inMemory && strings.Contains(kind, "Pool") {
			return err
		}
		kept = append(kept, d.YNode())
		patch, err := d.Pipe(yaml.Lookup("jsonPatches", "0"))
		if err != nil {
			return err
		}
		template, err := patch.GetString("valueFrom.template")
		if err != nil {
			return err
		}
		path, value := "/spec/template/spec/backend/inMemory/vm/provisioning/startupDuration", `2.{{ (semver %s).Minor }}s`
		if setup == local {
			path, value = "/spec/template/spec/simulated/node/startupMilliseconds", `3{{ (semver %s).Minor }}`
		}
		if strings.Contains(kind, "Pool") {
			path = strings.Replace(path, "/spec/simulated", "/spec/template/simulated", 1)
		}
		value = fmt.Sprintf(value, minor.FindString(template))
		return errors.Join(patch.PipeE(yaml.SetField("path", yaml.NewStringRNode(path))),
			patch.PipeE(yaml.Lookup("valueFrom"), yaml.SetField("template", yaml.NewStringRNode(value))))
	})
	definitions.YNode().Content = kept
	return err
}

// rename gives objects and references of upstream's dev provider the names of Capstan's kinds.
func rename(n *yaml.Node) {
	for _, c := range n.Content {
		rename(c)
	}
	if n.Kind != yaml.MappingNode {
		return
	}
	m := yaml.NewRNode(n)
	kind := m.Field("kind")
	if kind == nil || !strings.HasPrefix(kind.Value.YNode().Value, "Dev") {
		return
	}
	kind.Value.YNode().Value = localKind(kind.Value.YNode().Value)
	for _, name := range []string{"apiVersion", "apiGroup"} {
		if f := m.Field(name); f != nil {
			f.Value.YNode().Value = strings.Replace(f.Value.YNode().Value, devGroup, localGroup, 1)
		}
	}
}

// localKind is the kind of Capstan's provider for one of upstream's dev provider.
func localKind(dev string) string { return "Local" + strings.TrimPrefix(dev, "Dev") }

func set(o *yaml.RNode, field, value string) error {
	v, err := yaml.Parse(value)
	if err != nil {
		return err
	}
	return o.PipeE(yaml.SetField(field, v))
}

func clear(o *yaml.RNode, field string, path ...string) error {
	return o.PipeE(yaml.Lookup(path...), yaml.Clear(field))
}
