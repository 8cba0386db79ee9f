// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/app/webhooks"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/conversion"
)

// versions are the supported versions, the newest first.
var versions = []string{"v1beta2", "v1beta1"}

// NewConvert returns the command convert.
func NewConvert(env *command.Env) *cobra.Command {
	var output, version string
	cmd := &cobra.Command{
		Use:   "convert [FILE]",
		Short: "Convert files to another version of the API",
		Long: `Convert the objects of Cluster API in a file of YAML or JSON, or of standard
input, to another version, as an API server does: objects of all groups of Cluster
API, also in lists. Objects of others, and those that have the version, stay as
they are. Comments are dropped. To an older version, what that cannot say is kept
in an annotation, and references to objects of providers get version v1beta1.`,
		Example: `  capstan convert cluster.yaml -o cluster-v1beta2.yaml
  cat cluster.yaml | capstan convert --to-version v1beta1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Misuse(fmt.Errorf("one file, or none for standard input: %s", cmd.UseLine()))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(versions, version) {
				return command.Misuse(fmt.Errorf("--to-version %q is not known: use %s", version, strings.Join(versions, " or ")))
			}
			in, err := env.ReadFile(append(args, "-")[0])
			if err != nil {
				return fmt.Errorf("read the objects to convert: %w", err)
			}
			out, err := convert(in, version)
			if err != nil {
				return err
			}
			if output != "" {
				if err := os.WriteFile(output, out, 0o644); err != nil {
					return fmt.Errorf("write the converted objects: %w", err)
				}
				return nil
			}
			_, err = env.Out.Write(out)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write to instead of standard output")
	cmd.Flags().StringVar(&version, "to-version", versions[0], "version to convert to: "+strings.Join(versions, " or "))
	_ = cmd.RegisterFlagCompletionFunc("to-version", cobra.FixedCompletions(versions, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// convert returns the objects of a file with those of ours in another version.
func convert(file []byte, version string) ([]byte, error) {
	objects, err := template.Objects(file)
	if err != nil {
		return nil, err
	}
	converter, err := webhooks.NewConverter(func(kind schema.GroupKind) (string, error) { return kind.Group + "/v1beta1", nil })
	if err != nil {
		return nil, err
	}
	for i, obj := range objects {
		if objects[i], err = one(converter, obj, version); err != nil {
			return nil, err
		}
	}
	return template.YAML(objects)
}

// one converts an object if it is of ours and has that version.
func one(converter *conversion.Converter, obj *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	from := obj.GroupVersionKind()
	to, stored := from.GroupKind().WithVersion(version), converter.Stored(from.GroupKind())
	knows := func(kind schema.GroupVersionKind) bool {
		return converter.Converts(kind) || kind.GroupVersion().String() == stored
	}
	switch {
	case stored == "" || from == to || !knows(to) && knows(from):
		return obj, nil
	case !knows(from):
		return nil, fmt.Errorf("%s %s has version %s, which is not known: convert it with a version of clusterctl that knows it", obj.GetKind(), obj.GetName(), obj.GetAPIVersion())
	}
	converted, err := converter.Object(obj.Object, to.GroupVersion().String())
	if err != nil {
		return nil, err
	}
	for _, path := range [][]string{{"metadata", "creationTimestamp"}, {"status"}} {
		if _, was, _ := unstructured.NestedFieldNoCopy(obj.Object, path...); !was {
			unstructured.RemoveNestedField(converted, path...) // of the encoder
		}
	}
	return &unstructured.Unstructured{Object: converted}, nil
}
