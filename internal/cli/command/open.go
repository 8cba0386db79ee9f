// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/clusterctl"
)

// Open connects to the management cluster that the flags choose. An empty
// namespace is replaced by that of the kubeconfig.
func (f *MgmtFlags) Open(env *Env, namespace *string) (*clusterctl.Client, error) {
	c, _, err := f.Connect(env, namespace)
	return c, err
}

// OpenToChange is Open for a command that changes something: it names what it
// changes first.
func (f *MgmtFlags) OpenToChange(env *Env, namespace *string) (*clusterctl.Client, error) {
	c, m, err := f.Connect(env, namespace)
	if err == nil {
		env.Say("Management cluster: %s", m)
	}
	return c, err
}

// Connect is Open for a command that also needs to name the management cluster.
func (f *MgmtFlags) Connect(env *Env, namespace *string) (*clusterctl.Client, Mgmt, error) {
	m, err := f.Load(env)
	if err != nil {
		return nil, m, err
	}
	if *namespace == "" {
		*namespace = m.Namespace
	}
	c, err := clusterctl.New(m.Config)
	if err == nil {
		c.Flags = f.Repeat()
	}
	return c, m, err
}

// TimedPrinter returns a function that prints what happens, and how long after the call of
// TimedPrinter. Further lines of the text are indented below the first.
func (e *Env) TimedPrinter() func(text string) {
	started := e.Now()
	return func(text string) {
		e.Say("%5.1fs  %s", e.Now().Sub(started).Seconds(), strings.ReplaceAll(text, "\n", "\n        "))
	}
}

// Progress is TimedPrinter for events.
func (e *Env) Progress() func(clusterctl.Event) {
	tell := e.TimedPrinter()
	return func(event clusterctl.Event) { tell(event.Text) }
}

// ExactlyOneName requires the name of a cluster.
func ExactlyOneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return Misuse(fmt.Errorf("the name of one cluster is needed: %s", cmd.UseLine()))
	}
	return nil
}

// RawClient creates a client for paths of an API server that are not objects.
func RawClient(cfg *rest.Config, scheme *runtime.Scheme) (rest.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.UnversionedRESTClientFor(cfg)
}
