// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

type registerOptions struct {
	mgmt                      command.MgmtFlags
	url, service              string
	caFile, caSecret          string
	namespaceSelector, output string
	settings                  command.Pairs
	wait                      time.Duration
	dryRun                    bool
}

func newRegister(env *command.Env) *cobra.Command {
	var o registerOptions
	cmd := &cobra.Command{
		Use:   "register NAME (--url URL | --service NAMESPACE/NAME[:PORT][/PATH])",
		Short: "Register an extension, or change how it is registered",
		Long: `Create or change the ExtensionConfig NAME and wait until the extension has
reported the hooks that it answers. An existing ExtensionConfig loses the settings
that are not given: repeat the flags that must stay.`,
		Example: `  capstan extension register policy --url https://127.0.0.1:9443 --ca-file ca.crt
  capstan extension register policy --url https://127.0.0.1:9443 --ca-file ca.crt --setting freeze=true
  capstan extension register policy --service policies/webhook:8443 --inject-ca-from-secret policies/serving-cert
  capstan extension register policy --url https://policy.example --namespace-selector env=prod --dry-run -o yaml`,
		Args: oneName("the name of one ExtensionConfig"),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := o.config(args[0])
			if err != nil {
				return err
			}
			return runRegister(cmd.Context(), env, o, config)
		},
	}
	o.mgmt.Add(cmd, env)
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "address of the extension: https://host:port/path")
	f.StringVar(&o.service, "service", "", "Service of the extension: namespace/name[:port][/path]; port 443 unless given")
	f.StringVar(&o.caFile, "ca-file", "", "file with the certificates (PEM) that the extension's certificate is verified with")
	f.StringVar(&o.caSecret, "inject-ca-from-secret", "", "Secret, as namespace/name, whose ca.crt is used instead of --ca-file and followed when it changes")
	f.StringVar(&o.namespaceSelector, "namespace-selector", "", "labels of the namespaces whose objects the extension is asked about, as k=v,k in (a,b) (default: all)")
	f.Var(&o.settings, "setting", "setting that is sent with each request, as k=v; may be repeated")
	f.DurationVar(&o.wait, "wait", 30*time.Second, "how long to wait for the extension to be discovered; 0 does not wait")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the ExtensionConfig instead; nothing is asked or changed")
	command.OutputFlag(cmd, &o.output, "a table of its handlers", "json", "yaml")
	_ = cmd.MarkFlagFilename("ca-file", "crt", "pem", "cert")
	cmd.ValidArgsFunction = completeConfigs(env, &o.mgmt, 1)
	return cmd
}

// config is the ExtensionConfig that the flags define.
func (o registerOptions) config(name string) (*runtimev1.ExtensionConfig, error) {
	if err := command.CheckOutput(o.output, "json", "yaml"); err != nil {
		return nil, err
	}
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	config.SetGroupVersionKind(kind)
	config.Spec.Settings = o.settings
	switch {
	case (o.url == "") == (o.service == ""):
		return nil, command.Misuse(errors.New("one of --url and --service is needed"))
	case o.caFile != "" && o.caSecret != "":
		return nil, command.Misuse(errors.New("--ca-file and --inject-ca-from-secret: only one of them can be the source of the certificates"))
	case o.service != "":
		service, err := parseService(o.service)
		if err != nil {
			return nil, command.Misuse(err)
		}
		config.Spec.ClientConfig.Service = service
	default:
		config.Spec.ClientConfig.URL = o.url
	}
	if o.caSecret != "" {
		config.Annotations = map[string]string{runtimev1.InjectCAFromSecretAnnotation: o.caSecret}
	}
	if o.caFile != "" {
		pem, err := os.ReadFile(o.caFile)
		if err != nil {
			return nil, fmt.Errorf("read --ca-file: %w", err)
		}
		config.Spec.ClientConfig.CABundle = pem
	}
	if o.namespaceSelector != "" {
		selector, err := metav1.ParseToLabelSelector(o.namespaceSelector)
		if err != nil {
			return nil, command.Misuse(fmt.Errorf("--namespace-selector %q: %w", o.namespaceSelector, err))
		}
		config.Spec.NamespaceSelector = selector
	}
	return config, nil
}

func runRegister(ctx context.Context, env *command.Env, o registerOptions, config *runtimev1.ExtensionConfig) error {
	if o.dryRun {
		return env.PrintObject(config, cmp.Or(o.output, "yaml"))
	}
	m, err := connectToChange(env, &o.mgmt)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&config.ObjectMeta, registeredAt, env.Now().UTC().Format(time.RFC3339Nano))
	before, err := m.apply(ctx, config)
	if err != nil {
		return err
	}
	env.Say("ExtensionConfig %s is %s", config.Name, done(before, config.Generation))
	if o.wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, o.wait)
		defer cancel()
		config, err = m.waitDiscovered(waiting, config, before == config.Generation, func(problem string) { env.Say("Not discovered yet: %s", problem) })
		if err != nil {
			return err
		}
	}
	if o.output != "" {
		config.ManagedFields = nil
		config.SetGroupVersionKind(kind)
		return env.PrintObject(config, o.output)
	}
	if o.wait == 0 {
		env.Say("Inspect it with: capstan extension list %s", config.Name)
		return nil
	}
	return writeHandlers(env, config.Status.Handlers)
}

