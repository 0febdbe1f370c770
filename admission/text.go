package admission

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// aggregatePrefix starts the message of an aggregate, as it does in client-go:
// tools that know it from there go on knowing it.
const aggregatePrefix = "(combined from similar events): "

// seriesMessageBytes is the longest message, in bytes, that the API server
// takes in an Event with eventTime set.
const seriesMessageBytes = 1024

// AggregateMessage is the message of an aggregate whose newest message is
// text. series tells that the Event keeps its count in a series, so that the
// API server limits its message.
func AggregateMessage(text string, series bool) string {
	message := text
	if !strings.HasPrefix(text, aggregatePrefix) {
		message = aggregatePrefix + text
	}
	if series {
		return Truncate(message, seriesMessageBytes)
	}
	return message
}

// Truncate cuts s to at most limit bytes, on a rune boundary, and says at its
// end how long it was. A limit too small for that note cuts without it.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	note := fmt.Sprintf("... (cut from %d bytes)", len(s))
	if len(note) >= limit {
		note = ""
	}
	end := limit - len(note)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + note
}
