// SPDX-License-Identifier: Apache-2.0

// Package simulated holds the commands for simulated clusters: for those that are
// stored on this host, whether a plane runs them or not, and the command that injects
// faults at random.
package simulated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/simulated"
	"github.com/capstan-dev/capstan/internal/simulated/statedir"
)

type options struct {
	env         *command.Env
	dir, output string
	dryRun, yes bool
}

// New returns the command simulated.
func New(env *command.Env) *cobra.Command {
	o := &options{env: env}
	cmd := &cobra.Command{
		Use:   "simulated",
		Short: "List and remove stored simulated clusters, and inject faults",
		Long: `List and remove the stored state of simulated clusters on this host, and inject faults.

The state belongs to the host and not to a plane: it stays when a plane ends, and
when the objects of a cluster were lost without deletion, until a plane uses the
cluster again. The state of running planes is never changed.`,
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List the stored state, its users and its size",
		Args:  command.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return o.list() },
	}
	command.OutputFlag(list, &o.output, "a table", "json", "yaml")
	remove := &cobra.Command{
		Use:   "remove NAME...",
		Short: "Remove the stored state of clusters that no plane runs",
		Long: `Remove the stored state of clusters that no plane runs: their machines are deleted
and cannot be restored. NAME is NAMESPACE/NAME, or an identity as list has it.`,
		Example: "  capstan simulated remove default/demo",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, names []string) error { return o.remove(cmd.Context(), names) },
	}
	prune := &cobra.Command{
		Use:   "prune",
		Short: "Remove state that no object uses",
		Long: `Remove the stored state of clusters that no plane will use again, as far as this
host knows: a plane has released them, or the data directory of the plane that ran
them last was deleted. The state of stopped planes stays.`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.remove(cmd.Context(), nil) },
	}
	cmd.AddCommand(list, remove, prune, newChaos(env))
	for _, c := range []*cobra.Command{list, remove, prune} {
		c.Flags().StringVar(&o.dir, "simulated-dir", env.DefaultSimulatedDir(), "folder of the state of simulated machines")
		_ = c.MarkFlagDirname("simulated-dir")
	}
	for _, c := range []*cobra.Command{remove, prune} {
		c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only print what would be removed")
		c.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	}
	return cmd
}

// kept is what is kept of one cluster.
type kept struct {
	Name     string `json:"name"` // namespace and name; empty if that cannot be read
	Identity string `json:"identity"`
	Running  bool   `json:"running"`
	UsedBy   string `json:"usedBy,omitempty"` // runs it, or ran it last
	Bytes    int64  `json:"bytes"`
}

func (o *options) read() ([]kept, error) {
	if o.dir == "" {
		return nil, command.Misuse(errors.New("--simulated-dir is needed: neither XDG_DATA_HOME nor HOME says where simulated machines are kept"))
	}
	all, err := statedir.List(o.dir)
	if err != nil {
		return nil, err
	}
	out := []kept{}
	for _, k := range all {
		out = append(out, kept{Name: simulated.NameOf(k.Path), Identity: k.ID, Running: k.Held, UsedBy: k.Holder, Bytes: k.Bytes})
	}
	return out, nil
}

func (o *options) list() error {
	if err := command.CheckOutput(o.output, "json", "yaml"); err != nil {
		return err
	}
	all, err := o.read()
	if err != nil {
		return err
	}
	if o.output != "" {
		return o.env.PrintObject(all, o.output)
	}
	t := o.env.Table("NAME", "IDENTITY", "STATE", "USED BY", "SIZE")
	for _, k := range all {
		state := "Idle"
		if k.Running {
			state = "Running"
		}
		t.Row(cmp.Or(k.Name, "-"), k.Identity, state, cmp.Or(k.UsedBy, "-"), size(k.Bytes))
	}
	return t.Flush()
}

// remove gives up the clusters of these names, or all that are abandoned.
func (o *options) remove(ctx context.Context, names []string) error {
	all, err := o.read()
	if err != nil {
		return err
	}
	chosen, err := choose(all, names)
	if err != nil {
		return err
	}
	if len(chosen) == 0 {
		o.env.Say("There is nothing to remove in %s.", o.dir)
		return nil
	}
	var bytes int64
	for _, k := range chosen {
		bytes += k.Bytes
		o.env.Print("%s  %s  %s", cmp.Or(k.Name, "-"), k.Identity, size(k.Bytes))
	}
	if o.dryRun {
		return nil
	}
	if !o.yes {
		if err := o.env.Confirm(ctx, fmt.Sprintf("The machines of %d clusters are removed permanently, %s in all.", len(chosen), size(bytes))); err != nil {
			return err
		}
	}
	var errs []error
	for _, k := range chosen {
		if err := statedir.Remove(o.dir, k.Identity); err != nil {
			errs = append(errs, fmt.Errorf("remove %s: %w", k.Identity, err))
		}
	}
	return errors.Join(errs...)
}

// choose finds the clusters of these names; without names the abandoned ones.
func choose(all []kept, names []string) (chosen []kept, err error) {
	for _, k := range all {
		if len(names) == 0 && !k.Running && abandoned(k.UsedBy) {
			chosen = append(chosen, k)
		}
	}
	for _, name := range names {
		var found []kept
		for _, k := range all {
			if k.Identity == name || k.Name == name {
				found = append(found, k)
			}
		}
		switch {
		case len(found) == 0:
			return nil, fmt.Errorf("nothing is kept of %s: `capstan simulated list` shows what is", name)
		case len(found) > 1:
			return nil, fmt.Errorf("several clusters are called %s: name one by its identity, as `capstan simulated list` has it", name)
		case found[0].Running:
			return nil, fmt.Errorf("%s is run by %s: delete its Cluster there", name, found[0].UsedBy)
		}
		chosen = append(chosen, found[0])
	}
	return chosen, nil
}

// abandoned reports whether the last user of a cluster has released it, or no
// longer exists.
func abandoned(by string) bool {
	if by == "" {
		return true
	}
	dir, isPlane := strings.CutPrefix(by, "the plane on ")
	if !isPlane {
		return false
	}
	_, err := os.Stat(dir)
	return errors.Is(err, os.ErrNotExist)
}

func size(bytes int64) string { return fmt.Sprintf("%d KiB", (bytes+1023)/1024) }
