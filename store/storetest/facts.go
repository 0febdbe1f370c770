package storetest

import (
	"fmt"
	"time"

	"github.com/eventquota/eventquota/store"
)

const namespace = "default"

// us is the least time that a store tells from none.
const us = time.Microsecond

// epoch is when every clock in this package starts.
func epoch() time.Time { return time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC) }

// facts are what a test says about an Event write; a store.Write follows.
type facts struct {
	name, group, reason, message string
	count                        int64
	series, combined, unnamed    bool
	at                           time.Time
	update                       *store.Update
	terms                        func(*store.Terms)
}

// detail changes one fact.
type detail func(*facts)

// about are the facts of the Event of a name: one occurrence, unless details
// say otherwise.
func about(name string, details []detail) facts {
	f := facts{name: name, group: "pod", reason: "Failed", message: "m", count: 1}
	for _, d := range details {
		d(&f)
	}
	return f
}

func count(n int64) detail         { return func(f *facts) { f.count = n } }
func message(text string) detail   { return func(f *facts) { f.message = text } }
func reason(name string) detail    { return func(f *facts) { f.reason = name } }
func from(group string) detail     { return func(f *facts) { f.group = group } }
func series(f *facts)              { f.series = true }
func combined(f *facts)            { f.combined = true }
func seen(at time.Duration) detail { return func(f *facts) { f.at = epoch().Add(at) } }

// under changes the terms of one write.
func under(change func(*store.Terms)) detail { return func(f *facts) { f.terms = change } }

// Details of an UPDATE: the count that is stored, how much of it is merged,
// that it moves more than a recorder does, what names its content, and that
// nothing names it.
func stored(n int64) detail       { return func(f *facts) { f.update.OldCount = n } }
func storedMerged(n int64) detail { return func(f *facts) { f.update.OldMerged = n } }
func overwritten(f *facts)        { f.update.OldOverwritten = true }
func labelling(f *facts)          { f.update.Recorder = false }
func content(what string) detail  { return func(f *facts) { f.update.Same = store.KeyOf(what) } }
func nameless(f *facts)           { f.unnamed = true }

// write is what the store is told at a moment.
func (f facts) write(now time.Time) store.Write {
	if f.at.IsZero() {
		f.at = now
	}
	w := store.Write{
		Group:     store.KeyOf(f.group),
		Exact:     store.KeyOf("exact", f.reason, f.message),
		Similar:   store.KeyOf("similar", f.reason),
		Message:   store.KeyOf(f.message),
		Namespace: namespace,
		Name:      f.name,
		Count:     f.count,
		Series:    f.series,
		At:        f.at,
		Text:      f.message,
		Combined:  f.combined,
		Reason:    f.reason,
		Subject:   subject(f.group),
		Update:    f.update,
	}
	if f.combined {
		w.Exact = store.KeyOf("exact", f.reason, "combined", f.message)
	}
	if f.update != nil && f.update.Same.IsZero() && !f.unnamed {
		w.Update.Same = store.KeyOf("content", f.name, fmt.Sprint(f.count))
	}
	return w
}

func subject(group string) store.Subject {
	return store.Subject{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: group, UID: group + "-uid", Component: "kubelet", Host: "node"}
}

// terms are what governs a write unless a story says otherwise.
func terms() store.Terms {
	return store.Terms{
		MaxEvents:     3,
		Window:        10 * time.Minute,
		RepeatWindow:  time.Hour,
		FlushInterval: 10 * time.Second,
		KeepMessages:  2,
		Spam:          bucket("spam filter", 25, 5*time.Minute),
	}
}

func bucket(name string, burst int, every time.Duration) store.Bucket {
	return store.Bucket{Limit: store.Limit{Burst: burst, Every: every}, Key: store.KeyOf("bucket", name), Name: name}
}
