// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// zonePart is the form of the parts of a time zone's name, as API servers have it.
var zonePart = regexp.MustCompile(`^[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}$`)

// Schedule parses the schedule of a CronJob, which is in a time zone, or in that of the
// process if it is nil. The parser panics on a time zone within a schedule, such as
// "TZ=0", so none gets there: API servers refuse it, too.
func Schedule(schedule string, zone *string) (cron.Schedule, error) {
	if strings.Contains(schedule, "TZ") {
		return nil, errors.New("cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	}
	times, err := cron.ParseStandard(schedule)
	if err != nil || zone == nil {
		return times, err
	}
	location, err := timeZone(*zone)
	if s, ok := times.(*cron.SpecSchedule); ok && err == nil {
		s.Location = location
	}
	return times, err
}

func timeZone(name string) (*time.Location, error) {
	switch {
	case name == "":
		return nil, errors.New("timeZone must be nil or non-empty string")
	case strings.EqualFold(name, "Local"):
		return nil, errors.New("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "." || part == ".." || !zonePart.MatchString(part) {
			return nil, fmt.Errorf("unknown time zone %s", name)
		}
	}
	return time.LoadLocation(name)
}
