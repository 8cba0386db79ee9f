// SPDX-License-Identifier: Apache-2.0

package get

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

const roleLabel = "node-role.kubernetes.io/"

func newNodes(env *command.Env) *cobra.Command {
	var flags command.MgmtFlags
	var namespace string
	cmd := &cobra.Command{
		Use:     "nodes NAME",
		Short:   "List the nodes of a workload cluster, as the cluster itself reports them",
		Example: `  capstan get nodes demo`,
		Args:    command.ExactlyOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := flags.Open(env, &namespace)
			if err != nil {
				return err
			}
			kubeconfig, err := c.Kubeconfig(cmd.Context(), client.ObjectKey{Namespace: namespace, Name: args[0]})
			if err != nil {
				return err
			}
			nodes, err := listNodes(cmd.Context(), kubeconfig)
			if err != nil {
				return fmt.Errorf("list nodes of cluster %s/%s: %w", namespace, args[0], err)
			}
			return writeNodes(env, nodes)
		},
	}
	flags.Add(cmd, env)
	cmd.ValidArgsFunction = flags.CompleteClusters(env, 1)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the cluster (default: that of the kubeconfig)")
	return cmd
}

func listNodes(ctx context.Context, kubeconfig []byte) ([]corev1.Node, error) {
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read its kubeconfig: %w", err)
	}
	cfg.Timeout = 10 * time.Second
	c, err := corev1client.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	list, err := c.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func writeNodes(env *command.Env, nodes []corev1.Node) error {
	t := env.Table("NAME", "STATUS", "ROLES", "AGE", "VERSION")
	for i := range nodes {
		n := &nodes[i]
		t.Row(n.Name, nodeStatus(n), nodeRoles(n), duration.HumanDuration(env.Now().Sub(n.CreationTimestamp.Time)), n.Status.NodeInfo.KubeletVersion)
	}
	return t.Flush()
}

func nodeStatus(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionTrue:
			status = "Ready"
		case c.Status == corev1.ConditionFalse:
			status = "NotReady"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

func nodeRoles(n *corev1.Node) string {
	var roles []string
	for label := range n.Labels {
		if role, ok := strings.CutPrefix(label, roleLabel); ok && role != "" {
			roles = append(roles, role)
		}
	}
	if len(roles) == 0 {
		return "<none>"
	}
	slices.Sort(roles)
	return strings.Join(roles, ",")
}
