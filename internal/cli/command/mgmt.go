// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/apply"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

// MgmtFlags choose the management cluster a command works on.
type MgmtFlags struct {
	kubeconfig, context string
	// DataDir is the data directory of the plane.
	DataDir string
	flags   *pflag.FlagSet
}

// Add adds --kubeconfig, --kubeconfig-context and --data-dir.
func (f *MgmtFlags) Add(cmd *cobra.Command, env *Env) {
	fl := cmd.Flags()
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster (default: that of --data-dir, then $KUBECONFIG, then that of the running plane)")
	fl.StringVar(&f.context, "kubeconfig-context", "", "context to use in the kubeconfig (default: its current one)")
	fl.StringVar(&f.DataDir, "data-dir", env.DefaultDataDir(), "data directory of the plane whose kubeconfig is used; wins over $KUBECONFIG when given")
	f.flags = fl
}

// Repeat returns the flags with which the user chose the management cluster, for a
// command line that must use the same one: " --data-dir /tmp/a", or nothing.
func (f *MgmtFlags) Repeat() string {
	var out strings.Builder
	for _, flag := range [][2]string{{"kubeconfig", f.kubeconfig}, {"kubeconfig-context", f.context}, {"data-dir", f.DataDir}} {
		if f.flags.Changed(flag[0]) {
			out.WriteString(" --" + flag[0] + " " + Quote(flag[1]))
		}
	}
	return out.String()
}

// Quote returns a text as one word of a shell.
func Quote(text string) string {
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("%+,-./:=@_", r)
	}) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Mgmt is a chosen management cluster.
type Mgmt struct {
	Config *rest.Config
	// Namespace is that of the kubeconfig's context.
	Namespace string
	// Dir is the data directory of the plane if that was chosen; else empty.
	Dir string
	// chosen is the name for people, and what to do when it does not answer.
	chosen, remedy string
}

// String names the management cluster and how it was chosen.
func (m Mgmt) String() string { return m.chosen }

// Load reads the kubeconfig that the flags and the environment choose. The command
// line takes precedence over the environment, and the environment over the default
// plane.
func (f *MgmtFlags) Load(env *Env) (Mgmt, error) {
	m, err := f.choose(env)
	return m.warn(env), err
}

// LoadKubeconfig reads the kubeconfig that a flag names, of a management cluster that
// is not the one that a command works on.
func LoadKubeconfig(env *Env, flag, path, context string) (Mgmt, error) {
	f := MgmtFlags{context: context}
	m, err := f.load(clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, flag+" "+path, "is it running?")
	return m.warn(env), err
}

// warn has the warnings of the API server told.
func (m Mgmt) warn(env *Env) Mgmt {
	if m.Config != nil {
		m.Config.WarningHandlerWithContext = &warnings{env: env, told: map[string]bool{}}
	}
	return m
}

// warnings prints each warning of an API server once.
type warnings struct {
	env  *Env
	mu   sync.Mutex // guards told
	told map[string]bool
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(ctx context.Context, _ int, _, text string) {
	if name := apply.Written(ctx); name != "" {
		text = name + ": " + text
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.told[text] && !clusterctl.Rehearsal(ctx) {
		w.told[text] = true
		w.env.Say("Warning: %s", text)
	}
}

func (f *MgmtFlags) choose(env *Env) (Mgmt, error) {
	file, dir, variable := f.flags.Changed("kubeconfig"), f.flags.Changed("data-dir"), env.Getenv("KUBECONFIG")
	if err := RefuseEmpty(f.flags, "kubeconfig", "kubeconfig-context", "data-dir", "namespace"); err != nil {
		return Mgmt{}, err
	}
	switch {
	case file && dir:
		return f.both()
	case file:
		return f.load(clientcmd.ClientConfigLoadingRules{ExplicitPath: f.kubeconfig}, "--kubeconfig "+f.kubeconfig, elsewhere)
	case variable != "" && !dir:
		return f.load(clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(variable)}, "KUBECONFIG="+variable, elsewhere)
	}
	return f.plane()
}

// elsewhere is the remedy for a management cluster that may be any.
const elsewhere = "is it running? Another is chosen with --kubeconfig or --data-dir; `capstan up` starts one here"

// plane is the management cluster of the data directory.
func (f *MgmtFlags) plane() (Mgmt, error) {
	up, from := "`capstan up`", "the plane on "+f.DataDir
	if f.flags.Changed("data-dir") {
		up, from = "`capstan up --data-dir "+Quote(f.DataDir)+"`", "--data-dir "+f.DataDir
	}
	if f.DataDir == "" {
		return Mgmt{}, errors.New("no management cluster: name one with --kubeconfig or --data-dir (neither XDG_DATA_HOME nor HOME says where a plane would be)")
	}
	path := datadir.Dir(f.DataDir).Kubeconfig()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return Mgmt{}, fmt.Errorf("no management cluster: start one with %s, or name one with --kubeconfig (no plane was ever started in %s)", up, f.DataDir)
	}
	m, err := f.load(clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, from, "does its plane run? "+up+" starts it")
	m.Dir = f.DataDir
	return m, err
}

