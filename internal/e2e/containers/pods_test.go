// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// userland is what a Pod has of its node's programs: no registry is near that would
// have an image with a shell.
const userland = `
        image: capstan.dev/network:v1
        imagePullPolicy: Never
        env:
        - {name: PYTHONUNBUFFERED, value: "1"}
        volumeMounts:
        - {name: usr, mountPath: /usr, readOnly: true}
        - {name: usr, mountPath: /bin, subPath: bin, readOnly: true}
        - {name: usr, mountPath: /lib, subPath: lib, readOnly: true}
        - {name: usr, mountPath: /lib64, subPath: lib64, readOnly: true}
        - {name: tmp, mountPath: /tmp}
      volumes:
      - {name: usr, hostPath: {path: /usr}}
      - {name: tmp, emptyDir: {}}
`

// web is a Pod on each worker that returns its name, and a Service before them.
const web = `apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        command: [sh, -c, "hostname >/tmp/index.html && cd /tmp && exec python3 -m http.server 8080"]
        readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}` + userland

// pod is one of the Pods of web.
type pod struct{ name, node, address string }

// web has a Pod run on each worker.
func (c *cluster) web(t *testing.T, namespace string, workers int) []pod {
	t.Helper()
	c.do(t, "", "create", "namespace", namespace)
	c.do(t, web, "apply", "--namespace", namespace, "--filename", "-")
	t.Cleanup(func() {
		if _, err := c.try(context.WithoutCancel(t.Context()), "", "delete", "namespace", namespace, "--wait=false"); err != nil {
			t.Error(err)
		}
	})
	return c.webPods(t, namespace, workers)
}

// webPods waits until all are ready. Those of a deleted node are still in the API
// server for a while, and do not count.
func (c *cluster) webPods(t *testing.T, namespace string, workers int) (all []pod) {
	t.Helper()
	testenv.Within(t, changing, func() error {
		nodes, err := c.try(t.Context(), "", "get", "nodes", "--output", "jsonpath={.items[*].metadata.name}")
		if err != nil {
			return err
		}
		out, err := c.try(t.Context(), "", "get", "pods", "--namespace", namespace, "--selector", "app=web", "--output",
			`jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} {.status.podIP} {.status.containerStatuses[0].ready}{"\n"}{end}`)
		all = nil
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) == 4 && f[3] == "true" && slices.Contains(strings.Fields(nodes), f[1]) {
				all = append(all, pod{f[0], f[1], f[2]})
			}
		}
		if err == nil && len(all) != workers {
			err = fmt.Errorf("Pods, want %d that are ready:\n%s", workers, out) // a kind's name
		}
		return err
	})
	slices.SortFunc(all, func(a, b pod) int { return strings.Compare(a.node, b.node) })
	return all
}

// fetch reads a URL in a Pod.
func (c *cluster) fetch(t *testing.T, namespace string, from pod, url string) (string, error) {
	const program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode().strip())"
	t.Helper()
	out, err := c.try(t.Context(), "", "exec", "--namespace", namespace, from.name, "--", "python3", "-c", program, url)
	return strings.TrimSpace(out), err
}

// reachEachOther checks that each Pod is reached from each by its address, and that
// the Service routes to all of them by its name.
func (c *cluster) reachEachOther(t *testing.T, namespace string, pods []pod) {
	t.Helper()
	for _, from := range pods {
		for _, to := range pods {
			testenv.Eventually(t, func() error {
				got, err := c.fetch(t, namespace, from, "http://"+to.address+":8080")
				if err == nil && got != to.name {
					err = fmt.Errorf("Pod %s answers %q", to.name, got) // a kind's name
				}
				return err
			})
		}
		answers := map[string]bool{}
		testenv.Eventually(t, func() error {
			got, err := c.fetch(t, namespace, from, "http://web."+namespace+".svc.cluster.local")
			if err != nil {
				return err
			}
			if answers[got] = true; len(answers) < len(pods) {
				return fmt.Errorf("from %s the Service has led to %v, want %d Pods", from.node, answers, len(pods))
			}
			return nil
		})
	}
}

// counter is a Pod that counts in a ConfigMap: what it has counted is in etcd, and
// each step needs the API server, the network of Pods and a node.
const counter = `apiVersion: v1
kind: ServiceAccount
metadata: {name: counter}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: counter}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: counter}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: counter}
subjects: [{kind: ServiceAccount, name: counter}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: counter}
data: {count: "0"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: counter}
spec:
  selector: {matchLabels: {app: counter}}
  template:
    metadata: {labels: {app: counter}}
    spec:
      serviceAccountName: counter
      terminationGracePeriodSeconds: 1
      containers:
      - name: counter
        command:
        - python3
        - -c
        - |
          import json, ssl, time, urllib.request
          at = "/var/run/secrets/kubernetes.io/serviceaccount/"
          url = "https://kubernetes.default.svc.cluster.local/api/v1/namespaces/%s/configmaps/counter" % open(at + "namespace").read()
          trust = ssl.create_default_context(cafile=at + "ca.crt")
          def call(method, body=None):
              head = {"Authorization": "Bearer " + open(at + "token").read(), "Content-Type": "application/json"}
              return json.load(urllib.request.urlopen(urllib.request.Request(url, body, head, method=method), context=trust, timeout=5))
          while True:
              try:
                  config = call("GET")
                  config["data"]["count"] = str(int(config["data"]["count"]) + 1)
                  call("PUT", json.dumps(config).encode())
              except Exception as e:
                  print(e)
              time.sleep(0.2)` + userland

const counting = "counting"

// count has a Pod count.
func (c *cluster) count(t *testing.T) {
	t.Helper()
	c.do(t, "", "create", "namespace", counting)
	c.do(t, counter, "apply", "--namespace", counting, "--filename", "-")
	c.counts(t, 0)
}

// counted is the current count.
func (c *cluster) counted(t *testing.T) (int, error) {
	out, err := c.try(t.Context(), "", "get", "configmap", "counter", "--namespace", counting, "--output", "jsonpath={.data.count}")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// counts waits until it has counted on from what it was.
func (c *cluster) counts(t *testing.T, from int) {
	t.Helper()
	testenv.Within(t, changing, func() error {
		now, err := c.counted(t)
		if err == nil && now <= from {
			err = fmt.Errorf("the Pod has counted to %d, want more than %d", now, from)
		}
		return err
	})
}
