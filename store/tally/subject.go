package tally

import (
	"strings"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"

	"github.com/eventquota/eventquota/store"
)

// maxField is how many bytes of each text of a Subject are kept. It is the
// longest name that an object of Kubernetes can have; clients may claim more.
const maxField = 253

// Subject is who reports an Event and what it is about.
type Subject struct {
	store.Object
	store.Source
}

func fields(s *Subject) [7]*string {
	return [...]*string{&s.APIVersion, &s.Kind, &s.Namespace, &s.Name, &s.UID, &s.Component, &s.Host}
}

// clipped is s with each text cut to maxField bytes, on a rune boundary.
func clipped(s Subject) Subject {
	for _, f := range fields(&s) {
		if len(*f) > maxField {
			*f = clip(*f)
		}
	}
	return s
}

func clip(text string) string {
	end := maxField
	for end > maxField-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	if !utf8.RuneStart(text[end]) {
		end = maxField // it is no UTF-8
	}
	return text[:end]
}

// detached is s in memory of its own: texts of a request may be parts of a much
// longer one.
func detached(s Subject) Subject {
	n := 0
	for _, f := range fields(&s) {
		n += len(*f)
	}
	var all strings.Builder
	all.Grow(n)
	for _, f := range fields(&s) {
		all.WriteString(*f)
	}
	text := all.String()
	for _, f := range fields(&s) {
		*f, text = text[:len(*f)], text[len(*f):]
	}
	return s
}

// offenderID names a Subject within one Tally.
type offenderID [8]byte

// packSubject is the name of s, clipped, and s as Books keep it.
func packSubject(s Subject) (id offenderID, packed string) {
	s = clipped(s)
	var h store.Hasher
	b := make([]byte, 0, 256)
	for _, f := range fields(&s) {
		h.Add(*f)
		b = msgp.AppendString(b, *f)
	}
	key := h.Sum()
	return offenderID(key[:len(id)]), string(b)
}

func unpackSubject(packed string) (s Subject, err error) {
	in := unpacker{rest: []byte(packed)}
	for _, f := range fields(&s) {
		*f = in.text()
	}
	return s, in.err
}
