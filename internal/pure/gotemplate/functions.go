// SPDX-License-Identifier: Apache-2.0

package gotemplate

import (
	"fmt"
	"sync"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// ClusterClasses are written for the release of sprig that upstream uses: its functions
// and their quirks are part of the meaning of a class. Its successor has other
// functions.

const (
	differs = "it gives another result each time, so that machines would be replaced for ever"
	depends = "its result depends on the host"
	costs   = "it costs too much"
)

// refused are functions of sprig that templates do not get, and why.
var refused = map[string]string{
	"ago": differs, "bcrypt": differs, "encryptAES": differs, "genCA": differs, "genCAWithKey": differs, "genPrivateKey": differs,
	"genSelfSignedCert": differs, "genSelfSignedCertWithKey": differs, "genSignedCert": differs, "genSignedCertWithKey": differs,
	"htpasswd": differs, "now": differs, "randAlpha": differs, "randAlphaNum": differs, "randAscii": differs, "randBytes": differs,
	"randInt": differs, "randNumeric": differs, "shuffle": differs, "uuidv4": differs, "durationRound": differs,
	"keys": "", "values": "", // these are put in order instead
	"date": depends, "dateInZone": depends, "dateModify": depends, "date_in_zone": depends, "date_modify": depends, "env": depends, "expandenv": depends,
	"getHostByName": depends, "htmlDate": depends, "htmlDateInZone": depends, "mustToDate": depends, "toDate": depends,
	"buildCustomCert": costs, "derivePassword": costs,
}

// changing are functions that change a map that they are given.
var changing = []string{"set", "unset", "merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite"}

// builtin are the functions of text/template that are unchanged; the parser needs only
// the names.
var builtin = map[string]any{
	"and": true, "call": true, "index": true, "len": true, "not": true, "or": true, "slice": true,
}

// functions are all that templates get in addition to builtin.
var functions = sync.OnceValue(func() map[string]any {
	all := map[string]any(sprig.HermeticTxtFuncMap())
	for name := range refused {
		delete(all, name)
	}
	for name, f := range map[string]any{
		"eq": equal, "ne": func(a, b any) (bool, error) { same, err := equal(a, b); return !same, err },
		"lt":    func(a, b any) (bool, error) { return ordered(a, b, func(n int) bool { return n < 0 }) },
		"le":    func(a, b any) (bool, error) { return ordered(a, b, func(n int) bool { return n <= 0 }) },
		"gt":    func(a, b any) (bool, error) { return ordered(a, b, func(n int) bool { return n > 0 }) },
		"ge":    func(a, b any) (bool, error) { return ordered(a, b, func(n int) bool { return n >= 0 }) },
		"print": fmt.Sprint, "println": fmt.Sprintln, "printf": printf,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
		"keys": keys, "values": valuesOf,
	} {
		all[name] = f
	}
	return all
})
