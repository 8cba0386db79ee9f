// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// maxNote is the API's limit of an event's note, in bytes: it refuses an event whose note
// is longer.
const maxNote = 1024

// Recorder records the events of a Capstan controller. Notes are one line of text
// of at most maxNote bytes, also if texts of objects and servers have more.
func Recorder(mgr ctrl.Manager, name string) events.EventRecorder {
	return bounded{mgr.GetEventRecorder("capstan-" + name)}
}

type bounded struct{ events.EventRecorder }

// Eventf implements events.EventRecorder.
func (r bounded) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", sanitize.Line(fmt.Sprintf(note, args...), maxNote))
}
