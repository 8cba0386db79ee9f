// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"
	"time"
)

func TestScheduleAcceptsWhatAPIServersAccept(t *testing.T) {
	for name, tc := range map[string]struct {
		schedule string
		zone     *string
		want     string // the next time
		wantErr  string
	}{
		"every hour":          {schedule: "0 * * * *", want: "2026-08-01T13:00:00Z"},
		"name":                {schedule: "@daily", want: "2026-08-02T00:00:00Z"},
		"interval":            {schedule: "@every 90s", want: "2026-08-01T12:01:30Z"},
		"zone":                {schedule: "0 20 * * *", zone: new("Asia/Tokyo"), want: "2026-08-02T11:00:00Z"},
		"name in a zone":      {schedule: "@daily", zone: new("Asia/Tokyo"), want: "2026-08-01T15:00:00Z"},
		"UTC":                 {schedule: "0 20 * * *", zone: new("Etc/UTC"), want: "2026-08-01T20:00:00Z"},
		"nothing":             {schedule: "", wantErr: "empty spec string"},
		"text":                {schedule: "now", wantErr: "expected exactly 5 fields"},
		"field out of range":  {schedule: "61 * * * *", wantErr: "end of range (61) above maximum"},
		"only a zone":         {schedule: "TZ=0", wantErr: "cannot use TZ"},
		"only CRON_TZ":        {schedule: "CRON_TZ=", wantErr: "cannot use TZ"},
		"empty zone":          {schedule: "TZ= *", wantErr: "cannot use TZ"},
		"tab after a zone":    {schedule: "TZ=UTC\t* * * * *", wantErr: "cannot use TZ"},
		"zone in a schedule":  {schedule: "CRON_TZ=UTC 0 * * * *", wantErr: "cannot use TZ"},
		"TZ behind a space":   {schedule: " TZ=UTC 0 * * * *", wantErr: "cannot use TZ"},
		"empty timeZone":      {schedule: "0 * * * *", zone: new(""), wantErr: "non-empty"},
		"local timeZone":      {schedule: "0 * * * *", zone: new("local"), wantErr: "explicit"},
		"unknown timeZone":    {schedule: "0 * * * *", zone: new("Mars/Base"), wantErr: "unknown time zone"},
		"path as timeZone":    {schedule: "0 * * * *", zone: new("../../etc/passwd"), wantErr: "unknown time zone"},
		"timeZone with TZ":    {schedule: "TZ=0", zone: new("Etc/UTC"), wantErr: "cannot use TZ"},
		"timeZone and a text": {schedule: "0 * * * *", zone: new("UTC 0"), wantErr: "unknown time zone"},
	} {
		t.Run(name, func(t *testing.T) {
			times, err := Schedule(tc.schedule, tc.zone)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("got error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
			if got := times.Next(now).UTC().Format(time.RFC3339); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// FuzzSchedule: no schedule and no time zone panics.
func FuzzSchedule(f *testing.F) {
	for _, seed := range []string{"0 * * * *", "@daily", "@every 1h", "@every", "TZ=0", "CRON_TZ=", "TZ= *", "*/0 * * * *", "1-0/ * * * *", "? ? ? ? ?", ", , , , ,", "-1 * * * *", "1/9223372036854775807 * * * *"} {
		f.Add(seed, "")
		f.Add(seed, "Etc/UTC")
	}
	f.Fuzz(func(t *testing.T, schedule, zone string) {
		times, err := Schedule(schedule, &zone)
		if err != nil {
			return
		}
		times.Next(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	})
}
