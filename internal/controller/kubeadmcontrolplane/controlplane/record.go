// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"encoding/json"
	"time"

	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
	"github.com/capstan-dev/capstan/internal/kit/questions"
)

// recordedCertificates is the JSON form of Certificates.
type recordedCertificates struct {
	Checked bool
	Err     *questions.Failure `json:",omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (c Certificates) MarshalJSON() ([]byte, error) {
	return json.Marshal(recordedCertificates{c.Checked, questions.Failed(c.Err)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Certificates) UnmarshalJSON(text []byte) error {
	var r recordedCertificates
	err := json.Unmarshal(text, &r)
	*c = Certificates{Checked: r.Checked, Err: failure(r.Err)}
	return err
}

// recordedEtcd is the JSON form of Etcd.
type recordedEtcd struct {
	At         time.Time                     `json:",omitzero"`
	Members    []quorum.Member               `json:",omitempty"`
	Err        *questions.Failure            `json:",omitempty"`
	MemberErrs map[string]*questions.Failure `json:",omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (e Etcd) MarshalJSON() ([]byte, error) {
	r := recordedEtcd{At: e.At, Members: e.Members, Err: questions.Failed(e.Err), MemberErrs: map[string]*questions.Failure{}}
	for node, err := range e.MemberErrs {
		r.MemberErrs[node] = questions.Failed(err)
	}
	return json.Marshal(r)
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Etcd) UnmarshalJSON(text []byte) error {
	var r recordedEtcd
	err := json.Unmarshal(text, &r)
	*e = Etcd{At: r.At, Members: r.Members, Err: failure(r.Err), MemberErrs: map[string]error{}}
	for node, f := range r.MemberErrs {
		e.MemberErrs[node] = failure(f)
	}
	return err
}

// failure returns no error for no failure: a nil *Failure in an error is not nil.
func failure(f *questions.Failure) error {
	if f == nil {
		return nil
	}
	return f
}
