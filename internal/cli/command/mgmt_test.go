// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeKubeconfig writes one to folder/kubeconfig.
func writeKubeconfig(t *testing.T, folder, server, authority string) string {
	t.Helper()
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: []byte(authority)}
	cfg.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", Namespace: "of-" + filepath.Base(folder)}
	cfg.Contexts["other"] = &clientcmdapi.Context{Cluster: "c", Namespace: "other"}
	cfg.CurrentContext = "c"
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// choose runs a command with the flags of MgmtFlags, and returns what it chose.
func choose(env *Env, args ...string) (m Mgmt, repeat string, err error) {
	var f MgmtFlags
	cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) (err error) {
		m, err = f.Load(env)
		repeat = f.Repeat()
		return err
	}}
	f.Add(cmd, env)
	cmd.Flags().String("namespace", "", "")
	cmd.SetArgs(args)
	err = cmd.Execute()
	return m, repeat, err
}

func TestTheCommandLineChoosesBeforeTheEnvironment(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	at := func(name string) string { return filepath.Join(home, name) }
	kubeconfigs := map[string]string{}
	for _, name := range []string{"plane", "other", "variable", "capstan"} {
		kubeconfigs[name] = writeKubeconfig(t, at(name), "https://"+name+":6443", "authority of "+name)
	}
	kubeconfigs["copy"] = writeKubeconfig(t, at("copy"), "https://other:6443", "authority of other")
	kubeconfigs["impostor"] = writeKubeconfig(t, at("impostor"), "https://other:6443", "another authority")
	tests := map[string]struct {
		args     []string
		variable string // KUBECONFIG
		want     string // the management cluster
		misuse   string // or the error
		err      string
	}{
		"--data-dir":                          {args: []string{"--data-dir", at("other")}, want: "https://other:6443 (--data-dir " + at("other") + ")"},
		"--data-dir before KUBECONFIG":        {args: []string{"--data-dir", at("other")}, variable: kubeconfigs["variable"], want: "https://other:6443 (--data-dir " + at("other") + ")"},
		"--kubeconfig":                        {args: []string{"--kubeconfig", kubeconfigs["plane"]}, want: "https://plane:6443 (--kubeconfig " + kubeconfigs["plane"] + ")"},
		"--kubeconfig before KUBECONFIG":      {args: []string{"--kubeconfig", kubeconfigs["plane"]}, variable: kubeconfigs["variable"], want: "https://plane:6443 (--kubeconfig " + kubeconfigs["plane"] + ")"},
		"KUBECONFIG before the default plane": {variable: kubeconfigs["variable"], want: "https://variable:6443 (KUBECONFIG=" + kubeconfigs["variable"] + ")"},
		"the default plane":                   {want: "https://capstan:6443 (the plane on " + at("capstan") + ")"},
		"both, of one plane":                  {args: []string{"--data-dir", at("other"), "--kubeconfig", kubeconfigs["other"]}, variable: kubeconfigs["variable"], want: "https://other:6443 (--kubeconfig " + kubeconfigs["other"] + ")"},
		"both, one a copy":                    {args: []string{"--data-dir", at("other"), "--kubeconfig", kubeconfigs["copy"]}, want: "https://other:6443 (--kubeconfig " + kubeconfigs["copy"] + ")"},

		"both, of two planes":         {args: []string{"--data-dir", at("other"), "--kubeconfig", kubeconfigs["plane"]}, misuse: "--kubeconfig and --data-dir choose different management clusters, https://plane:6443 (--kubeconfig " + kubeconfigs["plane"] + ") and https://other:6443 (--data-dir " + at("other") + "): give one of them"},
		"both, of two on one address": {args: []string{"--data-dir", at("other"), "--kubeconfig", kubeconfigs["impostor"]}, misuse: "choose different management clusters"},
		"both, and no plane":          {args: []string{"--data-dir", at("nowhere"), "--kubeconfig", kubeconfigs["plane"]}, err: "no plane was ever started in " + at("nowhere")},
		"--data-dir without a plane":  {args: []string{"--data-dir", at("nowhere")}, variable: kubeconfigs["variable"], err: "start one with `capstan up --data-dir " + at("nowhere") + "`"},
		"an empty --data-dir":         {args: []string{"--data-dir="}, variable: kubeconfigs["variable"], misuse: "--data-dir without a value"},
		"an empty --kubeconfig":       {args: []string{"--kubeconfig="}, misuse: "--kubeconfig without a value"},
		"an empty namespace":          {args: []string{"--namespace="}, misuse: "--namespace without a value"},
		"a KUBECONFIG that is gone":   {variable: at("nowhere"), err: "KUBECONFIG=" + at("nowhere") + ": it does not exist, or names no cluster"},
		"a --kubeconfig that is gone": {args: []string{"--kubeconfig", at("nowhere")}, variable: kubeconfigs["variable"], err: "no such file or directory"},
		"a context that is not there": {args: []string{"--data-dir", at("other"), "--kubeconfig-context", "nonsense"}, err: `"nonsense" does not exist`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environment := map[string]string{"XDG_DATA_HOME": home, "KUBECONFIG": tc.variable}
			m, _, err := choose(&Env{LookupEnv: func(key string) (string, bool) { return environment[key], true }}, tc.args...)
			if want := tc.err + tc.misuse; want != "" {
				if err == nil || !strings.Contains(err.Error(), want) || errors.As(err, new(UsageError)) != (tc.misuse != "") {
					t.Fatalf("%s: error %v, want one with %q", m, err, want)
				}
				return
			}
			if err != nil || m.String() != tc.want {
				t.Errorf("chosen is %s, error %v, want %s", m, err, tc.want)
			}
		})
	}
}

