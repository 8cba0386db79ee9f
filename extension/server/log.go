// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"log"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
)

// Levels of log lines: changes, decisions to wait or refuse, and the rest.
const (
	levelChange = 0
	levelWait   = 2
	levelDetail = 4
)

// maxMessage is how much of a message is logged.
const maxMessage = 1024

// level is the level of a successful call. Hooks for a step in the lifecycle of a Cluster
// are called rarely, and cause changes; the others are queries, sent at any time.
func level(d catalog.Descriptor) int {
	if d.Blocking || (d.RequestType != nil && clusterField(d.RequestType) != nil && !d.Cacheable) {
		return levelChange
	}
	return levelDetail
}

// logCall writes the line of a call.
func (s *Server) logCall(c *call, a answer, took time.Duration) {
	values := append(slices.Clip(c.about), "duration", took.String())
	at := levelWait
	switch {
	case a.code != http.StatusOK:
		values = append(values, "code", a.code)
		a.message, _, _ = strings.Cut(a.message, "\n") // without the list of paths
	case a.status == hooksv1.ResponseStatusFailure:
		at = levelChange
	case a.retryAfter > 0:
		values = append(values, "retryAfterSeconds", a.retryAfter)
	default:
		at = c.route.level
	}
	if a.status != "" {
		values = append(values, "status", a.status)
	}
	if a.message != "" {
		values = append(values, "message", shorten(a.message, maxMessage))
	}
	s.log.V(at).Info("Answered call", values...)
}

// about is what is logged of a call to r, whose request may be nil.
func (r *route) about(request runtime.Object) []any {
	values := []any{"hook", r.hook.Hook}
	if r.name != "" {
		values = append(values, "handler", r.name)
	}
	if cluster, ok := clusterOf(request); ok {
		values = append(values, "Cluster", cluster)
	}
	return values
}

// clusterOf is the Cluster that a request is about.
func clusterOf(request runtime.Object) (klog.ObjectRef, bool) {
	var ref klog.ObjectRef
	switch r := request.(type) {
	case nil:
	case *hooksv1.CanUpdateMachineRequest:
		ref = klog.KRef(r.Desired.Machine.Namespace, r.Desired.Machine.Spec.ClusterName)
	case *hooksv1.CanUpdateMachineSetRequest:
		ref = klog.KRef(r.Desired.MachineSet.Namespace, r.Desired.MachineSet.Spec.ClusterName)
	case *hooksv1.UpdateMachineRequest:
		ref = klog.KRef(r.Desired.Machine.Namespace, r.Desired.Machine.Spec.ClusterName)
	case *hooksv1.GeneratePatchesRequest:
		ref = builtinCluster(r.Variables)
	case *hooksv1.ValidateTopologyRequest:
		ref = builtinCluster(r.Variables)
	default:
		v := reflect.ValueOf(request).Elem()
		if i := clusterField(v.Type()); i != nil {
			cluster := v.FieldByIndex(i).Interface().(clusterv1.Cluster)
			ref = klog.KRef(cluster.Namespace, cluster.Name)
		}
	}
	return ref, ref.Name != ""
}

// clusterField is the index of the Cluster in a request type of any version.
func clusterField(request reflect.Type) []int {
	if f, ok := request.FieldByName("Cluster"); ok && f.Type == reflect.TypeFor[clusterv1.Cluster]() {
		return f.Index
	}
	return nil
}

// builtinCluster finds the Cluster in the variable that every request about a
// topology has.
func builtinCluster(variables []hooksv1.Variable) klog.ObjectRef {
	for _, v := range variables {
		if v.Name != "builtin" {
			continue
		}
		var builtin struct {
			Cluster struct{ Name, Namespace string }
		}
		if json.Unmarshal(v.Value.Raw, &builtin) == nil {
			return klog.KRef(builtin.Cluster.Namespace, builtin.Cluster.Name)
		}
	}
	return klog.ObjectRef{}
}

// connectionLog receives the messages of net/http about connections, such as failed
// handshakes.
func connectionLog(l logr.Logger) *log.Logger {
	return log.New(connectionWriter{l}, "", 0)
}

type connectionWriter struct{ log logr.Logger }

func (w connectionWriter) Write(line []byte) (int, error) {
	w.log.V(levelWait).Info("Serving a connection", "reason", shorten(strings.TrimSpace(string(line)), maxMessage))
	return len(line), nil
}
