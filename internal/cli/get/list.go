// SPDX-License-Identifier: Apache-2.0

package get

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// maxCell bounds what is shown of one value; -o json shows all of it.
const maxCell = 512

// resource is a kind of objects that can be listed.
type resource struct {
	plural, kind string
	aliases      []string
}

func resources() []resource {
	return []resource{
		{"clusters", "Cluster", []string{"cluster", "cl"}},
		{"clusterclasses", "ClusterClass", []string{"clusterclass", "cc"}},
		{"machines", "Machine", []string{"machine", "ma"}},
		{"machinedeployments", "MachineDeployment", []string{"machinedeployment", "md"}},
		{"machinesets", "MachineSet", []string{"machineset", "ms"}},
		{"machinepools", "MachinePool", []string{"machinepool", "mp"}},
		{"machinehealthchecks", "MachineHealthCheck", []string{"machinehealthcheck", "mhc"}},
	}
}

type listOptions struct {
	mgmt          command.MgmtFlags
	print         printFlags
	namespace     string
	allNamespaces bool
	selector      string
	fields        string
	watch         bool
}

func newList(env *command.Env, r resource) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:     r.plural + " [NAME...]",
		Aliases: r.aliases,
		Short:   "List the " + r.kind + "s of the management cluster",
		Example: fmt.Sprintf("  capstan get %[1]s -A\n  capstan get %[1]s -o wide --watch\n  capstan get %[1]s demo -o jsonpath='{.status.phase}'", r.plural),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.RefuseEmpty(cmd.Flags(), "output", "selector", "field-selector", "template"); err != nil {
				return err
			}
			switch {
			case len(args) > 0 && o.allNamespaces:
				return command.Misuse(errors.New("-A lists all objects: leave it out with names"))
			case len(args) > 0 && o.selector+o.fields != "":
				return command.Misuse(errors.New("a selector chooses among all objects: leave it out with names"))
			case len(args) > 1 && o.watch:
				return command.Misuse(errors.New("--watch follows all objects, or one name"))
			case o.allNamespaces && cmd.Flags().Changed("namespace"):
				return command.Misuse(errors.New("-A and --namespace contradict each other: give one of them"))
			}
			return list(cmd.Context(), env, r, o, args)
		},
	}
	o.mgmt.Add(cmd, env)
	cmd.ValidArgsFunction = o.mgmt.CompleteNames(env, r.plural, math.MaxInt)
	o.print.add(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the objects (default: that of the kubeconfig)")
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "list the objects of all namespaces")
	f.StringVarP(&o.selector, "selector", "l", "", "labels that the objects have, such as cluster.x-k8s.io/cluster-name=demo")
	f.StringVar(&o.fields, "field-selector", "", "fields that the objects have, such as metadata.name=demo")
	f.BoolVarP(&o.watch, "watch", "w", false, "after the list, show each object again when it changes")
	return cmd
}

// list prints all objects of a resource, or those with one of names.
func list(ctx context.Context, env *command.Env, r resource, o listOptions, names []string) error {
	p, err := o.print.printer(o.allNamespaces)
	if err != nil {
		return err
	}
	m, err := o.mgmt.Load(env)
	if err != nil {
		return err
	}
	if o.namespace == "" {
		o.namespace = m.Namespace
	}
	m.Config.ContentConfig = rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}
	c, err := rest.UnversionedRESTClientFor(m.Config)
	if err != nil {
		return fmt.Errorf("connect to the management cluster: %w", err)
	}
	if o.watch {
		if len(names) == 1 {
			o.fields = "metadata.name=" + names[0]
		}
		if err := (&watching{env: env, c: c, r: r, o: o, p: p}).run(ctx); ctx.Err() == nil {
			return err
		}
		return nil // the user has ended it
	}
	if len(names) == 0 {
		answer, err := ask(ctx, c, r, o, "", p.asTable)
		if err != nil {
			return err
		}
		return show(env, o, p, false, answer)
	}
	var answers []json.RawMessage
	var errs []error
	for _, name := range names {
		answer, err := ask(ctx, c, r, o, name, p.asTable)
		if errs = append(errs, err); err == nil {
			answers = append(answers, answer)
		}
	}
	return errors.Join(append([]error{show(env, o, p, len(names) > 1, answers...)}, errs...)...)
}