// done describes the effect of a registration on an ExtensionConfig.
func done(before, after int64) string {
	switch before {
	case 0:
		return "created"
	case after:
		return "as it was"
	}
	return "changed"
}

// registeredAt is the annotation with the time of the last registration of an
// extension. It changes with each registration, so that the controller discovers
// the extension again also if nothing else is new: its handlers may be.
const registeredAt = "capstan.dev/registered-at"

const (
	// lookPeriod is how often the wait checks.
	lookPeriod = 100 * time.Millisecond

	// settleTime is how long handlers that were known before may still be replaced.
	// Nothing reports that an extension was called again if its answer is the same;
	// the call takes milliseconds.
	settleTime = time.Second
)

// apply creates the ExtensionConfig, or updates the existing one, and sets config
// to the result from the API server. before is the previous generation, 0 for a new
// one.
func (m *mgmt) apply(ctx context.Context, config *runtimev1.ExtensionConfig) (before int64, err error) {
	want := config.DeepCopy()
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live := &runtimev1.ExtensionConfig{}
		err := m.client.Get(ctx, client.ObjectKey{Name: want.Name}, live)
		if apierrors.IsNotFound(err) {
			before = 0
			return m.client.Create(ctx, config, client.FieldOwner("capstan"))
		}
		if err != nil {
			return err
		}
		before = live.Generation
		bundle := live.Spec.ClientConfig.CABundle
		delete(live.Annotations, runtimev1.InjectCAFromSecretAnnotation)
		for key, value := range want.Annotations {
			metav1.SetMetaDataAnnotation(&live.ObjectMeta, key, value)
		}
		live.Spec = *want.Spec.DeepCopy()
		if metav1.HasAnnotation(live.ObjectMeta, runtimev1.InjectCAFromSecretAnnotation) {
			live.Spec.ClientConfig.CABundle = bundle // the controller's
		}
		if err := m.client.Update(ctx, live, client.FieldOwner("capstan")); err != nil {
			return err
		}
		*config = *live
		return nil
	})
	if err != nil {
		return 0, explain(fmt.Errorf("register extension %s: %w", want.Name, err))
	}
	return before, nil
}

// waitDiscovered follows an ExtensionConfig until its present generation is
// discovered, and reports to progress why it is not yet.
func (m *mgmt) waitDiscovered(ctx context.Context, config *runtimev1.ExtensionConfig, known bool, progress func(string)) (*runtimev1.ExtensionConfig, error) {
	if metav1.HasAnnotation(config.ObjectMeta, clusterv1.PausedAnnotation) {
		return nil, fmt.Errorf("ExtensionConfig %s is paused: remove its annotation %s", config.Name, clusterv1.PausedAnnotation)
	}
	last := "its controller said nothing: does it run? see `capstan status`"
	begin, tick := time.Now(), time.NewTicker(lookPeriod)
	defer tick.Stop()
	for {
		seen, err := m.config(ctx, config.Name)
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
		if err == nil {
			c := meta.FindStatusCondition(seen.Status.Conditions, runtimev1.ExtensionConfigDiscoveredCondition)
			news := !known || seen.ResourceVersion != config.ResourceVersion || time.Since(begin) > settleTime
			switch {
			case c == nil || c.ObservedGeneration < config.Generation:
			case c.Status == metav1.ConditionTrue && news:
				return seen, nil
			case c.Status != metav1.ConditionTrue && c.Message != last:
				last = c.Message
				progress(last)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("extension %s is registered but not discovered: %s", config.Name, last)
		}
	}
}

func writeHandlers(env *command.Env, handlers []runtimev1.ExtensionHandler) error {
	t := env.Table("HANDLER", "HOOK", "TIMEOUT", "POLICY")
	for _, h := range handlers {
		t.Row(h.Name, hookText(h.RequestHook), fmt.Sprintf("%ds", h.TimeoutSeconds), string(h.FailurePolicy))
	}
	return t.Flush()
}

type unregisterOptions struct {
	mgmt           command.MgmtFlags
	ignoreNotFound bool
}

func newUnregister(env *command.Env) *cobra.Command {
	var o unregisterOptions
	cmd := &cobra.Command{
		Use:     "unregister NAME",
		Short:   "Delete an ExtensionConfig, so that the extension is not called any more",
		Example: `  capstan extension unregister policy`,
		Args:    oneName("the name of one ExtensionConfig"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runUnregister(cmd.Context(), env, o, args[0])
		},
	}
	o.mgmt.Add(cmd, env)
	cmd.Flags().BoolVar(&o.ignoreNotFound, "ignore-not-found", false, "one that is not there is no error")
	cmd.ValidArgsFunction = completeConfigs(env, &o.mgmt, 1)
	return cmd
}

func runUnregister(ctx context.Context, env *command.Env, o unregisterOptions, name string) error {
	m, err := connectToChange(env, &o.mgmt)
	if err != nil {
		return err
	}
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	switch err := m.client.Delete(ctx, config); {
	case apierrors.IsNotFound(err) && o.ignoreNotFound:
		env.Say("There is no ExtensionConfig %s", name)
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no ExtensionConfig %s: see `capstan extension list`", name)
	case err != nil:
		return explain(fmt.Errorf("delete ExtensionConfig %s: %w", name, err))
	}
	env.Say("ExtensionConfig %s is deleted: its hooks are not called any more", name)
	return nil
}
