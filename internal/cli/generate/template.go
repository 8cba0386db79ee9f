// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/clusterctl/repository"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// defaultKubernetesVersion is the default for new clusters: the version that this
// Capstan is built with.
const defaultKubernetesVersion = "v1.36.3"

// unlessSet are the values of variables that neither the command line nor the
// environment nor the configuration gives.
var unlessSet = map[string]string{
	"KUBERNETES_VERSION": defaultKubernetesVersion, "CONTROL_PLANE_MACHINE_COUNT": "1", "WORKER_MACHINE_COUNT": "0",
}

// said are the variables that the command line sets in another way: by a flag, or
// by what is always known.
var said = map[string]string{
	"CLUSTER_NAME": "", "NAMESPACE": "", "KUBERNETES_VERSION": "kubernetes-version",
	"CONTROL_PLANE_MACHINE_COUNT": "control-plane-machine-count", "WORKER_MACHINE_COUNT": "worker-machine-count",
}

// lookTimeout is how long to wait for a management cluster that may have a class,
// or report its providers: without an answer it is taken to have none.
const lookTimeout = 5 * time.Second

// Template is the flags that choose the template of a cluster, and its values.
type Template struct {
	// Namespace of the cluster; code that connects to a management cluster sets
	// that of the kubeconfig here if none is given.
	Namespace string

	version, flavor, infrastructure             string
	controlPlane, workers                       int32
	from                                        string
	configMap, configMapNamespace, configMapKey string
	vars                                        command.Pairs
}

// Add adds the flags to a command.
func (t *Template) Add(cmd *cobra.Command, env *command.Env) {
	fl := cmd.Flags()
	fl.StringVarP(&t.Namespace, "target-namespace", "n", "", "namespace of the cluster's objects (default: that of the kubeconfig)")
	fl.StringVar(&t.Namespace, "namespace", "", "the same as --target-namespace")
	fl.StringVar(&t.version, "kubernetes-version", "", "Kubernetes version of the cluster, as v1.36.3 (default: $KUBERNETES_VERSION, then "+defaultKubernetesVersion+")")
	fl.Int32Var(&t.controlPlane, "control-plane-machine-count", 1, "number of control plane machines")
	fl.Int32Var(&t.workers, "worker-machine-count", 0, "number of worker machines")
	fl.StringVarP(&t.infrastructure, "infrastructure", "i", "", "infrastructure provider whose template to use, as NAME or NAME:VERSION (default: the one that was installed in the management cluster, or local)")
	fl.StringVarP(&t.flavor, "flavor", "f", "", "flavor of the provider's template; that of the provider local has container, container-topology, machine-pool and topology")
	_ = cmd.RegisterFlagCompletionFunc("flavor", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return t.flavors(cmd.Context(), env), cobra.ShellCompDirectiveNoFileComp
	})
	fl.StringVar(&t.from, "from", "", "file or https URL of the template, also of GitHub's pages; - for standard input")
	fl.StringVar(&t.configMap, "from-config-map", "", "ConfigMap of the management cluster that holds the template")
	fl.StringVar(&t.configMapNamespace, "from-config-map-namespace", "", "namespace of that ConfigMap (default: that of the cluster)")
	fl.StringVar(&t.configMapKey, "from-config-map-key", "template", "key of that ConfigMap")
	fl.Var(&t.vars, "var", "value of a variable of the template, as NAME=VALUE; may be repeated; wins over the environment")
}

// flavors are those of the chosen provider, as far as they are known without a
// download; what cannot be read is not completed.
func (t *Template) flavors(ctx context.Context, env *command.Env) []string {
	name, version, err := nameAndVersion("--infrastructure", t.infrastructure)
	if err != nil {
		return nil
	}
	settings, options, err := env.Sources()
	if err != nil {
		return nil
	}
	p, err := settings.Provider(cmp.Or(name, config.Local), clusterctlv1.InfrastructureProviderType)
	if err != nil {
		return nil
	}
	r, err := repository.Open(ctx, p, options)
	if err != nil {
		return nil
	}
	return repository.Flavors(r, version)
}

