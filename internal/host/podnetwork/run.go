// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// configFile is the first file that containerd reads, in the order of names, so that it
// uses no other.
const configFile = "/etc/cni/net.d/05-capstan.conflist"

// Run is the program that each node of a cluster of container machines runs for its
// network: it configures CNI with the addresses of the node's Pods, and maintains the
// routes to those of all other nodes. It works until the context ends. Its network
// configuration stays, so that Pods have a network while the program is replaced.
func Run(ctx context.Context, node string, config *rest.Config, log io.Writer) error {
	if node == "" {
		return errors.New("NODE_NAME is empty: set it to the name of the Node, as the add-on's manifest does")
	}
	if err := checkForwarding("/proc/sys/net/ipv4/ip_forward"); err != nil {
		return err
	}
	var last Plan
	sync := func(nodes []*corev1.Node) error {
		p := For(node, nodes)
		if !slices.Equal(p.Skipped, last.Skipped) && len(p.Skipped) > 0 {
			_, _ = fmt.Fprintf(log, "skipped: %s\n", strings.Join(p.Skipped, "; "))
		}
		if !slices.Equal(p.Routes, last.Routes) || !slices.Equal(p.Own, last.Own) {
			_, _ = fmt.Fprintf(log, "Pods of this node: %v; routes: %v\n", p.Own, p.Routes)
		}
		last = p
		return apply(p)
	}
	return Nodes(ctx, config, sync, func(err error) { _, _ = fmt.Fprintln(log, err) })
}

// apply executes a plan. The kubelet reports a node as ready once CNI has its
// configuration, so that is written last.
func apply(p Plan) error {
	if err := errors.Join(SetRoutes(p.Routes), SetMasquerade(p.Own, p.Pods)); err != nil {
		return err
	}
	if len(p.Own) == 0 {
		return nil // the controller manager has not assigned addresses yet
	}
	mtu, err := MTU()
	if err != nil {
		return err
	}
	text, err := Conflist(p.Own, mtu)
	if err != nil {
		return err
	}
	return WriteConfig(configFile, text)
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
