// SPDX-License-Identifier: Apache-2.0

// Package nodenetwork is the program that each node of a cluster of container
// machines runs for its network: it configures CNI with the addresses of the node's
// Pods, and maintains the routes to those of all other nodes.
package nodenetwork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/host/podnetwork"
)

// Options are the options of the program.
type Options struct {
	// Node is the name of its Node.
	Node string
	// ConfigDir is where containerd reads the configuration of CNI.
	ConfigDir string
	// Config is the configuration of the client of the API server.
	Config *rest.Config
	// Log receives the logs.
	Log io.Writer
}

// configFile is the first in the directory, in the order of names, so that
// containerd uses no other.
const configFile = "05-capstan.conflist"

// Run works until the context ends. Its network configuration stays, so that Pods
// have a network while the program is replaced.
func Run(ctx context.Context, o Options) error {
	if o.Node == "" {
		return errors.New("NODE_NAME is empty: set it to the name of the Node, as the add-on's manifest does")
	}
	if err := checkForwarding("/proc/sys/net/ipv4/ip_forward"); err != nil {
		return err
	}
	var last podnetwork.Plan
	sync := func(nodes []*corev1.Node) error {
		p := podnetwork.For(o.Node, nodes)
		if !slices.Equal(p.Skipped, last.Skipped) && len(p.Skipped) > 0 {
			o.logf("skipped: %s", strings.Join(p.Skipped, "; "))
		}
		if !slices.Equal(p.Routes, last.Routes) || !slices.Equal(p.Own, last.Own) {
			o.logf("Pods of this node: %v; routes: %v", p.Own, p.Routes)
		}
		last = p
		return apply(p, filepath.Join(o.ConfigDir, configFile))
	}
	return podnetwork.Nodes(ctx, o.Config, sync, func(err error) { o.logf("%v", err) })
}

// apply executes a plan. The kubelet reports a node as ready once CNI has its
// configuration, so that is written last.
func apply(p podnetwork.Plan, file string) error {
	if err := errors.Join(podnetwork.SetRoutes(p.Routes), podnetwork.SetMasquerade(p.Own, p.Pods)); err != nil {
		return err
	}
	if len(p.Own) == 0 {
		return nil // the controller manager has not assigned addresses yet
	}
	mtu, err := podnetwork.MTU()
	if err != nil {
		return err
	}
	text, err := podnetwork.Conflist(p.Own, mtu)
	if err != nil {
		return err
	}
	return podnetwork.WriteConfig(file, text)
}

// checkForwarding refuses a node that would drop the packets of Pods.
func checkForwarding(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(text)) != "1" {
		return errors.New("the node forwards no packets: set the sysctl net.ipv4.ip_forward to 1 in its image")
	}
	return nil
}

func (o Options) logf(format string, args ...any) { _, _ = fmt.Fprintf(o.Log, format+"\n", args...) }
