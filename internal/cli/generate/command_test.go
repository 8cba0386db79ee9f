// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// full is a device that has no room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// execute runs a command line with an environment and standard input, without a management
// cluster.
func execute(t *testing.T, to io.Writer, environment map[string]string, in string, args ...string) (said string, err error) {
	t.Helper()
	var talk bytes.Buffer
	env := &command.Env{Name: "capstan", In: strings.NewReader(in), Out: to, Err: &talk, LookupEnv: func(name string) (string, bool) { v, ok := environment[name]; return v, ok }}
	root := &cobra.Command{Use: "capstan", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(New(env), NewConvert(env), NewTopology(env))
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return talk.String(), err
}

func TestGenerateYAMLFillsVariables(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"A": "1", "EMPTY": ""}
	for name, tc := range map[string]struct {
		in   string
		args []string
		want string
		err  string
	}{
		"of the environment": {"a: ${A}\nb: ${B:-two}\n", nil, "a: 1\nb: two\n", ""},
		"an empty one":       {"a: '${EMPTY}'\n", nil, "a: ''\n", ""},
		"a dollar":           {"a: $$A\n", nil, "a: $A\n", ""},
		"one without value":  {"a: ${A}\nb: ${NOWHERE}\n", nil, "", "no value for the variables [NOWHERE]"},
		"a list of them":     {"${X} ${Y:=\x1b[2J} ${Z:-}", []string{"--list-variables"}, "Required Variables:\n  - X\n\nOptional Variables:\n  - Y  (defaults to \"\\x1b[2J\")\n  - Z  (defaults to \"\")\n", ""},
		"a list of required": {"${X}", []string{"--list-variables"}, "Required Variables:\n  - X\n", ""},
		"a list of none":     {"a: b", []string{"--list-variables"}, "", ""},
		"a brace that stays": {"a: ${A", []string{"--list-variables"}, "", "the brace of ${A is not closed"},
	} {
		var out bytes.Buffer
		_, err := execute(t, &out, environment, tc.in, append([]string{"generate", "yaml"}, tc.args...)...)
		if out.String() != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: printed %q, error %v; want %q, %q", name, out.String(), err, tc.want, tc.err)
		}
	}
	if _, err := execute(t, full{}, environment, "a: b\n", "generate", "yaml"); err == nil || err.Error() != "no space left on device" {
		t.Errorf("to a full device: error %v", err)
	}
}

func TestGenerateRefusesWrongFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"generate yaml --from=":                   "--from without a value",
		"generate yaml extra":                     "unknown command",
		"generate cluster":                        "the name of one cluster is needed",
		"generate cluster a b":                    "the name of one cluster is needed",
		"generate cluster a --write-to=":          "--write-to without a value",
		"generate cluster a --flavor= -i aws":     "--flavor without a value",
		"generate cluster a -n x --namespace y":   "--target-namespace and --namespace are the same",
		"generate cluster a --var CLUSTER_NAME=b": "--var CLUSTER_NAME: the command line says it already",
		"generate cluster a --var KUBERNETES_VERSION=v1 --kubernetes-version v2": "--var KUBERNETES_VERSION: the command line says it already",
		"generate cluster a --worker-machine-count -1":                           "there must be at least 0",
		"generate cluster a --from x --from-config-map y":                        "--from and --from-config-map: only one of them can be the template",
		"generate cluster a --from x --flavor y":                                 "--from and --flavor: only one of them can be the template",
		"generate cluster a --from http://127.0.0.1/x":                           "a template is fetched over https only",
		"generate cluster a -i aws:":                                             "it has the form NAME or NAME:VERSION",
		"generate cluster a -i :v1":                                              "it has the form NAME or NAME:VERSION",
		"generate cluster a --kubernetes-version nonsense":                       "nonsense",
		"generate cluster A_b":                                                   "A_b",
		"generate provider":                                                      "name one provider, by one of --core, --bootstrap, --control-plane, --infrastructure",
		"generate provider -i aws -b kubeadm":                                    "name one provider",
		"generate provider --infrastructure=":                                    "name one provider",
		"generate provider -i aws --raw --describe":                              "--raw and --describe: give one of them",
		"generate provider -i aws --target-namespace=":                           "--target-namespace without a value",
		"generate provider -i aws:":                                              "it has the form NAME or NAME:VERSION",
		"generate manager --write-to=":                                           "--write-to without a value",
		"topology render":                                                        "-f is needed: a file with the Cluster, - for stdin",
		"topology render -f - -o json":                                           `--output "json" is not known: use yaml or diff`,
		"topology render --filename=":                                            "--filename without a value",
		"convert a b":                                                            "one file, or none for standard input",
		"convert --to-version v1alpha4":                                          `--to-version "v1alpha4" is not known: use v1beta2 or v1beta1`,
	} {
		var out bytes.Buffer
		_, err := execute(t, &out, nil, "", strings.Fields(args)...)
		if !errors.As(err, new(command.UsageError)) || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%s: error %v, printed %q; want misuse with %q", args, err, out.String(), want)
		}
	}
	if _, err := execute(t, io.Discard, nil, "", "generate", "provider", "-i", "awss"); err == nil || !strings.Contains(err.Error(), `there is no InfrastructureProvider "awss": did you mean "aws"?`) {
		t.Errorf("an unknown provider: error %v", err)
	}
}

