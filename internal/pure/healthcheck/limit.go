// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Limit is whether remediation is allowed, with so many Machines not healthy.
type Limit struct {
	Remaining int    // how many more may become unhealthy
	Exceeded  string // why nothing is remediated; empty if it may be
}

// limit compares the number of Machines that are not healthy with the range in the spec.
// Without a range or a number, all may be.
func limit(t clusterv1.MachineHealthCheckRemediationTriggerIf, expected, healthy int) Limit {
	least, most, rule, err := bounds(t, expected)
	bad := expected - healthy
	switch {
	case err != nil:
		return Limit{Exceeded: fmt.Sprintf("%s cannot be read: %v", rule, err)}
	case bad < least || bad > most:
		return Limit{Exceeded: fmt.Sprintf("%d of %d Machines are not healthy, and %s", bad, expected, rule)}
	}
	return Limit{Remaining: min(most, expected) - bad}
}

// bounds are the minimum and maximum number that may not be healthy, and the rule that
// defines them.
func bounds(t clusterv1.MachineHealthCheckRemediationTriggerIf, expected int) (least, most int, rule string, err error) {
	const inRange, number = "spec.remediation.triggerIf.unhealthyInRange", "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo"
	if t.UnhealthyInRange != "" {
		from, to, _ := strings.Cut(strings.Trim(t.UnhealthyInRange, "[]"), "-")
		if least, err = strconv.Atoi(from); err == nil {
			most, err = strconv.Atoi(to)
		}
		if err != nil {
			return 0, 0, inRange, fmt.Errorf("%s is not a range of numbers such as [1-5]", t.UnhealthyInRange)
		}
		return least, most, inRange + " is " + t.UnhealthyInRange, nil
	}
	if t.UnhealthyLessThanOrEqualTo == nil {
		return 0, expected, "", nil
	}
	most, err = intstr.GetScaledValueFromIntOrPercent(t.UnhealthyLessThanOrEqualTo, expected, false)
	if err != nil {
		return 0, 0, number, err
	}
	return 0, most, number + " is " + t.UnhealthyLessThanOrEqualTo.String(), nil
}
