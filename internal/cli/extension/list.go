// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// statsPath is where Capstan's API server reports the statistics of handlers.
const statsPath = "/capstan/v1/extensions"

// discoveryRow is the hook of the first row of each extension.
var discoveryRow = hookText(runtimev1.GroupVersionHook{APIVersion: hooksv1.GroupVersion().String(), Hook: "Discovery"})

// maxErrorWidth is how much of an error the table shows; -o json shows all of it.
const maxErrorWidth = 120

// extensionInfo is one ExtensionConfig as list -o json prints it: a contract.
type extensionInfo struct {
	Name       string            `json:"name"`
	Address    string            `json:"address"`
	Discovered string            `json:"discovered"` // True, False or Unknown
	Message    string            `json:"message,omitempty"`
	Settings   map[string]string `json:"settings,omitempty"`
	Handlers   []handlerInfo     `json:"handlers"`
	// Discovery is absent when calls are not counted there.
	Discovery *callInfo `json:"discovery,omitempty"`
}

// handlerInfo is one handler there.
type handlerInfo struct {
	Name           string `json:"name"`
	Hook           string `json:"hook"`
	APIVersion     string `json:"apiVersion"`
	Deprecated     string `json:"deprecated,omitempty"`
	TimeoutSeconds int32  `json:"timeoutSeconds"`
	FailurePolicy  string `json:"failurePolicy"`
	// Calls is absent when calls are not counted there.
	Calls *callInfo `json:"calls,omitempty"`
}

// callInfo reports the calls of a handler since the controllers started.
type callInfo struct {
	Total         uint64    `json:"total"`
	Failed        uint64    `json:"failed"`
	Last          time.Time `json:"last,omitzero"`
	LastError     string    `json:"lastError,omitempty"`
	LastErrorTime time.Time `json:"lastErrorTime,omitzero"`
	P50Seconds    float64   `json:"p50Seconds"`
	P99Seconds    float64   `json:"p99Seconds"`
}

type listOptions struct {
	mgmt   command.MgmtFlags
	output string
}