// both is for a user who names two: they must be the same management cluster, or a
// command might change the wrong one.
func (f *MgmtFlags) both() (Mgmt, error) {
	byDir, err := f.plane()
	if err != nil {
		return Mgmt{}, err
	}
	byFile, err := f.load(clientcmd.ClientConfigLoadingRules{ExplicitPath: f.kubeconfig}, "--kubeconfig "+f.kubeconfig, byDir.remedy)
	if err != nil {
		return Mgmt{}, err
	}
	if err := rest.LoadTLSFiles(byFile.Config); err != nil {
		return Mgmt{}, fmt.Errorf("read kubeconfig of the management cluster: --kubeconfig %s: %w", f.kubeconfig, err)
	}
	if a, b := byFile.Config, byDir.Config; a.Host != b.Host || !bytes.Equal(a.CAData, b.CAData) {
		return Mgmt{}, Misuse(fmt.Errorf("--kubeconfig and --data-dir choose different management clusters, %s and %s: give one of them", byFile, byDir))
	}
	return byFile, nil
}

// loopback reports whether a server is on this host: to compress a list of 500 Machines
// takes as much CPU there as to produce it.
func loopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// load reads the kubeconfig that rules name; from and remedy are for people. There
// is no fallback to the cluster of a pod, as clientcmd has it: a named file that
// does not exist is an error.
func (f *MgmtFlags) load(rules clientcmd.ClientConfigLoadingRules, from, remedy string) (Mgmt, error) {
	bad := func(err error) (Mgmt, error) {
		return Mgmt{}, fmt.Errorf("read kubeconfig of the management cluster: %s: %w", from, err)
	}
	raw, err := rules.Load()
	if err != nil {
		return bad(err)
	}
	cc := clientcmd.NewNonInteractiveClientConfig(*raw, f.context, &clientcmd.ConfigOverrides{CurrentContext: f.context}, &rules)
	cfg, err := cc.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("it does not exist, or names no cluster")
	}
	if err != nil {
		return bad(err)
	}
	namespace, _, err := cc.Namespace()
	if err != nil {
		return bad(err)
	}
	m := Mgmt{Config: cfg, Namespace: namespace, chosen: fmt.Sprintf("%s (%s)", cfg.Host, from), remedy: remedy}
	cfg.QPS = -1 // the API server protects itself
	cfg.DisableCompression = cfg.DisableCompression || loopback(cfg.Host)
	cfg.UserAgent = "capstan"
	cfg.Wrap(m.explainUnreachable)
	return m, nil
}

// UnreachableError means that the management cluster does not answer, or that
// another server does at its address. It is all that a user needs: the failed
// request makes no difference.
type UnreachableError struct {
	mgmt  Mgmt
	cause error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("management cluster %s does not answer: %v: %s", e.mgmt, e.cause, e.mgmt.remedy)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.cause }

// roundTripper is a function that is a transport.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// explainUnreachable converts the error of a failed connection to an
// UnreachableError.
func (m Mgmt) explainUnreachable(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		dial, dialled := errors.AsType[*net.OpError](err)
		impostor, verified := errors.AsType[*tls.CertificateVerificationError](err)
		switch {
		case dialled && dial.Op == "dial" && req.Context().Err() == nil:
			return nil, &UnreachableError{m, err}
		case verified:
			return nil, &UnreachableError{m, impostor}
		}
		return resp, err
	})
}
