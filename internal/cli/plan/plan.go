// SPDX-License-Identifier: Apache-2.0

// Package plan holds the command that shows what a change does before it is made.
package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/clusterctl/rollout"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/access/services"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
)

// target is the management cluster of a command, and the namespace of objects that name
// none.
type target struct {
	mgmt      command.MgmtFlags
	namespace string
}

// add adds the flags; namespace is the help of that flag.
func (t *target) add(cmd *cobra.Command, env *command.Env, namespace string) {
	t.mgmt.Add(cmd, env)
	cmd.Flags().StringVarP(&t.namespace, "namespace", "n", "", namespace+" (default: that of the kubeconfig)")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misuse("%w", err) })
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return failed(command.RefuseEmpty(cmd.Flags())) }
}

func (t *target) connect(env *command.Env) (c connection, err error) {
	mgmt, err := t.mgmt.Load(env)
	if err != nil {
		return c, failed(err)
	}
	t.namespace = cmp.Or(t.namespace, mgmt.Namespace)
	return connect(mgmt)
}

type options struct {
	target
	files     []string
	kustomize string
	set       string
	deletes   []string
	manager   string
	horizon   time.Duration
	output    string
	details   bool
	saveTo    string
}

// heapLimit is the size in bytes from which the heap is collected more often.
const heapLimit = 160 << 20

// heapGrowth is how much the heap grows below that before it is collected, in percent:
// with 100, a fifth of the CPU time of a plan is that of the collector.
const heapGrowth = 400

// New returns the command.
func New(env *command.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "plan (-f FILE | -k FOLDER | --set KIND/NAME FIELD=VALUE... | --delete KIND/NAME)",
		Short: "Show what a change does to each machine, before it is made",
		Long: `Show what a change does to each machine, before it is made.

The change is sent to the management cluster as a dry run. Then the controllers run
on a copy of the clusters that it reaches, in virtual time, until nothing changes any
longer. Nothing is written: not in the management cluster, not in a workload cluster,
and not by a provider. Of runtime extensions, only those are called whose answers
decide, such as patches of a class. Lifecycle hooks are listed, and assumed to allow
what they are asked.

A cluster that changes without the change, or whose outcome depends on an answer that
cannot be known, is reported as not predicted: no machine of it is guessed.

Exit status: 0 if no machine goes, 2 if machines are deleted or replaced, 3 if a
cluster is not predicted, 1 if there is no plan.`,
		Example: `  capstan plan -f change.yaml
  capstan plan --set cluster/demo spec.topology.version=v1.37.0
  capstan plan --delete machinedeployment/workers
  capstan plan -k overlays/prod
  capstan plan -f change.yaml --save change.plan && capstan apply change.plan`,
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), env, o, args) },
	}
	o.add(cmd, env, "namespace of objects that name none")
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder with the objects to apply; several can be given, - is stdin")
	f.StringVarP(&o.kustomize, "kustomize", "k", "", "folder of a kustomization whose objects are the change; kubectl or kustomize makes them")
	f.StringVar(&o.set, "set", "", "object to change, as KIND/NAME; its fields follow as FIELD=VALUE")
	f.StringArrayVar(&o.deletes, "delete", nil, "object to delete, as KIND/NAME; several can be given")
	f.StringVar(&o.manager, "field-manager", changeplan.DefaultManager, "field manager that the change will be applied with")
	f.DurationVar(&o.horizon, "for", changeplan.DefaultHorizon, "virtual time after which a change is no longer followed")
	f.BoolVar(&o.details, "details", false, "also show the machines that stay as they are, and the other objects that are written")
	command.OutputFlag(cmd, &o.output, "text", "json", "yaml")
	f.StringVar(&o.saveTo, "save", "", "file to save the plan to, for \"capstan apply\"; it has the objects of the change, Secrets included")
	_ = cmd.MarkFlagFilename("filename")
	_ = cmd.MarkFlagDirname("kustomize")
	_ = cmd.MarkFlagFilename("save")
	cmd.AddCommand(newList(env), newShow(env), newDiff(env))
	return cmd
}

