// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestPodsAreReachedThroughTheAPIServer(t *testing.T) {
	t.Parallel()
	pod := func(name, ip string, phase corev1.PodPhase, host bool) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{HostNetwork: host},
			Status: corev1.PodStatus{Phase: phase, PodIP: ip},
		}
	}
	live := fake.NewClientBuilder().WithObjects(
		pod("web", "10.0.0.2", corev1.PodRunning, false), pod("before", "10.0.0.2", corev1.PodSucceeded, false), pod("node", "10.0.0.3", corev1.PodRunning, true),
	).WithIndex(&corev1.Pod{}, "status.podIP", func(o client.Object) []string { return []string{o.(*corev1.Pod).Status.PodIP} }).Build()
	for name, tc := range map[string]struct {
		address  string
		directly bool
		refused  bool
		want     string // the Pod, or part of the error
	}{
		"of a Pod":                      {"10.0.0.2:443", true, false, "ns/web:443"},
		"of a Pod, refused":             {"10.0.0.2:443", false, true, "no route; and through the API server to Pod ns/web: forbidden"},
		"of a Pod, refused, but routed": {"10.0.0.2:443", true, true, "directly"},
		"of a Node":                     {"10.0.0.3:443", true, false, "directly"},
		"of no Pod":                     {"10.0.0.9:443", false, false, "no route"},
		"a name":                        {"web.example.com:443", true, false, "directly"},
		"not an address":                {"10.0.0.2", false, false, "no route"},
		"not a port":                    {"10.0.0.2:https", false, false, "no route"},
	} {
		opened := ""
		d := Dialer{
			Live: live,
			direct: func(context.Context, string, string) (net.Conn, error) {
				if tc.directly {
					opened = "directly"
					return &net.TCPConn{}, nil
				}
				return nil, errors.New("no route")
			},
			open: func(_ context.Context, _ *rest.Config, namespace, pod string, port int) (net.Conn, error) {
				if tc.refused {
					return nil, errors.New("forbidden")
				}
				opened = fmt.Sprintf("%s/%s:%d", namespace, pod, port)
				return &net.TCPConn{}, nil
			},
		}
		_, err := d.DialContext(t.Context(), "tcp", tc.address)
		got := opened
		if err != nil {
			got = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