func newList(env *command.Env) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list [NAME...]",
		Short: "Show the registered extensions, what they answer and how calls went",
		Long: `Show each ExtensionConfig with its handlers. The controllers report the number
of calls of a handler, their duration and the last error since their start, if
they run in the same process as the API server.`,
		Example: `  capstan extension list
  capstan extension list policy -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckOutput(o.output, "json"); err != nil {
				return err
			}
			return runList(cmd.Context(), env, o, args)
		},
	}
	o.mgmt.Add(cmd, env)
	command.OutputFlag(cmd, &o.output, "a table", "json")
	cmd.ValidArgsFunction = completeConfigs(env, &o.mgmt, 1<<10)
	return cmd
}

func runList(ctx context.Context, env *command.Env, o listOptions, names []string) error {
	m, err := connect(env, &o.mgmt)
	if err != nil {
		return err
	}
	configs, err := m.configs(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(configs, func(c runtimev1.ExtensionConfig) bool { return c.Name == name }) {
			return fmt.Errorf("there is no ExtensionConfig %s: see `capstan extension list`", name)
		}
	}
	if len(names) > 0 {
		configs = slices.DeleteFunc(configs, func(c runtimev1.ExtensionConfig) bool { return !slices.Contains(names, c.Name) })
	}
	calls, unknown, err := m.calls(ctx)
	if err != nil {
		return err
	}
	if unknown != "" && len(configs) > 0 {
		env.Say("How calls went is not known here: %s.", unknown)
	}
	list := make([]extensionInfo, 0, len(configs))
	for i := range configs {
		list = append(list, describe(&configs[i], calls))
	}
	if o.output == "json" {
		return env.PrintObject(struct {
			Extensions []extensionInfo `json:"extensions"`
		}{list}, "json")
	}
	if len(list) == 0 {
		env.Say("No extension is registered: see `capstan extension register --help`")
		return nil
	}
	return writeList(env, list)
}

// callKey is a handler by its full name or, without one, the discovery of a
// config.
type callKey struct{ handler, config string }

// calls reads the statistics of each handler's calls from the API server; unknown
// is why they are not available.
func (m *mgmt) calls(ctx context.Context) (calls map[callKey]*callInfo, unknown string, err error) {
	body, err := m.raw.Get().AbsPath(statsPath).MaxRetries(0).DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, "the controllers run elsewhere; ask their metrics address for " + statsPath, nil
	case apierrors.IsServiceUnavailable(err):
		return nil, "the controllers of the core provider do not run, or not yet", nil
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return nil, "these credentials may not read " + statsPath, nil
	case err != nil:
		return nil, "", fmt.Errorf("ask the API server how calls went: %w", err)
	}
	var stats []extensions.HandlerStats
	if err := json.Unmarshal(body, &stats); err != nil {
		return nil, "", fmt.Errorf("read how calls went from the API server: %w", err)
	}
	calls = map[callKey]*callInfo{}
	for _, s := range stats {
		calls[callKey{s.Handler, s.Config}] = &callInfo{
			Total: s.Calls, Failed: s.Failures, Last: s.LastCall, LastError: s.LastError, LastErrorTime: s.LastErrorTime,
			P50Seconds: s.P50Seconds, P99Seconds: s.P99Seconds,
		}
	}
	return calls, "", nil
}

func describe(config *runtimev1.ExtensionConfig, calls map[callKey]*callInfo) extensionInfo {
	info := extensionInfo{
		Name: config.Name, Address: address(config.Spec.ClientConfig), Discovered: "Unknown", Settings: config.Spec.Settings,
		Handlers: []handlerInfo{}, Discovery: calls[callKey{config: config.Name}],
	}
	if c := meta.FindStatusCondition(config.Status.Conditions, runtimev1.ExtensionConfigDiscoveredCondition); c != nil {
		info.Discovered, info.Message = string(c.Status), c.Message
	}
	for _, h := range config.Status.Handlers {
		info.Handlers = append(info.Handlers, handlerInfo{
			Name: h.Name, Hook: h.RequestHook.Hook, APIVersion: h.RequestHook.APIVersion, Deprecated: deprecation(h),
			TimeoutSeconds: h.TimeoutSeconds, FailurePolicy: string(h.FailurePolicy), Calls: calls[callKey{h.Name, config.Name}],
		})
	}
	slices.SortFunc(info.Handlers, func(a, b handlerInfo) int { return strings.Compare(a.Name, b.Name) })
	return info
}

// writeList writes a row for the discovery of each extension, with what is
// wrong if it is not discovered, and one for each handler.
func writeList(env *command.Env, list []extensionInfo) error {
	t := env.Table("CONFIG", "ADDRESS", "DISCOVERED", "HANDLER", "HOOK", "TIMEOUT", "POLICY", "CALLS", "FAILED", "P50", "P99", "LAST ERROR")
	for _, e := range list {
		t.Row(append([]string{e.Name, e.Address, e.Discovered, "-", discoveryRow, extensions.DiscoveryTimeout.String(), "-"}, e.Discovery.columns(env.Now(), e.problem())...)...)
		for _, h := range e.Handlers {
			hook := hookText(runtimev1.GroupVersionHook{APIVersion: h.APIVersion, Hook: h.Hook})
			if h.Deprecated != "" {
				hook += " (deprecated)"
			}
			t.Row(append([]string{e.Name, e.Address, e.Discovered, h.Name, hook, fmt.Sprintf("%ds", h.TimeoutSeconds), h.FailurePolicy}, h.Calls.columns(env.Now(), "")...)...)
		}
	}
	return t.Flush()
}

// problem is why the extension is not discovered, without what is already in the
// row.
func (e *extensionInfo) problem() string {
	return strings.TrimPrefix(e.Message, "discover the handlers of ExtensionConfig "+e.Name+": ")
}

// columns are the last five of the table. A current problem takes precedence over
// the error of a call.
func (c *callInfo) columns(now time.Time, problem string) []string {
	if c == nil {
		return []string{"-", "-", "-", "-", cmp.Or(sanitize.Line(problem, maxErrorWidth), "-")}
	}
	if problem == "" && c.LastError != "" {
		problem = duration.HumanDuration(now.Sub(c.LastErrorTime)) + " ago: " + c.LastError
	}
	p50, p99 := "-", "-"
	if c.Total > 0 {
		p50, p99 = seconds(c.P50Seconds), seconds(c.P99Seconds)
	}
	return []string{strconv.FormatUint(c.Total, 10), strconv.FormatUint(c.Failed, 10), p50, p99, cmp.Or(sanitize.Line(problem, maxErrorWidth), "-")}
}

// seconds is a duration that people can compare at a glance.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