func run(ctx context.Context, env *command.Env, o options, args []string) error {
	ways := 0
	for _, given := range []bool{len(o.files) > 0, o.kustomize != "", o.set != "", len(o.deletes) > 0} {
		if given {
			ways++
		}
	}
	switch {
	case ways == 0:
		return misuse("name the change: -f FILE, -k FOLDER, --set KIND/NAME FIELD=VALUE, or --delete KIND/NAME")
	case ways > 1:
		return misuse("-f, -k, --set and --delete are several changes: make one plan for each")
	case o.set == "" && len(args) > 0:
		return misuse("%q is not expected: objects are in files (-f, -k), and fields need --set", args[0])
	case o.horizon <= 0:
		return misuse("--for %s: a plan needs some time", o.horizon)
	}
	if err := command.CheckOutput(o.output, "json", "yaml"); err != nil {
		return failed(err)
	}
	c, err := o.connect(env)
	if err != nil {
		return err
	}
	change, err := o.change(ctx, env, c, args)
	if err != nil {
		return failed(err)
	}
	return o.print(ctx, env, c, change)
}

// Show prints the plan of the writes of another command. Its error carries the exit
// status.
func Show(ctx context.Context, env *command.Env, mgmt command.Mgmt, change []changeplan.Write) error {
	c, err := connect(mgmt)
	if err != nil {
		return err
	}
	o := options{horizon: changeplan.DefaultHorizon}
	return o.print(ctx, env, c, change)
}

func (o *options) print(ctx context.Context, env *command.Env, c connection, change []changeplan.Write) error {
	var p *planv1.Plan
	if o.saveTo == "" {
		err := o.making(env, c, func(with changeplan.Options) (err error) {
			p, err = changeplan.Make(ctx, with, change)
			return err
		})
		if err != nil {
			return err
		}
	} else {
		s, err := o.save(ctx, env, c, change)
		if err != nil {
			return err
		}
		if err := changeplan.WriteSaved(o.saveTo, s); err != nil {
			return fmt.Errorf("save the plan: %w", err)
		}
		p = &s.Plan
		env.Say("Plan %s is saved: carry it out with `capstan apply %s`", s.ID(), o.saveTo)
	}
	if o.output == "" {
		show(env, p, o.details)
	} else if err := env.PrintObject(p, o.output); err != nil {
		return err
	}
	return status(p)
}

// save makes a plan with what is needed to carry it out.
func (o *options) save(ctx context.Context, env *command.Env, c connection, change []changeplan.Write) (s *planv1.SavedPlan, err error) {
	err = o.making(env, c, func(with changeplan.Options) (err error) {
		s, err = changeplan.Save(ctx, with, change)
		return err
	})
	return s, err
}

// making calls make with the options for a plan.
func (o *options) making(env *command.Env, c connection, make func(changeplan.Options) error) error {
	// Copies are garbage quickly. The heap is collected when it is large, and not before.
	debug.SetMemoryLimit(heapLimit)
	debug.SetGCPercent(heapGrowth)
	// Services of extensions are resolved as in the management cluster, and their Pods
	// are reached through its API server from a host outside of their network.
	pool, err := transport.New(transport.Options{
		Services: &services.Resolver{Live: c, Choose: rand.IntN}, Dial: (&services.Dialer{Live: c, Config: c.config}).DialContext,
	})
	if err != nil {
		return err
	}
	defer pool.Close()
	tell := env.TimedPrinter()
	return make(changeplan.Options{
		Mgmt: c, Manager: o.manager, Horizon: o.horizon, Program: buildinfo.Read().Version, Workload: changeplan.ReadWorkload, Extensions: pool,
		Progress: func(done, all int, one planv1.Cluster) {
			if all > 1 {
				tell(fmt.Sprintf("%d of %d: Cluster %s/%s", done, all, one.Namespace, one.Name))
			}
		},
	})
}

// failed makes misuse an ordinary failure: status 2 says that machines go.
func failed(err error) error {
	if errors.As(err, new(command.UsageError)) {
		return command.StatusError{Status: 1, Cause: errors.New(err.Error())}
	}
	return err
}

func misuse(format string, args ...any) error {
	return failed(command.Misuse(fmt.Errorf(format, args...)))
}

// status is the exit status of a plan.
func status(p *planv1.Plan) error {
	switch {
	case p.Summary.NotPredicted > 0:
		return command.StatusError{Status: changeplan.StatusNotPredicted, Cause: fmt.Errorf("%d machines cannot be predicted", p.Summary.NotPredicted)}
	case p.Summary.Go() > 0:
		return command.StatusError{Status: changeplan.StatusMachinesGo, Cause: fmt.Errorf("%d machines are replaced, and %d are deleted", p.Summary.Replaced, p.Summary.Deleted)}
	}
	for _, c := range p.Clusters {
		for _, of := range c.Pools {
			if of.Then < of.Before {
				return command.StatusError{Status: changeplan.StatusMachinesGo, Cause: fmt.Errorf("MachinePool %s of Cluster %s/%s loses %d of %d replicas", of.Name, c.Namespace, c.Name, of.Before-of.Then, of.Before)}
			}
		}
	}
	return nil
}

