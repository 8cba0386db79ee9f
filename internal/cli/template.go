// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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

// machinePool is the flavor whose workers are a MachinePool.
const machinePool = "machine-pool"

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
	fl.StringVarP(&f.flavor, "flavor", "f", "", "flavor of the provider's template; that of the provider local has "+machinePool)
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
	case f.infrastructure == "local" && f.flavor == machinePool:
		o.Template = template.LocalMachinePool()
	case f.infrastructure != "local" || f.flavor != "":
		err = command.Misuse(fmt.Errorf("this version knows the template of the provider local, without a flavor or with %s, not %s %s: give another with --from FILE, URL or - for standard input", machinePool, f.infrastructure, f.flavor))
	}
	return o, err
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

func download(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, command.Misuse(fmt.Errorf("--from %s: %w", url, err))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch template: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch template %s: the server answers %s", url, resp.Status)
	}
	return readBounded(resp.Body, url)
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
