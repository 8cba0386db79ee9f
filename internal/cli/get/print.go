// SPDX-License-Identifier: Apache-2.0

package get

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/suggest"
)

// printFlags are kubectl's flags for how objects are printed.
type printFlags struct {
	output            string
	template          string
	allowMissing      bool
	showManagedFields bool
	noHeaders         bool
	showLabels        bool
	labelColumns      []string
}

// formats of -o; those with an = take a template behind it.
var formats = []string{"wide", "json", "yaml", "name", "jsonpath=", "jsonpath-as-json=", "jsonpath-file=", "go-template=", "go-template-file="}

func (f *printFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&f.output, "output", "o", "", "one of "+strings.Join(formats, ", ")+"; a table if empty")
	fl.StringVar(&f.template, "template", "", "the template of go-template or jsonpath, or the file of one")
	fl.BoolVar(&f.allowMissing, "allow-missing-template-keys", true, "what a template names and an object lacks is no error")
	fl.BoolVar(&f.showManagedFields, "show-managed-fields", false, "keep metadata.managedFields in -o json and yaml")
	fl.BoolVar(&f.noHeaders, "no-headers", false, "leave the header of the table out")
	fl.BoolVar(&f.showLabels, "show-labels", false, "add a column with all labels")
	fl.StringSliceVarP(&f.labelColumns, "label-columns", "L", nil, "labels to show in a column each")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

// printer prints objects, or tables from the API server.
type printer struct {
	printers.ResourcePrinter
	asTable bool
}

// printer is the one that the flags select.
func (f *printFlags) printer(withNamespace bool) (printer, error) {
	format, template, _ := strings.Cut(f.output, "=")
	if format == "" && f.template != "" {
		format = "go-template"
	}
	if template == "" {
		template = f.template
	}
	if strings.HasSuffix(format, "-file") && template != "" {
		text, err := os.ReadFile(template)
		if err != nil {
			return printer{}, fmt.Errorf("read the template of --output %s: %w", format, err)
		}
		template = string(text)
	}
	var p printers.ResourcePrinter
	var err error
	switch {
	case format == "" || format == "wide":
		return printer{printers.NewTablePrinter(printers.PrintOptions{
			Wide: format == "wide", WithNamespace: withNamespace, NoHeaders: f.noHeaders, ShowLabels: f.showLabels, ColumnLabels: f.labelColumns,
		}), true}, nil
	case format == "json":
		p = &printers.JSONPrinter{}
	case format == "yaml":
		p = &printers.YAMLPrinter{}
	case format == "name":
		p = &printers.NamePrinter{ShortOutput: true}
	case !slices.ContainsFunc(formats, func(known string) bool { return known == format+"=" }):
		return printer{}, command.Misuse(fmt.Errorf("--output %q is not known: use one of %s%s", f.output, strings.Join(formats, ", "), suggest.Hint(format, formats)))
	case template == "":
		return printer{}, command.Misuse(fmt.Errorf("--output %s needs a template: --output %[1]s='{.metadata.name}'", format))
	default:
		p, err = f.ofTemplate(format, template)
	}
	if err != nil {
		return printer{}, command.Misuse(fmt.Errorf("--output %s: %w", format, err))
	}
	if !f.showManagedFields {
		p = &printers.OmitManagedFieldsPrinter{Delegate: p}
	}
	return printer{p, false}, nil
}

func (f *printFlags) ofTemplate(format, template string) (printers.ResourcePrinter, error) {
	if strings.HasPrefix(format, "go-template") {
		p, err := printers.NewGoTemplatePrinter([]byte(template))
		if err == nil {
			p.AllowMissingKeys(f.allowMissing)
		}
		return p, err
	}
	p, err := printers.NewJSONPathPrinter(template)
	if err == nil {
		p.AllowMissingKeys(f.allowMissing)
		p.EnableJSONOutput(format == "jsonpath-as-json")
	}
	return p, err
}