// show prints answers as one; several means that they are a list for any number of them.
func show(env *command.Env, o listOptions, p printer, several bool, answers ...json.RawMessage) error {
	var all runtime.Object
	if p.asTable {
		table := &metav1.Table{}
		for _, answer := range answers {
			t, err := tableOf(answer)
			if err != nil {
				return err
			}
			t.Rows = append(table.Rows, t.Rows...)
			table = t
		}
		if len(table.Rows) == 0 {
			if o.allNamespaces {
				env.Say("No resources found")
			} else if len(answers) > 0 {
				env.Say("No resources found in %s namespace.", o.namespace)
			}
			return nil
		}
		return p.PrintObj(table, env.Out)
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}}}
	for _, answer := range answers {
		var u unstructured.Unstructured
		if err := u.UnmarshalJSON(answer); err != nil {
			return fmt.Errorf("read the answer of the management cluster: %w", err)
		}
		all = &u
		if u.IsList() {
			if err := u.EachListItem(func(item runtime.Object) error {
				list.Items = append(list.Items, *item.(*unstructured.Unstructured))
				return nil
			}); err != nil {
				return err
			}
			all = list
		} else {
			list.Items = append(list.Items, u)
		}
	}
	if several {
		all = list
	}
	if all == nil {
		return nil
	}
	return p.PrintObj(all, env.Out)
}

// tableOf reads a table, and escapes the texts of other writers in its cells, which
// could control the terminal.
func tableOf(answer json.RawMessage) (*metav1.Table, error) {
	table := &metav1.Table{}
	if err := json.Unmarshal(answer, table); err != nil {
		return nil, fmt.Errorf("read the answer of the management cluster: %w", err)
	}
	if table.Kind != "Table" {
		return nil, fmt.Errorf("the management cluster answers with %q and not with a table: use -o json", table.Kind)
	}
	for i := range table.Rows {
		row := &table.Rows[i]
		for c, cell := range row.Cells {
			switch v := cell.(type) {
			case string:
				row.Cells[c] = sanitize.Line(v, maxCell)
			case float64: // a million is not to be shown as 1e+06
				row.Cells[c] = int64(v)
			}
		}
		// The printer reads the names and labels of objects whose type it has.
		meta := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(row.Object.Raw, meta); err == nil {
			row.Object.Object = meta
		}
	}
	return table, nil
}

// forms of an answer of the API server, by whether it is a table.
var accept = map[bool]string{
	true:  "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
	false: "application/json",
}

// request requests all objects of a resource, or the one with a name.
func request(c rest.Interface, r resource, o listOptions, name string, table bool) *rest.Request {
	gv := clusterv1.GroupVersion()
	path := []string{"/apis", gv.Group, gv.Version}
	if !o.allNamespaces {
		path = append(path, "namespaces", url.PathEscape(o.namespace))
	}
	path = append(path, r.plural)
	if name != "" {
		path = append(path, url.PathEscape(name))
	}
	req := c.Get().AbsPath(path...).SetHeader("Accept", accept[table])
	for key, value := range map[string]string{"labelSelector": o.selector, "fieldSelector": o.fields} {
		if value != "" {
			req.Param(key, value)
		}
	}
	if table {
		req.Param("includeObject", "Metadata")
	}
	return req
}

func ask(ctx context.Context, c rest.Interface, r resource, o listOptions, name string, table bool) (json.RawMessage, error) {
	answer, err := request(c, r, o, name, table).DoRaw(ctx)
	if err == nil {
		return answer, nil
	}
	if apierrors.IsNotFound(err) && name == "" {
		return nil, &clusterctl.NotInstalledError{Kind: r.kind}
	}
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no %s %s in namespace %s", r.kind, name, o.namespace)
	}
	return nil, fmt.Errorf("list %s: %w", r.plural, err)
}