// check refuses flags that contradict each other.
func (t *Template) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	if err := command.RefuseEmpty(cmd.Flags(), "target-namespace", "namespace", "infrastructure", "flavor", "from", "from-config-map", "from-config-map-namespace", "from-config-map-key"); err != nil {
		return err
	}
	if given("target-namespace") && given("namespace") {
		return command.Misuse(errors.New("--target-namespace and --namespace are the same: give one of them"))
	}
	for name, flag := range said {
		if _, ok := t.vars[name]; ok && (flag == "" || given(flag)) {
			return command.Misuse(fmt.Errorf("--var %s: the command line says it already", name))
		}
	}
	for _, count := range []struct {
		flag     string
		n, least int32
	}{{"control-plane-machine-count", t.controlPlane, 1}, {"worker-machine-count", t.workers, 0}} {
		if count.n < count.least {
			return command.Misuse(fmt.Errorf("--%s %d: there must be at least %d", count.flag, count.n, count.least))
		}
	}
	var sources []string
	for _, source := range [][]string{{"from"}, {"from-config-map"}, {"infrastructure", "flavor"}} {
		for _, flag := range source {
			if given(flag) {
				sources = append(sources, "--"+flag)
				break
			}
		}
	}
	if len(sources) > 1 {
		return command.Misuse(fmt.Errorf("%s: only one of them can be the template", strings.Join(sources, " and ")))
	}
	return nil
}

// Options gathers the input of the library. connect is called only if the
// management cluster is needed.
func (t *Template) Options(cmd *cobra.Command, env *command.Env, name string, connect func() (*clusterctl.Client, error)) (clusterctl.GenerateOptions, error) {
	if err := t.check(cmd); err != nil {
		return clusterctl.GenerateOptions{}, err
	}
	settings, repositories, err := env.Sources()
	if err != nil {
		return clusterctl.GenerateOptions{}, err
	}
	f := &finder{Template: t, env: env, settings: settings, repositories: repositories, connect: connect}
	f.explicit = cmd.Flags().Changed("kubeconfig") || cmd.Flags().Changed("kubeconfig-context") || cmd.Flags().Changed("data-dir")
	o := clusterctl.GenerateOptions{
		Name:              name,
		KubernetesVersion: t.version,
		Set:               t.vars,
		Lookup: func(key string) (string, bool) {
			v, ok := settings.Variable(key)
			if usual := unlessSet[key]; v == "" && usual != "" {
				return usual, true
			}
			return v, ok
		},
	}
	if cmd.Flags().Changed("control-plane-machine-count") {
		o.ControlPlaneMachines = &t.controlPlane
	}
	if cmd.Flags().Changed("worker-machine-count") {
		o.WorkerMachines = &t.workers
	}
	ctx := cmd.Context()
	var class func(name string) ([]byte, error)
	if o.Template, class, err = f.find(ctx); err != nil {
		return o, err
	}
	if class != nil {
		o.Class = func(key client.ObjectKey) ([]byte, error) { return f.class(ctx, key, class) }
	}
	o.Namespace = t.Namespace // which is known by now if there is a management cluster
	return o, nil
}

// Fill fills the template; an option that no cluster can have is misuse.
func Fill(o clusterctl.GenerateOptions) ([]byte, error) {
	doc, err := clusterctl.Generate(o)
	if errors.As(err, new(*clusterctl.OptionError)) {
		return nil, command.Misuse(err)
	}
	return doc, err
}

// finder finds the template, and the classes that go with it.
type finder struct {
	*Template
	env          *command.Env
	settings     *config.Config
	repositories repository.Options
	connect      func() (*clusterctl.Client, error)
	explicit     bool // the command line names the management cluster

	asked bool               // whether it was connected to
	mgmt  *clusterctl.Client // nil if there is none
	err   error
}

// find reads the template. class reads a ClusterClass from where that is; it is nil,
// or gives nil, if there is none.
func (f *finder) find(ctx context.Context) (doc []byte, class func(name string) ([]byte, error), err error) {
	switch {
	case f.configMap != "":
		c, err := f.connect()
		if err != nil {
			return nil, nil, err
		}
		doc, err = c.TemplateFromConfigMap(ctx, client.ObjectKey{Namespace: cmp.Or(f.configMapNamespace, f.Namespace), Name: f.configMap}, f.configMapKey)
		return doc, nil, err
	case strings.HasPrefix(f.from, "http://"):
		return nil, nil, command.Misuse(fmt.Errorf("--from %s: a template is fetched over https only", f.from))
	case f.from != "":
		if _, err = f.management(); err == nil {
			doc, err = repository.Read(ctx, f.from, f.env.In, f.repositories)
		}
		return doc, func(name string) ([]byte, error) { return f.classFile(ctx, name) }, err
	}
	release, err := f.release(ctx)
	if err != nil {
		return nil, nil, err
	}
	doc, err = release.Template(ctx, f.flavor)
	return doc, func(name string) ([]byte, error) {
		class, err := release.Class(ctx, name)
		if err == nil && class == nil {
			err = fmt.Errorf("ClusterClass %s not found: neither the management cluster has it nor the release, as %s: create it, or give another name", name, template.ClassFile(name))
		}
		return class, err
	}, err
}

