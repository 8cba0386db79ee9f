// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/app/chart"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
	"github.com/capstan-dev/capstan/manifests"
)

type managerOptions struct {
	namespace, image, watchNamespace, watchFilter, values string
	replicas                                              int
	providers                                             []string
	gates                                                 controllers.Gates
	certManager                                           bool
	writeChart, writeKustomization                        string
	output                                                output
}

func newManager(env *command.Env) *cobra.Command {
	o := managerOptions{namespace: manifests.Namespace}
	cmd := &cobra.Command{
		Use:   "manager",
		Short: "Print the objects that run capstan-manager in a cluster",
		Long: `Print the objects that run capstan-manager in a Kubernetes cluster: those that helm
makes of its chart with the same values. --write-chart and --write-kustomization write
the chart, or a base for kustomize, into a folder instead.`,
		Example: `  capstan generate manager | kubectl apply --server-side -f -
  capstan generate manager --image registry.example.com/capstan-manager:v1 --providers core
  capstan generate manager --write-chart ./capstan && helm install capstan ./capstan -n capstan-system --create-namespace`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runManager(cmd, env, o) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", manifests.Namespace, "namespace of the manager")
	f.StringVar(&o.image, "image", "", "image of capstan-manager, with a tag or digest (default: that of this release)")
	f.IntVar(&o.replicas, "replicas", 2, "how many managers run; one leads")
	f.StringSliceVar(&o.providers, "providers", []string{controllers.Core, controllers.Kubeadm}, "providers whose controllers run")
	f.Var(&o.gates, "feature-gates", controllers.GatesUsage)
	f.StringVar(&o.watchNamespace, "watch-namespace", "", "namespace to watch (default: all)")
	f.StringVar(&o.watchFilter, "watch-filter", "", "only objects whose label cluster.x-k8s.io/watch-filter has this value")
	f.BoolVar(&o.certManager, "cert-manager", false, "have cert-manager make the certificate of the webhooks")
	f.StringVar(&o.values, "values", "", "file with values of the chart, under those of the flags that are given")
	f.StringVar(&o.writeChart, "write-chart", "", "folder to write the Helm chart into, instead")
	f.StringVar(&o.writeKustomization, "write-kustomization", "", "folder to write a base for kustomize into, instead")
	o.output.add(cmd)
	return cmd
}

func runManager(cmd *cobra.Command, env *command.Env, o managerOptions) error {
	if err := command.RefuseEmpty(cmd.Flags(), "namespace", "image", "values", "write-chart", "write-kustomization", "write-to"); err != nil {
		return err
	}
	if o.writeChart != "" && o.writeKustomization != "" {
		return command.Misuse(errors.New("--write-chart and --write-kustomization: give one of them"))
	}
	version := buildinfo.Read().Version
	if version == "(devel)" {
		version = "" // that of the source
	}
	files, err := chart.Files(version)
	if err != nil {
		return err
	}
	if o.writeChart != "" {
		return chart.Write(o.writeChart, files)
	}
	values, err := o.read(cmd)
	if err != nil {
		return err
	}
	objects, err := chart.Render(files, chart.Release{Name: "capstan", Namespace: o.namespace}, values)
	if err != nil {
		return err
	}
	if o.writeKustomization != "" {
		base, err := chart.Kustomization(objects)
		if err != nil {
			return err
		}
		return chart.Write(o.writeKustomization, base)
	}
	doc, err := chart.YAML(objects)
	if err != nil {
		return err
	}
	return o.output.write(env, doc)
}

// read reads the values of the chart from the file and from the flags.
func (o *managerOptions) read(cmd *cobra.Command) (map[string]any, error) {
	var values map[string]any
	if o.values != "" {
		text, err := os.ReadFile(o.values)
		if err != nil {
			return nil, fmt.Errorf("read the values: %w", err)
		}
		if err := yaml.UnmarshalStrict(text, &values); err != nil {
			return nil, fmt.Errorf("read the values of %s: %w", o.values, err)
		}
	}
	if values == nil { // a file without values has none
		values = map[string]any{}
	}
	if _, given := values["createNamespace"]; !given {
		values["createNamespace"] = true // nothing else creates it
	}
	if err := o.check(); err != nil {
		return nil, command.Misuse(err)
	}
	for flag, value := range map[string]struct {
		name string
		is   any
	}{
		"replicas": {"replicas", o.replicas}, "providers": {"providers", o.providers}, "feature-gates": {"featureGates", o.gates.String()},
		"watch-namespace": {"watchNamespace", o.watchNamespace}, "watch-filter": {"watchFilter", o.watchFilter}, "cert-manager": {"certManager", o.certManager},
		"image": {"image", o.imageValues()},
	} {
		if cmd.Flags().Changed(flag) {
			values[value.name] = value.is
		}
	}
	return values, nil
}

// check refuses what no cluster would take, or no manager.
func (o *managerOptions) check() error {
	if wrong := validation.IsDNS1123Label(o.namespace); len(wrong) > 0 {
		return fmt.Errorf("--namespace %q: %s", o.namespace, wrong[0])
	}
	if o.replicas < 0 {
		return fmt.Errorf("--replicas %d: give 0 or more", o.replicas)
	}
	if len(o.providers) == 0 {
		return fmt.Errorf("--providers: choose among %s", strings.Join(controllers.Providers(), ", "))
	}
	for _, p := range o.providers {
		if !slices.Contains(controllers.Providers(), p) {
			return fmt.Errorf("--providers: %q is not known: choose among %s", p, strings.Join(controllers.Providers(), ", "))
		}
	}
	return nil
}

// imageValues takes an image apart: a colon behind the last slash is that of a tag.
func (o *managerOptions) imageValues() map[string]any {
	repository, digest, _ := strings.Cut(o.image, "@")
	tag := ""
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository, tag = repository[:i], repository[i+1:]
	}
	return map[string]any{"repository": repository, "tag": tag, "digest": digest}
}