// connection is a client with the way to its API server.
type connection struct {
	client.WithWatch
	config *rest.Config
}

func connect(mgmt command.Mgmt) (c connection, err error) {
	scheme, err := controllers.Scheme()
	if err != nil {
		return c, err
	}
	c.config = mgmt.Config
	if c.WithWatch, err = client.NewWithWatch(mgmt.Config, client.Options{Scheme: scheme}); err != nil {
		return c, fmt.Errorf("connect to the management cluster: %w", err)
	}
	return c, nil
}

// change returns the writes that the command line names.
func (o *options) change(ctx context.Context, env *command.Env, c client.Client, args []string) ([]changeplan.Write, error) {
	if o.set != "" {
		return o.fields(c, args)
	}
	if len(o.deletes) > 0 {
		return o.deletions(c)
	}
	objects, err := env.ReadObjects(o.files) // none with --kustomize
	if o.kustomize != "" {
		objects, err = command.ReadKustomization(ctx, o.kustomize)
	}
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("%s%s: there is no object", strings.Join(o.files, ", "), o.kustomize)
	}
	var all []changeplan.Write
	for _, obj := range objects {
		if obj.GetName() == "" {
			return nil, fmt.Errorf("%s without metadata.name: a plan needs the name of each object", obj.GetKind())
		}
		if err := o.place(c, obj); err != nil {
			return nil, err
		}
		all = append(all, changeplan.Write{Object: obj, Patch: types.ApplyPatchType})
	}
	return all, ctx.Err()
}

// place gives an object its namespace.
func (o *options) place(c client.Client, obj *unstructured.Unstructured) error {
	namespaced, err := c.IsObjectNamespaced(obj)
	if err != nil {
		return fmt.Errorf("%s %s: the management cluster does not serve this kind: %w", obj.GetKind(), obj.GetName(), err)
	}
	if namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace(o.namespace)
	}
	return nil
}

// kinds are those that --set changes and --delete deletes.
var kinds = []string{"Cluster", "ClusterClass", "Machine", "MachineSet", "MachineDeployment", "MachinePool", "MachineHealthCheck", "KubeadmControlPlane"}

// fields is the write of --set.
func (o *options) fields(c client.Client, args []string) ([]changeplan.Write, error) {
	obj, err := o.object(c, "--set", o.set)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return nil, fmt.Errorf("--set %s: name what to set, as spec.topology.version=v1.37.0", o.set)
	}
	for _, arg := range args {
		path, text, ok := strings.Cut(arg, "=")
		parts := strings.Split(path, ".")
		switch {
		case !ok || slices.Contains(parts, ""):
			return nil, fmt.Errorf("%s: want FIELD=VALUE", arg)
		case parts[0] == "metadata" && (len(parts) < 2 || parts[1] != "labels" && parts[1] != "annotations"), parts[0] != "metadata" && parts[0] != "spec":
			return nil, fmt.Errorf("%s: a change sets fields of spec, a label or an annotation", arg)
		}
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			value = text // a string needs no quotes
		}
		if n, is := value.(float64); is && n == float64(int64(n)) {
			value = int64(n)
		}
		if err := unstructured.SetNestedField(obj.Object, value, parts...); err != nil {
			return nil, fmt.Errorf("%s: %w", arg, err)
		}
	}
	return []changeplan.Write{{Object: obj, Patch: types.MergePatchType}}, nil
}

// deletions are the writes of --delete.
func (o *options) deletions(c client.Client) (all []changeplan.Write, err error) {
	for _, name := range o.deletes {
		obj, err := o.object(c, "--delete", name)
		if err != nil {
			return nil, err
		}
		all = append(all, changeplan.Write{Object: obj, Delete: true})
	}
	return all, nil
}

// object is the one that a flag names, without fields.
func (o *options) object(c client.Client, flag, text string) (*unstructured.Unstructured, error) {
	target, err := rollout.Parse(text, "", kinds...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(target.GroupVersionKind())
	obj.SetName(target.Name)
	return obj, o.place(c, obj)
}
