// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
)

const (
	// InspectionLasts is how long a good inspection of etcd is valid. An alarm of etcd
	// is reported nowhere else, so etcd must be inspected periodically.
	InspectionLasts = 10 * time.Minute

	// inspectAgain is when etcd is inspected again after a problem.
	inspectAgain = 3 * time.Second
)

// Etcd is what the members of etcd report about themselves and each other.
type Etcd struct {
	At         time.Time        // time of the inspection; zero if none
	Members    []quorum.Member  // all of them
	Err        error            // why Members are not known; nil if they are
	MemberErrs map[string]error // what is wrong with the member on a Node
}

// Answer is the response of the etcd member on one Node.
type Answer struct {
	Node    string
	Members []quorum.Member // in its member list; without their health
	Errors  []string        // that it reports
	Err     error           // why it did not answer
}

// Evaluate combines answers: the members, each healthy if it answered, reported no
// errors, and has the same member list as the others.
func Evaluate(at time.Time, answers []Answer) Etcd {
	e := Etcd{At: at, MemberErrs: map[string]error{}}
	var errs []error
	for _, a := range answers {
		switch {
		case a.Err != nil:
			e.MemberErrs[a.Node] = a.Err
			errs = append(errs, a.Err)
		case e.Members == nil:
			e.Members = slices.Clone(a.Members)
		case !slices.EqualFunc(e.Members, a.Members, func(x, y quorum.Member) bool { return x.ID == y.ID }):
			e.MemberErrs[a.Node] = fmt.Errorf("etcd member %s knows other members than the others do", a.Node)
		}
	}
	if e.Members == nil {
		e.Err = errors.Join(errs...)
		return e
	}
	for _, a := range answers {
		m := e.Member(a.Node)
		if m == nil || e.MemberErrs[a.Node] != nil {
			continue
		}
		if errs := slices.DeleteFunc(slices.Clone(a.Errors), isAlarm); len(errs) > 0 && len(m.Alarms) == 0 {
			e.MemberErrs[a.Node] = fmt.Errorf("etcd member reports errors: %s", strings.Join(errs, ", "))
			continue
		}
		m.Healthy = true
	}
	return e
}

// isAlarm reports whether an error of a member repeats an alarm, as "memberID:7 alarm:NOSPACE".
// Each member repeats those of all others, which list them too.
func isAlarm(text string) bool { return strings.Contains(text, "alarm:") }

// Member is the member of a Node or nil; a member that has never run has no Node.
func (e Etcd) Member(node string) *quorum.Member {
	i := slices.IndexFunc(e.Members, func(m quorum.Member) bool { return node != "" && m.Name == node })
	if i < 0 {
		return nil
	}
	return &e.Members[i]
}

// With copies to newly listed members the health from the inspection.
func (e Etcd) With(members []quorum.Member) []quorum.Member {
	for i, m := range members {
		if known := e.Member(m.Name); known != nil && known.ID == m.ID {
			members[i].Healthy = known.Healthy
		}
	}
	return members
}

// memberErr returns what is wrong with the member of a Node.
func (e Etcd) memberErr(node string) error {
	if err := e.MemberErrs[node]; err != nil {
		return err
	}
	return e.Err
}

// Expires is when the members must be inspected again without a change; zero if they
// were not inspected.
func (e Etcd) Expires() time.Time {
	voting, healthy := quorum.Votes(e.Members)
	switch {
	case e.At.IsZero():
		return time.Time{}
	case e.Err == nil && len(e.MemberErrs) == 0 && voting == healthy && voting == len(e.Members):
		return e.At.Add(InspectionLasts)
	}
	return e.At.Add(inspectAgain)
}

// Askable are the Nodes with healthy etcd members, except for that of one machine.
func (f Facts) Askable(leaving *Machine) (nodes []string) {
	for _, m := range f.Machines {
		if m == leaving {
			continue
		}
		if member := f.Etcd.Member(m.Node()); member != nil && member.Healthy {
			nodes = append(nodes, m.Node())
		}
	}
	return nodes
}
