package rules

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventquota/eventquota/store"
)

// Bounds of texts that become state, in bytes. The API server bounds names, but /mutate sees what
// it has not checked yet, and reasons and messages have no bounds of their own.
const (
	nameBytes    = 253
	reasonBytes  = 128
	messageBytes = 1024
)

// ahead is how far ahead of now an occurrence may be; one that is further ahead counts as now.
const ahead = 10 * time.Minute

// clipped is w as it may become state: every text within its bound, every time one that a clock
// may show.
func clipped(now time.Time, w store.Write) store.Write {
	w.Namespace, w.Name = clip(w.Namespace, nameBytes), clip(w.Name, nameBytes)
	w.Reason, w.Text = clip(w.Reason, reasonBytes), clip(w.Text, messageBytes)
	w.About = clippedObject(w.About)
	w.Source.Component, w.Source.Host = clip(w.Source.Component, nameBytes), clip(w.Source.Host, nameBytes)
	w.At, w.First = plausible(now, w.At), plausible(now, w.First)
	if w.At.IsZero() {
		w.At = now
	}
	w.Count = max(w.Count, 1)
	return w
}

func clippedObject(o store.Object) store.Object {
	o.APIVersion, o.Kind, o.UID = clip(o.APIVersion, nameBytes), clip(o.Kind, nameBytes), clip(o.UID, nameBytes)
	o.Namespace, o.Name = clip(o.Namespace, nameBytes), clip(o.Name, nameBytes)
	return o
}

// clip cuts s to n bytes at most, on a rune boundary. What it cuts does not keep the whole alive.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n])
}

// plausible is t unless it is ahead of now by too much, or before 1970.
func plausible(now, t time.Time) time.Time {
	switch {
	case t.IsZero():
		return t
	case t.After(now.Add(ahead)):
		return now
	case t.Before(time.UnixMicro(1)):
		return time.UnixMicro(1).UTC()
	}
	return t
}