func TestWithoutAHomeAManagementClusterMustBeNamed(t *testing.T) {
	t.Parallel()
	_, _, err := choose(&Env{LookupEnv: func(string) (string, bool) { return "", false }})
	if err == nil || !strings.Contains(err.Error(), "name one with --kubeconfig or --data-dir") {
		t.Errorf("error %v", err)
	}
}

func TestACommandLineThatIsSuggestedMeansTheSameManagementCluster(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's d")
	writeKubeconfig(t, dir, "https://d:6443", "authority")
	env := &Env{LookupEnv: func(string) (string, bool) { return "", false }}
	m, repeat, err := choose(env, "--kubeconfig-context", "other", "--data-dir", dir)
	if want := " --kubeconfig-context other --data-dir '" + strings.TrimSuffix(dir, "'s d") + `'\''s d'`; err != nil || repeat != want || m.Namespace != "other" {
		t.Errorf("repeat %q, namespace %q, error %v; want %q and other", repeat, m.Namespace, err, want)
	}
}

func TestUnreachableServerIsNamedWithRemedy(t *testing.T) {
	t.Parallel()
	stranger := httptest.NewTLSServer(nil)
	t.Cleanup(stranger.Close)
	gone := httptest.NewTLSServer(nil)
	gone.Close()
	for name, tc := range map[string]struct{ server, cause string }{
		"the port is closed":     {gone.URL, "connection refused"},
		"another server answers": {stranger.URL, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "d")
			writeKubeconfig(t, dir, tc.server, "") // without an authority, those of the system count
			m, _, err := choose(&Env{LookupEnv: func(string) (string, bool) { return "", false }}, "--data-dir", dir)
			if err != nil {
				t.Fatal(err)
			}
			c, err := client.New(m.Config, client.Options{})
			if err == nil {
				err = c.Get(t.Context(), client.ObjectKey{Name: "x"}, &corev1.Namespace{})
			}
			unreachable, ok := errors.AsType[*UnreachableError](err)
			if !ok {
				t.Fatalf("error %v, want an UnreachableError", err)
			}
			for _, want := range []string{fmt.Sprintf("management cluster %s (--data-dir %s) does not answer: ", tc.server, dir), tc.cause, "does its plane run? `capstan up --data-dir " + dir + "` starts it"} {
				if !strings.Contains(unreachable.Error(), want) {
					t.Errorf("error %q lacks %q", unreachable, want)
				}
			}
		})
	}
}

func TestServerOfThisHostDoesNotCompress(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://127.8.9.1:6443": true, "https://localhost": true, "https://[::1]:6443": true,
		"https://10.0.0.1:6443": false, "https://localhost.example.com": false, "https://plane:6443": false,
	} {
		path := writeKubeconfig(t, t.TempDir(), server, "x")
		m, _, err := choose(&Env{LookupEnv: func(string) (string, bool) { return "", false }}, "--kubeconfig", path)
		if err != nil || m.Config.DisableCompression != want {
			t.Errorf("%s: compression is off: %t, want %t (%v)", server, m.Config != nil && m.Config.DisableCompression, want, err)
		}
	}
}
