// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// notPlain are words and phrases with a plainer term; chapter 2.1 of the house style has it.
var notPlain = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`nobody|somebody|someone|anybody|everybody|whoever|whatever|whom`,
	`anew|once more|begun|besides?`,
	`(am|is|are|be|been|being|was|were) told|tells?|told of|says? of|says? so|speaks? of`,
	`wakes?|woke|woken|hears? nothing`,
	`takes? up|(goes|go|going|went) on|takes? (it |them )?(down|away)|lets? go`,
	`look(s|ed|ing)? (at|again)|a look`,
	`at rest|(come|comes|came) to rest|all the same|becomes? of`,
	`what is wanted|as (it is |they are )?wanted|stands? for|stood for`,
	`writes? down|written down|of before`,
	`pretend\w*|foretell\w*|foretold|from birth|born|deaths?|dies?|died`,
	`mourn\w*|poke[sd]?|nudge[sd]?|furnish\w*|heirs?|strangers?|condemn\w*`,
	`sick|unwell|ailing|strays?|stand-ins?|hindrances?|in the way`,
	`vouch\w*|judge[sd]?|judging|verdicts?|for good|affairs?|business of`,
	`mend|mends|mended|mending|put right|cannot be had|good until|in vain|by way of`,
	`behind (our|its|their) back|one by one|puts? off|pass(es)? on|sums? up|sees? to`,
	`no more|nothing but|but for|(is|are) to be|shall|patience|news|the world`,
}, "|") + `)\b`)

// plainEnough are the uses that stay: a bound, and two terms of Kubernetes.
var plainEnough = regexp.MustCompile(`(?i)no more than|encrypt(ion|ed) at rest`)

// TestPlainWords holds comments, names of functions, strings and documents to plain English.
func TestPlainWords(t *testing.T) {
	hold := func(file, text string) {
		for _, use := range notPlain.FindAllString(plainEnough.ReplaceAllString(text, ""), -1) {
			t.Errorf("%s: %q is not plain English in %q: see chapter 2.1 of the house style", file, use, strings.TrimSpace(text))
		}
	}
	everyFile(t, func(s source) {
		if s.generated || s.file == "plainwords_test.go" {
			return
		}
		for _, group := range s.ast.Comments {
			hold(s.file, strings.Join(strings.Fields(group.Text()), " "))
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				hold(s.file, apart(n.Name.Name))
			case *ast.ImportSpec:
				return false
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					hold(s.file, n.Value)
				}
			}
			return true
		})
	})
	for _, file := range documents(t) {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := codeBlock.ReplaceAllString(string(src), "")
		for paragraph := range strings.SplitSeq(text, "\n") {
			hold(file, paragraph)
		}
	}
}

// codeBlock is text of programs.
var codeBlock = regexp.MustCompile("(?s)\n```.*?\n```")

// documents returns the Markdown files of the project.
func documents(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || p == "bin" || p == "dist" || d.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(p, ".md"):
			all = append(all, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// apart puts spaces between the words of a name.
func apart(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}
