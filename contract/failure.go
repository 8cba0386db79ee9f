// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Failure is how providers report that an operator has to intervene. The contract v1beta2
// has no such fields, but a provider may still report them; the controllers of objects
// that refer to it show them in status.deprecated.v1beta1, and nothing depends on them.
type Failure struct {
	Reason  Field[string]
	Message Field[string]
}

// AnyFailure is the same for all roles and contract versions.
func AnyFailure() Failure { return anyFailure }

var anyFailure = Failure{At[string]("status.failureReason"), At[string]("status.failureMessage")}

// Limits of the texts of a failure; that of the message is the API's.
const (
	maxFailureReason  = 256
	maxFailureMessage = 10240
)

// Of is what obj reports, with the kind and the name of obj before the message; texts
// that it does not report are empty.
func (f Failure) Of(obj *unstructured.Unstructured) (reason, message string) {
	reason, _, _ = f.Reason.Get(obj) // a value that is not text is ignored
	if m, _, _ := f.Message.Get(obj); m != "" {
		message = sanitize.Line(obj.GetKind()+" "+obj.GetName()+": "+m, maxFailureMessage)
	}
	return sanitize.Line(reason, maxFailureReason), message
}