// management connects to the management cluster. A user who only generates need not
// have one, unless the command line names it.
func (f *finder) management() (*clusterctl.Client, error) {
	if !f.asked {
		f.asked = true
		if f.mgmt, f.err = f.connect(); f.err != nil && !f.explicit {
			f.mgmt, f.err = nil, nil
		}
	}
	return f.mgmt, f.err
}

// release is that of the infrastructure provider.
func (f *finder) release(ctx context.Context) (clusterctl.Release, error) {
	name, version, err := nameAndVersion("--infrastructure", f.infrastructure)
	if err != nil {
		return clusterctl.Release{}, err
	}
	c, err := f.management()
	if err != nil {
		return clusterctl.Release{}, err
	}
	var installed inventory.Providers
	if c != nil && version == "" {
		if installed, err = f.installed(ctx, c); err != nil {
			return clusterctl.Release{}, err
		}
	}
	if name == "" {
		if name, err = usual(installed); err != nil {
			return clusterctl.Release{}, err
		}
	}
	p, err := f.settings.Provider(name, clusterctlv1.InfrastructureProviderType)
	if err != nil {
		return clusterctl.Release{}, err
	}
	if version == "" && !strings.HasPrefix(p.URL, config.EmbeddedScheme+":") { // this program embeds a single version
		version = installed.DefaultVersion(name, clusterctlv1.InfrastructureProviderType)
	}
	return open(ctx, p, version, f.repositories)
}

// usual is the infrastructure provider whose template is used if none is named: the
// one that the user installed, or else that of this program, which every plane has.
func usual(installed inventory.Providers) (string, error) {
	var names []string
	for _, p := range installed.OfType(clusterctlv1.InfrastructureProviderType) {
		if p.ProviderName != config.Local {
			names = append(names, p.ProviderName)
		}
	}
	slices.Sort(names)
	switch names = slices.Compact(names); len(names) {
	case 0:
		return config.Local, nil
	case 1:
		return names[0], nil
	}
	return "", command.Misuse(fmt.Errorf("the management cluster has the infrastructure providers %s: choose one with --infrastructure", strings.Join(names, ", ")))
}

// installed are the providers that the management cluster has. One that is not named
// need not answer, and a user of one namespace may not read them.
func (f *finder) installed(ctx context.Context, c *clusterctl.Client) (inventory.Providers, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	all, err := c.Providers(ctx)
	if err != nil && (!f.explicit || apierrors.IsForbidden(err)) {
		f.env.Say("The providers of the management cluster are unknown: %v", err)
		return nil, nil
	}
	return all, err
}

// class reads the class that a template names, from the location of its file,
// unless the management cluster has it: a user may have changed it.
func (f *finder) class(ctx context.Context, key client.ObjectKey, read func(name string) ([]byte, error)) ([]byte, error) {
	c, err := f.management()
	if err != nil {
		return nil, err
	}
	var there bool
	if c != nil {
		looking, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		if there, err = c.HasClass(looking, key); there {
			return nil, nil
		}
	}
	doc, readErr := read(key.Name)
	if err != nil && doc != nil && !errors.As(err, new(*clusterctl.NotInstalledError)) {
		f.env.Say("ClusterClass %s is included: it is unknown whether it exists already: %v", key, err)
	}
	return doc, readErr
}

// classFile reads the file of a class from the folder of a template. One that a server
// refuses may exist anyway.
func (f *finder) classFile(ctx context.Context, name string) ([]byte, error) {
	at := repository.Sibling(f.from, template.ClassFile(name))
	if at == "" {
		return nil, nil
	}
	doc, err := repository.Read(ctx, at, f.env.In, f.repositories)
	switch {
	case err == nil:
		return doc, nil
	case strings.HasPrefix(f.from, "https://"):
		f.env.Say("ClusterClass %s has to come from elsewhere: %v", name, err)
		return nil, nil
	case errors.As(err, new(*repository.NotFoundError)):
		return nil, nil
	}
	return nil, err
}

// nameAndVersion takes what a flag names apart: NAME or NAME:VERSION.
func nameAndVersion(flag, value string) (name, version string, err error) {
	name, version, more := strings.Cut(value, ":")
	if value != "" && name == "" || more && version == "" {
		return "", "", command.Misuse(fmt.Errorf("%s %s: it has the form NAME or NAME:VERSION", flag, value))
	}
	return name, version, nil
}

// open opens the release of a provider; without a version the newest, or that of its
// URL.
func open(ctx context.Context, p config.Provider, version string, o repository.Options) (clusterctl.Release, error) {
	r, err := repository.Open(ctx, p, o)
	if err != nil {
		return clusterctl.Release{}, err
	}
	version, err = repository.Resolve(ctx, r, version)
	if err != nil {
		return clusterctl.Release{}, fmt.Errorf("provider %s: %w", p.Label(), err)
	}
	return clusterctl.Release{Repository: r, Version: version}, nil
}
