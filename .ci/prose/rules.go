package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/jdkato/prose/v3/segment"
	"github.com/jdkato/prose/v3/tag"
	"github.com/jdkato/prose/v3/tokenize"
	"sigs.k8s.io/yaml"
)

// rule is one entry of rules.yaml. It has exactly one of Match, Swap, Words and Clause.
type rule struct {
	Name string `json:"name"`
	// Message says what to write instead. For Swap it is empty.
	Message string `json:"message"`
	// Match is a regular expression that no sentence may match.
	Match string `json:"match"`
	// Swap has regular expressions and their replacements; both match whole words.
	Swap map[string]string `json:"swap"`
	// Words is the longest sentence, in words.
	Words int `json:"words"`
	// Clause lists pronouns that must not begin a clause that is itself a subject.
	Clause []string `json:"clause"`
	// Except lists regular expressions; a match within one of theirs is fine.
	Except []string `json:"except"`
	// Titles says that the rule holds for headings too.
	Titles bool `json:"titles"`
	// Identifiers says that a match may also be the name of something in the same Go file.
	Identifiers bool `json:"identifiers"`
	// Bad and Good are sentences that the rule must find and must not.
	Bad  []string `json:"bad"`
	Good []string `json:"good"`

	patterns []pattern
	except   []*regexp.Regexp
}

// pattern is a compiled Match, or an entry of Swap.
type pattern struct {
	expr    *regexp.Regexp
	message string
}

//go:embed rules.yaml
var rulesFile []byte

// linter checks passages. It is not safe for concurrent use.
type linter struct {
	rules     []rule
	segmenter *segment.Segmenter
	tokenizer *tokenize.Tokenizer
	tagger    *tag.Tagger
}

func newLinter() (*linter, error) {
	l := &linter{tokenizer: tokenize.New()}
	err := yaml.UnmarshalStrict(rulesFile, &l.rules)
	if err != nil {
		return nil, fmt.Errorf("rules.yaml: %w", err)
	}
	for i := range l.rules {
		err = l.rules[i].compile()
		if err != nil {
			return nil, fmt.Errorf("rules.yaml: %s: %w", l.rules[i].Name, err)
		}
	}
	l.segmenter, err = segment.New()
	if err != nil {
		return nil, err
	}
	l.tagger, err = tag.New()
	return l, err
}

func (r *rule) compile() error {
	if r.Match != "" {
		expr, err := regexp.Compile(r.Match)
		if err != nil {
			return err
		}
		r.patterns = append(r.patterns, pattern{expr, r.Message})
	}
	for from, to := range r.Swap {
		expr, err := regexp.Compile(`\b(?:` + from + `)\b`)
		if err != nil {
			return err
		}
		r.patterns = append(r.patterns, pattern{expr, "write " + to})
	}
	for _, e := range r.Except {
		expr, err := regexp.Compile(e)
		if err != nil {
			return err
		}
		r.except = append(r.except, expr)
	}
	return nil
}

// lint checks each sentence of each passage against each rule.
func (l *linter) lint(passages []passage) []finding {
	var all []finding
	for _, p := range passages {
		masked := p.masked()
		for _, s := range l.segmenter.Segment(masked) {
			for _, r := range l.rules {
				if !p.title || r.Titles {
					all = append(all, l.findings(r, p, s)...)
				}
			}
		}
	}
	return all
}

// findings are the violations of a rule in a sentence of a passage.
func (l *linter) findings(r rule, p passage, s segment.Sentence) []finding {
	var all []finding
	for _, hit := range l.check(r, s.Text) {
		if r.Identifiers && p.identifiers[s.Text[hit.start:hit.end]] {
			continue
		}
		start, end := s.Start+hit.start, s.Start+hit.end
		all = append(all, finding{p.file, p.lines[start], r.Name, hit.message, excerpt(p.text, start, end)})
	}
	return all
}

// hit is where a sentence violates a rule.
type hit struct {
	start, end int
	message    string
}

func (l *linter) check(r rule, sentence string) []hit {
	var hits []hit
	if r.Words > 0 {
		if n := words(sentence); n > r.Words && !r.excepts(sentence, []int{0, len(sentence)}) {
			hits = append(hits, hit{0, min(len(sentence), 60), fmt.Sprintf("%d words; %s", n, r.Message)})
		}
	}
	for _, p := range r.patterns {
		for _, m := range p.expr.FindAllStringIndex(sentence, -1) {
			if !r.excepts(sentence, m) {
				hits = append(hits, hit{m[0], m[1], p.message})
			}
		}
	}
	if len(r.Clause) > 0 {
		hits = append(hits, l.clauses(r, sentence)...)
	}
	return hits
}

// excepts reports whether a match lies within one of the exceptions.
func (r rule) excepts(sentence string, match []int) bool {
	for _, e := range r.except {
		for _, m := range e.FindAllStringIndex(sentence, -1) {
			if m[0] <= match[0] && match[1] <= m[1] {
				return true
			}
		}
	}
	return false
}

// words counts the words of a sentence; a placeholder is one.
func words(sentence string) int {
	n := 0
	for field := range strings.FieldsSeq(sentence) {
		if strings.ContainsFunc(field, func(c rune) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' }) {
			n++
		}
	}
	return n
}

// excerpt is the match with some of the text around it.
func excerpt(text string, start, end int) string {
	start, end = max(0, start-30), min(len(text), max(end, start+60))
	for start > 0 && text[start]&0xC0 == 0x80 {
		start--
	}
	for end < len(text) && text[end]&0xC0 == 0x80 {
		end++
	}
	return strings.TrimSpace(text[start:end])
}
