// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

const (
	// defaultKubernetesVersion is what new clusters run when nothing is said:
	// the version that this Capstan is built with.
	defaultKubernetesVersion = "v1.36.3"

	// maxTemplate bounds what is read as a template from elsewhere.
	maxTemplate = 4 << 20

	// downloadTimeout is enough for a template over a slow line, and ends a
	// server that says nothing.
	downloadTimeout = 30 * time.Second
)

// unlessSet are the values of variables that neither the command line nor the
// environment gives.
var unlessSet = map[string]string{
	"KUBERNETES_VERSION": defaultKubernetesVersion, "CONTROL_PLANE_MACHINE_COUNT": "1", "WORKER_MACHINE_COUNT": "0",
}

// said are the variables that the command line gives otherwise: by a flag, or by
// what is always known.
var said = map[string]string{
	"CLUSTER_NAME": "", "NAMESPACE": "", "KUBERNETES_VERSION": "kubernetes-version",
	"CONTROL_PLANE_MACHINE_COUNT": "control-plane-machine-count", "WORKER_MACHINE_COUNT": "worker-machine-count",
}

// builtin are the flavors of the provider local.
var builtin = map[string]func() []byte{
	"":             template.Local,
	"machine-pool": template.LocalMachinePool, // whose workers are a MachinePool
	"topology":     template.LocalTopology,    // which is made from a ClusterClass
}

// lookTimeout is how long the management cluster is waited for that may have a
// class: without an answer it is taken to have none.
const lookTimeout = 5 * time.Second

// templateFlags say which template to fill, and with what.
type templateFlags struct {
	namespace, version, flavor, infrastructure  string
	controlPlane, workers                       int32
	from                                        string
	configMap, configMapNamespace, configMapKey string
	vars                                        map[string]string
}

func (f *templateFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the cluster's objects (default: that of the kubeconfig)")
	fl.StringVar(&f.version, "kubernetes-version", "", "Kubernetes version of the cluster, as v1.36.3 (default: $KUBERNETES_VERSION, then "+defaultKubernetesVersion+")")
	fl.Int32Var(&f.controlPlane, "control-plane-machine-count", 1, "number of control plane machines")
	fl.Int32Var(&f.workers, "worker-machine-count", 0, "number of worker machines")
	fl.StringVarP(&f.infrastructure, "infrastructure", "i", "local", "infrastructure provider whose template to use")
	fl.StringVarP(&f.flavor, "flavor", "f", "", "flavor of the provider's template; that of the provider local has machine-pool and topology")
	fl.StringVar(&f.from, "from", "", "file or https URL of the template; - for standard input")
	fl.StringVar(&f.configMap, "from-config-map", "", "ConfigMap of the management cluster that holds the template")
	fl.StringVar(&f.configMapNamespace, "from-config-map-namespace", "", "namespace of that ConfigMap (default: that of the cluster)")
	fl.StringVar(&f.configMapKey, "from-config-map-key", "template", "key of that ConfigMap")
	fl.StringToStringVar(&f.vars, "var", nil, "value of a variable of the template, as NAME=VALUE; may be repeated; wins over the environment")
}

