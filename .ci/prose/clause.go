package main

import (
	"slices"
	"strings"

	"github.com/jdkato/prose/v3/token"
)

// clauses finds subjects such as "what is kept" in "..., and what is kept is bounded". Such a clause begins with a pronoun and
// has two finite verbs before it ends. The second is the verb of the sentence.
func (l *linter) clauses(r rule, sentence string) []hit {
	if !slices.ContainsFunc(r.Clause, func(w string) bool { return strings.Contains(sentence, w) }) {
		return nil
	}
	var hits []hit
	tokens := l.tokenizer.Tokenize(sentence)
	l.tagger.TagTokens(tokens)
	for i, t := range tokens {
		if !slices.Contains(r.Clause, t.Text) {
			continue
		}
		if certain, possible := beginsClause(tokens[:i]); certain || possible && finiteVerbs(tokens[i+1:]) > 1 {
			hits = append(hits, hit{t.Start, t.End(), r.Message})
		}
	}
	return hits
}

// beginsClause reports whether a clause certainly or possibly begins after the tokens. At the start of a sentence, it is another
// rule's.
func beginsClause(before []token.Token) (certain, possible bool) {
	if len(before) == 0 {
		return false, false
	}
	last := strings.ToLower(before[len(before)-1].Text)
	return slices.Contains([]string{"because", "since", "while"}, last),
		slices.Contains([]string{";", ":", ",", "(", "so", "that", "but", "if", "when", "where", "and", "as"}, last)
}

// finiteVerbs counts the finite verbs up to the end of the clause. The tagger takes that of "what is dropped costs" for a noun.
func finiteVerbs(tokens []token.Token) int {
	n := 0
	for i, t := range tokens {
		if slices.Contains([]string{",", ";", ":", ".", "(", ")", "and", "or", "but", "if", "when", "while", "because", "that", "which", "who"}, t.Text) {
			break
		}
		if slices.Contains([]string{"VBZ", "VBP", "VBD", "MD"}, t.Tag) || t.Tag == "NNS" && i > 0 && tokens[i-1].Tag == "VBN" {
			n++
		}
	}
	return n
}