// TestTopologyRendersFiles without a management cluster.
func TestTopologyRendersFiles(t *testing.T) {
	t.Parallel()
	const dir = "../../../clusterctl/topology/testdata/"
	files := []string{"topology", "render", "-f", dir + "class.yaml", "-f", dir + "cluster.yaml"}
	var out bytes.Buffer
	if said, err := execute(t, &out, nil, "", append(files, "--variables", "startup=7", "-n", "fleet")...); err != nil || said != "" || strings.Count(out.String(), "\n---\n") != 8 ||
		!strings.Contains(out.String(), "startupMilliseconds: 7\n") || strings.Contains(out.String(), "namespace: default\n") {
		t.Errorf("%v, said %q, printed %s", err, said, out.String())
	}
	for name, tc := range map[string]struct {
		args   []string
		want   string
		misuse bool
	}{
		"a variable without a value": {append(files, "--variables", "startup"), "--variables startup: want NAME=VALUE", true},
		"a variable without a name":  {append(files, "--variables", "=7"), "--variables =7: want NAME=VALUE", true},
		"a value that is no YAML":    {append(files, "--variables", "startup=[7"), "--variables startup=[7: variable startup: its value is not YAML", true},
		"a value of another type":    {append(files, "--variables", "startup=soon"), "startup", false},
		"no class":                   {files[:len(files)-2], "there are 0 Clusters with spec.topology: give one", false},
		"no such file":               {append(files, "-f", "nowhere.yaml"), "read -f: open nowhere.yaml: no such file or directory", false},
		"a folder without files":     {append(files, "-f", t.TempDir()), "there is no file that ends in .yaml, .yml or .json", false},
		"no management cluster":      {append(files, "-o", "diff"), "no management cluster: name one with --kubeconfig or --data-dir", false},
	} {
		_, err := execute(t, io.Discard, nil, "", tc.args...)
		if err == nil || !strings.Contains(err.Error(), tc.want) || errors.As(err, new(command.UsageError)) != tc.misuse {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
	if _, err := execute(t, full{}, nil, "", files...); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("to a full device: error %v", err)
	}
}

// TestResultsAreWrittenWhereRequested: to a file, which replaces one that exists, or to a
// device that stays.
func TestResultsAreWrittenWhereRequested(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "out.yaml")
	const cluster = "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: a}\nspec: {}\n"
	for name, args := range map[string][]string{"convert": {"convert", "-o"}, "generate cluster": {"generate", "cluster", "a", "--write-to"}} {
		var out bytes.Buffer
		if _, err := execute(t, &out, nil, cluster, append(args, file)...); err != nil || out.Len() > 0 {
			t.Errorf("%s: %v, printed %q", name, err, out.String())
		}
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n") {
			t.Errorf("%s: %v, %s", name, err, text)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if _, err := execute(t, &out, nil, cluster, append(args, "/dev/full")...); err == nil || !strings.Contains(err.Error(), "no space left on device") {
			t.Errorf("%s to a full device: error %v", name, err)
		}
		if _, err := execute(t, &out, nil, cluster, append(args, filepath.Join(file, "below"))...); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s to no folder: error %v", name, err)
		}
	}
	for name, tc := range map[string]struct{ in, want string }{
		"of an unknown version": {strings.Replace(cluster, "v1beta1", "v1alpha3", 1), "has version cluster.x-k8s.io/v1alpha3, which is not known"},
		"no object":             {"a\n", "is no object, but a text"},
		"no YAML":               {"a: [", "is not valid YAML"},
	} {
		if _, err := execute(t, io.Discard, nil, tc.in, "convert"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("convert %s: error %v, want %q", name, err, tc.want)
		}
	}
}

// TestValuesMayBeEmpty: all of them have defaults.
func TestValuesMayBeEmpty(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# replicas: 5\n", "null\n", "{}\n"} {
		values := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := generateManager("--values=" + values); err != nil || !strings.Contains(got, "kind: Namespace\n") || !strings.Contains(got, "replicas: 2\n") {
			t.Errorf("%q: error %v, printed %.200s", text, err, got)
		}
	}
}
