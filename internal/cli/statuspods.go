// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/pure/podstatus"
)

// maxPods is how many Pods are read: a plane runs a hundred.
const maxPods = 500

// podsStatus is what the Pods of a plane are.
type podsStatus struct {
	Total int `json:"total"`
	// NotReady are those with a problem.
	NotReady []podProblem `json:"notReady,omitempty"`
}

type podProblem struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Problem   string `json:"problem"`
}

// askPods reads from the API server the Pods that the plane runs; nil means that
// there are none.
func askPods(ctx context.Context, cfg *rest.Config) (*podsStatus, error) {
	c, err := corev1client.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	list, err := c.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: maxPods})
	if err != nil {
		return nil, fmt.Errorf("list the Pods of the plane: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	s := &podsStatus{Total: len(list.Items)}
	for i := range list.Items {
		p := &list.Items[i]
		if why := podstatus.Trouble(p); why != "" {
			s.NotReady = append(s.NotReady, podProblem{p.Namespace, p.Name, why})
		}
	}
	return s, nil
}

// lines are those of a table.
func (s *podsStatus) lines() [][2]string {
	if s == nil {
		return nil
	}
	count := fmt.Sprint(s.Total)
	if n := len(s.NotReady); n > 0 {
		count = fmt.Sprintf("%d, %d of which not ready", s.Total, n)
	}
	lines := [][2]string{{"Pods", count}}
	for _, p := range s.NotReady {
		for text := range strings.Lines(fmt.Sprintf("%s/%s: %s", p.Namespace, p.Name, p.Problem)) {
			lines = append(lines, [2]string{"", text}) // the last output of a program is the most useful
		}
	}
	return lines
}
