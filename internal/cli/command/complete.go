// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// CompletionTimeout bounds what a shell waits for names of a plane that may be
// down.
const CompletionTimeout = 2 * time.Second

// CompleteClusters offers the names of Clusters while there are fewer arguments
// than most.
func (f *MgmtFlags) CompleteClusters(env *Env, most int) cobra.CompletionFunc {
	return f.CompleteNames(env, "clusters", most)
}

// CompleteNames offers the names of a core resource in the namespace that is given,
// without those that are among the arguments, while these are fewer than most.
func (f *MgmtFlags) CompleteNames(env *Env, resource string, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		namespace := ""
		if flag := cmd.Flag("namespace"); flag != nil {
			namespace = flag.Value.String()
		}
		names := f.Names(cmd.Context(), env, clusterv1.GroupVersion().WithResource(resource), namespace)
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFlags lets a command and all below it complete namespaces and contexts
// for the flags that choose a management cluster and a namespace in it.
func CompleteFlags(cmd *cobra.Command, env *Env) {
	for _, child := range cmd.Commands() {
		CompleteFlags(child, env)
	}
	if cmd.Flags().Lookup("kubeconfig") == nil || cmd.Flags().Lookup("data-dir") == nil {
		return
	}
	chosen := func() *MgmtFlags {
		value := func(name string) string {
			if flag := cmd.Flags().Lookup(name); flag != nil {
				return flag.Value.String()
			}
			return ""
		}
		return &MgmtFlags{kubeconfig: value("kubeconfig"), context: value("kubeconfig-context"), DataDir: value("data-dir"), flags: cmd.Flags()}
	}
	for _, name := range []string{"namespace", "target-namespace"} {
		// A command's own completion stays.
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				return chosen().Names(cmd.Context(), env, corev1.SchemeGroupVersion.WithResource("namespaces"), ""), cobra.ShellCompDirectiveNoFileComp
			})
		}
	}
	if cmd.Flags().Lookup("kubeconfig-context") != nil {
		_ = cmd.RegisterFlagCompletionFunc("kubeconfig-context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return contexts(chosen().kubeconfig, env), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

// Names are those of a resource for a shell that completes a word, of a namespace if
// it has them; what cannot be read is nothing to complete.
func (f *MgmtFlags) Names(ctx context.Context, env *Env, resource schema.GroupVersionResource, namespace string) (names []string) {
	m, err := f.choose(env)
	if err != nil {
		return nil
	}
	m.Config.WarningHandlerWithContext = rest.NoWarnings{}
	c, err := metadata.NewForConfig(m.Config)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, CompletionTimeout)
	defer cancel()
	of := c.Resource(resource)
	var in metadata.ResourceInterface = of
	if resource.Group != "" {
		in = of.Namespace(cmp.Or(namespace, m.Namespace))
	}
	list, err := in.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// contexts are those of a kubeconfig, or of those in the environment.
func contexts(file string, env *Env) []string {
	rules := clientcmd.ClientConfigLoadingRules{ExplicitPath: file}
	if file == "" {
		rules.Precedence = filepath.SplitList(env.Getenv("KUBECONFIG"))
	}
	all, err := rules.Load()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(all.Contexts))
}
