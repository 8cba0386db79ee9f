// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// versionInfo is what version -o json prints: a contract.
type versionInfo struct {
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	CommitDate string `json:"commitDate,omitempty"`
	Dirty      bool   `json:"dirty,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"`
	Contract   string `json:"contract"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

// commit is a part of the line, nothing if the program was built without.
func (v versionInfo) commit() string {
	if v.Commit == "" {
		return ""
	}
	return "commit " + v.Commit + ", "
}

func newVersion(env *Env) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			var (
				text []byte
				err  error
			)
			switch output {
			case "":
				text = fmt.Appendf(nil, "%s version %s, %sKubernetes %s, contract %s, %s, %s\n",
					env.Name, v.Version, v.commit(), v.Kubernetes, v.Contract, v.Go, v.Platform)
			case "short":
				text = fmt.Appendln(nil, v.Version)
			case "json":
				text, err = json.MarshalIndent(v, "", "  ")
				text = append(text, '\n')
			case "yaml":
				text, err = yaml.Marshal(v)
			default:
				return command.Misuse(fmt.Errorf("--output %q is not known: use json, yaml or short", output))
			}
			if err != nil {
				return err
			}
			_, err = env.Out.Write(text)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, yaml or short; a line if empty")
	return cmd
}

// buildVersion is what the Go linker recorded; nothing has to be stamped.
func buildVersion() versionInfo {
	v := versionInfo{Version: "(devel)", Contract: "v1beta2", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.CommitDate = s.Value
		case "vcs.modified":
			v.Dirty = s.Value == "true"
		}
	}
	for _, m := range info.Deps {
		if m.Path == "k8s.io/kubernetes" {
			v.Kubernetes = m.Version
		}
	}
	return v
}
