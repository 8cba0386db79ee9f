// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/kit/suggest"
)

// longestLine is how much of a line is kept: more is no log.
const longestLine = 1 << 20

type providerOptions struct {
	mgmt             command.MgmtFlags
	follow, previous bool
	since            time.Duration
	tail             int64
}

// newProvider returns the command logs provider.
func newProvider(env *command.Env) *cobra.Command {
	var o providerOptions
	cmd := &cobra.Command{
		Use:   "provider NAME",
		Short: "Show what the Pods of a provider wrote",
		Long: `Show what the Pods of a provider that "init" has installed wrote, in a plane or in
any management cluster. NAME is that of the provider, such as infrastructure-aws, or
the end of it where that is enough. Of several containers, each line says which.`,
		Example: `  capstan logs provider aws --since 10m
  capstan logs provider infrastructure-aws --previous --tail 20`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.RefuseEmpty(cmd.Flags()); err != nil {
				return err
			}
			if len(args) != 1 {
				return command.Misuse(errors.New("the name of one provider is needed; for a cluster with the name provider, use \"capstan events provider\""))
			}
			if cmd.Flags().Changed("tail") && o.tail < 0 || o.since < 0 {
				return command.Misuse(errors.New("--tail and --since cannot be less than 0"))
			}
			if o.follow && o.previous {
				return command.Misuse(errors.New("a previous container writes no longer: leave out --follow or --previous"))
			}
			return showProvider(cmd.Context(), env, o, args[0])
		},
	}
	o.mgmt.Add(cmd, env)
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "show what they write from now on, too")
	f.BoolVarP(&o.previous, "previous", "p", false, "show what wrote before the last restart")
	f.DurationVar(&o.since, "since", 0, "show only what is not older, such as 10m")
	f.Int64Var(&o.tail, "tail", -1, "show at most so many lines of each container")
	return cmd
}

func showProvider(ctx context.Context, env *command.Env, o providerOptions, name string) error {
	mgmt, err := o.mgmt.Load(env)
	if err != nil {
		return err
	}
	c, err := kubernetes.NewForConfig(mgmt.Config)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", mgmt, err)
	}
	sources, err := containersOf(ctx, c, name)
	if err != nil {
		return err
	}
	s := &sharedOutput{env: env, prefixed: len(sources) > 1}
	errs := make([]error, len(sources))
	if !o.follow {
		for i := range sources {
			errs[i] = s.copy(ctx, c, o, sources[i])
		}
		return errors.Join(errs...)
	}
	var all sync.WaitGroup
	for i := range sources {
		all.Go(func() {
			errs[i] = recovery.Call(ctx, func() error { return s.copy(ctx, c, o, sources[i]) })
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// source is a container that writes.
type source struct{ namespace, pod, container string }

// containersOf finds what runs for a provider, by the label that its Deployments have.
func containersOf(ctx context.Context, c kubernetes.Interface, name string) ([]source, error) {
	all, err := c.AppsV1().Deployments("").List(ctx, metav1.ListOptions{LabelSelector: clusterv1.ProviderNameLabel})
	if err != nil {
		return nil, fmt.Errorf("list the Deployments of providers: %w", err)
	}
	var known []string
	for _, d := range all.Items {
		known = append(known, d.Labels[clusterv1.ProviderNameLabel])
	}
	slices.Sort(known)
	known = slices.Compact(known)
	meant := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return k != name && !strings.HasSuffix(k, "-"+name) })
	if slices.Contains(meant, name) {
		meant = []string{name}
	}
	switch {
	case len(known) == 0:
		return nil, errors.New("no provider has a Deployment here: \"capstan init\" installs providers, and --kubeconfig chooses another management cluster")
	case len(meant) == 0:
		return nil, fmt.Errorf("there is no provider %s with a Deployment%s: there are %s", name, suggest.Hint(name, known), strings.Join(known, ", "))
	case len(meant) > 1:
		return nil, command.Misuse(fmt.Errorf("%s may be %s: name one of them", name, strings.Join(meant, " or ")))
	}
	var sources []source
	for i := range all.Items {
		if all.Items[i].Labels[clusterv1.ProviderNameLabel] == meant[0] {
			of, err := containersIn(ctx, c, &all.Items[i])
			if err != nil {
				return nil, err
			}
			sources = append(sources, of...)
		}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("provider %s has no Pod: \"kubectl describe deployments -A -l %s=%s\" says why", meant[0], clusterv1.ProviderNameLabel, meant[0])
	}
	return sources, nil
}

// containersIn are those of a Deployment, in the order of its Pods' names.
func containersIn(ctx context.Context, c kubernetes.Interface, d *appsv1.Deployment) ([]source, error) {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("deployment %s/%s: spec.selector: %w", d.Namespace, d.Name, err)
	}
	pods, err := c.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("list the Pods of Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	var sources []source
	for _, p := range pods.Items {
		for _, container := range p.Spec.Containers {
			sources = append(sources, source{p.Namespace, p.Name, container.Name})
		}
	}
	return sources, nil
}

// sharedOutput is written to by lines, of which several containers have some.
type sharedOutput struct {
	env      *command.Env
	prefixed bool
	mu       sync.Mutex // has each line whole
}

// copy shows what a container wrote, without what a terminal would obey.
func (s *sharedOutput) copy(ctx context.Context, c kubernetes.Interface, o providerOptions, from source) error {
	ask := &corev1.PodLogOptions{Container: from.container, Follow: o.follow, Previous: o.previous}
	if o.since > 0 {
		ask.SinceSeconds = new(int64((o.since + time.Second - 1) / time.Second)) // rather more than asked
	}
	if o.tail >= 0 {
		ask.TailLines = &o.tail
	}
	prefix := ""
	if s.prefixed {
		prefix = from.pod + "/" + from.container + ": "
	}
	stream, err := c.CoreV1().Pods(from.namespace).GetLogs(from.pod, ask).Stream(ctx)
	if err != nil {
		return fmt.Errorf("read the log of Pod %s/%s: %w", from.namespace, from.pod, err)
	}
	defer func() { _ = stream.Close() }()
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		s.mu.Lock()
		s.env.Print("%s%s", prefix, strings.ReplaceAll(lines.Text(), "\t", "    "))
		s.mu.Unlock()
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("read the log of Pod %s/%s: %w", from.namespace, from.pod, err)
	}
	return nil
}
