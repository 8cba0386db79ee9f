// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

// bill is a software bill of materials in SPDX 2.3.
type bill struct {
	SPDXVersion   string         `json:"spdxVersion"`
	DataLicense   string         `json:"dataLicense"`
	SPDXID        string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	CreationInfo  creation       `json:"creationInfo"`
	Packages      []part         `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type part struct {
	Name             string      `json:"name"`
	SPDXID           string      `json:"SPDXID"`
	Version          string      `json:"versionInfo"`
	FileName         string      `json:"packageFileName,omitempty"`
	DownloadLocation string      `json:"downloadLocation"`
	FilesAnalyzed    bool        `json:"filesAnalyzed"`
	LicenseConcluded string      `json:"licenseConcluded"`
	LicenseDeclared  string      `json:"licenseDeclared"`
	Copyright        string      `json:"copyrightText"`
	Checksums        []digest    `json:"checksums,omitempty"`
	References       []reference `json:"externalRefs,omitempty"`
}

type digest struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const unknown = "NOASSERTION"

// billOfMaterials lists the modules that the linker put into a program. The time
// is that of the commit: a list of the same program is the same list.
func billOfMaterials(file, sum string, info *debug.BuildInfo) ([]byte, error) {
	created := time.Unix(0, 0).UTC().Format(time.RFC3339)
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			created = s.Value
		}
	}
	b := bill{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: file,
		Namespace:    "https://" + info.Main.Path + "/spdx/" + file + "-" + sum,
		CreationInfo: creation{created, []string{"Tool: " + info.Main.Path + "/build/release"}},
	}
	add := func(p part, kind, from string) string {
		p.DownloadLocation, p.LicenseConcluded, p.Copyright = unknown, unknown, unknown
		p.LicenseDeclared = cmp.Or(p.LicenseDeclared, unknown)
		b.Packages = append(b.Packages, p)
		b.Relationships = append(b.Relationships, relationship{from, kind, p.SPDXID})
		return p.SPDXID
	}
	program := module(info.Main)
	program.FileName, program.LicenseDeclared = file, "Apache-2.0"
	program.Checksums = []digest{{"SHA256", sum}}
	id := add(program, "DESCRIBES", b.SPDXID)
	add(part{Name: "go", SPDXID: "SPDXRef-go", Version: info.GoVersion, References: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/stdlib@" + strings.TrimPrefix(info.GoVersion, "go")}}}, "DEPENDS_ON", id)
	for _, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		add(module(*m), "DEPENDS_ON", id)
	}
	out, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("list the modules of %s: %w", file, err)
	}
	return append(out, '\n'), nil
}

// plain is what an identifier of SPDX consists of.
var plain = regexp.MustCompile(`[^A-Za-z0-9.-]`)

func module(m debug.Module) part {
	p := part{
		Name: m.Path, Version: m.Version, SPDXID: "SPDXRef-" + plain.ReplaceAllString(m.Path+"-"+m.Version, "-"),
		References: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}},
	}
	// h1 is a SHA-256 of the module's files, as go.sum has it.
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(raw) > 0 {
		p.Checksums = []digest{{"SHA256", hex.EncodeToString(raw)}}
	}
	return p
}
