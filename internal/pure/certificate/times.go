// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"errors"
	"fmt"
	"time"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
)

// Bounds and defaults of times, which are cert-manager's.
const (
	defaultDuration = 90 * 24 * time.Hour
	minDuration     = time.Hour
	minRenewBefore  = 5 * time.Minute
)

// Times are how long a certificate is valid, and when it is renewed.
type Times struct {
	Duration time.Duration
	before   time.Duration // its end; 0 for a share of its life
	percent  int64
}

// ReadTimes parses the durations of a Certificate. The error names each invalid field.
func ReadTimes(spec *certmanagerv1.CertificateSpec) (t Times, err error) {
	t.Duration = defaultDuration
	var errs []error
	if spec.Duration != "" {
		t.Duration, err = time.ParseDuration(spec.Duration)
		switch {
		case err != nil:
			errs, t.Duration = append(errs, fmt.Errorf("spec.duration: %q is not a duration such as 2160h", spec.Duration)), defaultDuration
		case t.Duration < minDuration:
			errs = append(errs, fmt.Errorf("spec.duration: %s is less than %s", t.Duration, minDuration))
		}
	}
	if spec.RenewBefore != "" {
		t.before, err = time.ParseDuration(spec.RenewBefore)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("spec.renewBefore: %q is not a duration such as 720h", spec.RenewBefore))
		case t.before < minRenewBefore:
			errs = append(errs, fmt.Errorf("spec.renewBefore: %s is less than %s", t.before, minRenewBefore))
		case t.before >= t.Duration:
			errs = append(errs, fmt.Errorf("spec.renewBefore: %s is not less than the %s for which the certificate is valid", t.before, t.Duration))
		}
	}
	if p := spec.RenewBeforePercentage; p != nil {
		t.percent = *p
		switch {
		case spec.RenewBefore != "":
			errs = append(errs, errors.New("spec.renewBeforePercentage: spec.renewBefore is set as well"))
		case *p <= 0 || *p >= 100:
			errs = append(errs, fmt.Errorf("spec.renewBeforePercentage: %d is not between 1 and 99", *p))
		case t.share(t.Duration) < minRenewBefore:
			errs = append(errs, fmt.Errorf("spec.renewBeforePercentage: %d %% of %s is less than %s", *p, t.Duration, minRenewBefore))
		}
	}
	return t, errors.Join(errs...)
}

func (t Times) share(life time.Duration) time.Duration {
	if t.percent > 0 {
		return life / 100 * time.Duration(t.percent)
	}
	return life / 3
}

// Renewal is when a certificate with that validity is renewed: before its end by the
// requested time, if that is less than its lifetime, and otherwise by a third of it.
func (t Times) Renewal(notBefore, notAfter time.Time) time.Time {
	life := notAfter.Sub(notBefore)
	before := t.before
	if before <= 0 || before >= life {
		before = t.share(life)
	}
	return notAfter.Add(-before).Truncate(time.Second)
}