// options gathers what the library needs. connect is called only if the
// management cluster is needed to find the template.
func (f *templateFlags) options(ctx context.Context, cmd *cobra.Command, env *Env, name string, connect func() (*clusterctl.Client, error)) (clusterctl.GenerateOptions, error) {
	o := clusterctl.GenerateOptions{
		Name:              name,
		Namespace:         f.namespace,
		KubernetesVersion: f.version,
		Set:               f.vars,
		Lookup: func(key string) (string, bool) {
			v := cmp.Or(env.Getenv(key), unlessSet[key])
			return v, v != ""
		},
	}
	for name, flag := range said {
		if _, ok := f.vars[name]; ok && (flag == "" || cmd.Flags().Changed(flag)) {
			return o, command.Misuse(fmt.Errorf("--var %s: the command line says it already", name))
		}
	}
	if cmd.Flags().Changed("control-plane-machine-count") {
		o.ControlPlaneMachines = &f.controlPlane
	}
	if cmd.Flags().Changed("worker-machine-count") {
		o.WorkerMachines = &f.workers
	}
	var err error
	switch {
	case f.configMap != "" && f.from != "":
		err = command.Misuse(errors.New("--from and --from-config-map: only one of them can be the template"))
	case f.configMap != "":
		var c *clusterctl.Client
		if c, err = connect(); err != nil {
			return o, err
		}
		namespace := f.configMapNamespace
		if namespace == "" {
			namespace = o.Namespace
		}
		o.Template, err = c.TemplateFromConfigMap(ctx, client.ObjectKey{Namespace: namespace, Name: f.configMap}, f.configMapKey)
	case f.from != "":
		o.Template, err = readTemplate(ctx, env, f.from)
		o.Class = f.class(ctx, env, connect, func(name string) ([]byte, error) { return readClass(ctx, env, f.from, name) })
	case f.infrastructure == "local" && builtin[f.flavor] != nil:
		o.Template = builtin[f.flavor]()
		o.Class = f.class(ctx, env, connect, func(name string) ([]byte, error) { return template.LocalClass(name), nil })
	default:
		err = command.Misuse(fmt.Errorf("this version knows the template of the provider local, without a flavor or with machine-pool or topology, not %s %s: give another with --from FILE, URL or - for standard input", f.infrastructure, f.flavor))
	}
	return o, err
}

// class reads the class that a template names, from where its file lies, unless the
// management cluster has it: somebody may have made it his own. Who only generates
// need not have a management cluster.
func (f *templateFlags) class(ctx context.Context, env *Env, connect func() (*clusterctl.Client, error), read func(name string) ([]byte, error)) func(client.ObjectKey) ([]byte, error) {
	return func(key client.ObjectKey) ([]byte, error) {
		doc, err := read(key.Name)
		if doc == nil || err != nil {
			return nil, err
		}
		c, err := connect()
		if err != nil {
			return doc, nil
		}
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		there, err := c.HasClass(ctx, key)
		switch {
		case there:
			return nil, nil
		case err != nil && !errors.As(err, new(*clusterctl.NotInstalledError)):
			env.Say("ClusterClass %s comes along: whether it is there already cannot be told: %v", key, err)
		}
		return doc, nil
	}
}

// readClass reads the file of a class beside that of a template; nil if there is none.
// One that a server does not give away may be there all the same.
func readClass(ctx context.Context, env *Env, from, name string) ([]byte, error) {
	if from == "-" {
		return nil, nil
	}
	u, err := url.Parse(from)
	if err != nil || u.Scheme != "https" {
		doc, err := readTemplate(ctx, env, from[:strings.LastIndexByte(from, '/')+1]+template.ClassFile(name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return doc, err
	}
	doc, err := download(ctx, u.ResolveReference(&url.URL{Path: template.ClassFile(name), RawQuery: u.RawQuery}).String())
	if err != nil {
		env.Say("ClusterClass %s has to come from elsewhere: %v", name, err)
	}
	return doc, nil
}

func readTemplate(ctx context.Context, env *Env, from string) ([]byte, error) {
	switch {
	case from == "-":
		return readBounded(env.In, "standard input")
	case strings.HasPrefix(from, "https://"):
		return download(ctx, from)
	case strings.HasPrefix(from, "http://"):
		return nil, command.Misuse(fmt.Errorf("--from %s: a template is fetched over https only", from))
	}
	f, err := os.Open(strings.TrimPrefix(from, "file://"))
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	defer func() { _ = f.Close() }()
	return readBounded(f, from)
}

func download(ctx context.Context, at string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, command.Misuse(fmt.Errorf("--from %s: %w", at, err))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch template: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch template %s: the server answers %s", at, resp.Status)
	}
	return readBounded(resp.Body, at)
}

func readBounded(r io.Reader, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxTemplate+1))
	if err != nil {
		return nil, fmt.Errorf("read template from %s: %w", what, err)
	}
	if len(data) > maxTemplate {
		return nil, errors.New("the template from " + what + " is larger than 4 MiB")
	}
	return data, nil
}
