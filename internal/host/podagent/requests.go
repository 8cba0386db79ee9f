// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/host/podlogs"
	"github.com/capstan-dev/capstan/internal/pure/podstatus"
)

// Log is that of the present run of a container, or of the one before it.
func (n *Node) Log(namespace, pod, container string, previous bool) (*podlogs.Log, error) {
	l, err := n.find(namespace, pod)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	r := l.containers[container]
	if r == nil {
		l.mu.Unlock()
		return nil, fmt.Errorf("Pod %s has no container %q", l.key, container)
	}
	restarts, waits := int(r.Restarts), cmp.Or(r.Waiting, podstatus.Creating)
	before := restarts - 1
	if r.process == nil && !r.Over && r.Ended != nil {
		before = int(r.endedRun) // it waits to be started again
	}
	l.mu.Unlock()
	// These are the texts of a kubelet, on which users and programs depend.
	if previous {
		if log := n.Logs.Find(l.name, container, before); log != nil {
			return log, nil
		}
		return nil, fmt.Errorf("previous terminated container %q in pod %q not found", container, pod)
	}
	// A container that waits for a restart has the log of the previous run.
	for _, run := range []int{restarts, restarts - 1} {
		if log := n.Logs.Find(l.name, container, run); log != nil {
			return log, nil
		}
	}
	return nil, fmt.Errorf("container %q in pod %q is waiting to start: %s", container, pod, waits)
}

// Exec runs a command in a container, and returns what that returned.
func (n *Node) Exec(ctx context.Context, namespace, pod, container string, args []string, s podlogs.Streams) (int, error) {
	l, err := n.find(namespace, pod)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	sandbox, r := l.sandbox, l.containers[container]
	runs := r != nil && r.process != nil
	l.mu.Unlock()
	if !runs {
		return 0, fmt.Errorf("container %q of Pod %s does not run", container, l.key)
	}
	return sandbox.Exec(ctx, container, args, s)
}

// Attach has a client take part in a container that runs.
func (n *Node) Attach(ctx context.Context, namespace, pod, container string, s podlogs.Streams) error {
	l, err := n.find(namespace, pod)
	if err != nil {
		return err
	}
	process := l.process(container)
	if process == nil {
		return fmt.Errorf("container %q of Pod %s does not run", container, l.key)
	}
	return process.Attach(ctx, s)
}

// process is that of a container, nil if it does not run.
func (l *life) process(container string) Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.containers[container]; r != nil {
		return r.process
	}
	return nil
}

// DialNamed connects to a port of a Pod: at its loopback, as in a kubelet, where
// many servers for operators listen; or else at its address.
func (n *Node) DialNamed(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
	l, err := n.find(namespace, pod)
	if err != nil {
		return nil, err
	}
	s, err := l.runs()
	if err != nil {
		return nil, err
	}
	if conn, err := s.DialLoopback(ctx, port); err == nil {
		return conn, nil
	}
	return s.Dial(ctx, port)
}

func (n *Node) find(namespace, pod string) (*life, error) {
	if l := n.named(client.ObjectKey{Namespace: namespace, Name: pod}); l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("Pod %s/%s does not run on Node %s", namespace, pod, n.Object.Name)
}
