package storetest

import (
	"fmt"
	"time"

	"github.com/eventquota/eventquota/store"
)

// us is the shortest time that a store distinguishes from zero.
const us = time.Microsecond

// epoch is the start of every clock in this package.
func epoch() time.Time { return time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC) }

// kind has the fields by which Events are compared. Two Events of one kind differ only in their names.
type kind struct{ namespace, user, component, pod, reason, message string }

// facts are the properties of an Event write, from which a store.Write is made.
type facts struct {
	kind
	name                      string
	count                     int64
	workload                  string // a Deployment
	series, combined, warning bool
	first, at                 time.Time
	id                        uint64 // the create ID of the Event
	update                    *store.Update
	limits                    []func(*store.Limits)
}

// detail changes one fact.
type detail func(*facts)

// newFacts returns the facts of an Event. It has one occurrence unless details say otherwise.
func newFacts(name string, details []detail) facts {
	f := facts{kind: kind{"default", "system:node:one", "kubelet", "pod", "Failed", "m"}, name: name, count: 1}
	for _, d := range details {
		d(&f)
	}
	return f
}

func count(n int64) detail            { return func(f *facts) { f.count = n } }
func message(text string) detail      { return func(f *facts) { f.message = text } }
func reason(name string) detail       { return func(f *facts) { f.reason = name } }
func pod(name string) detail          { return func(f *facts) { f.pod = name } }
func by(user string) detail           { return func(f *facts) { f.user = user } }
func from(component string) detail    { return func(f *facts) { f.component = component } }
func of(workload string) detail       { return func(f *facts) { f.workload = workload } }
func in(namespace string) detail      { return func(f *facts) { f.namespace = namespace } }
func createID(id uint64) detail       { return func(f *facts) { f.id = id } }
func series(f *facts)                 { f.series = true }
func warning(f *facts)                { f.warning = true }
func seen(at time.Duration) detail    { return func(f *facts) { f.at = epoch().Add(at) } }
func firstAt(at time.Duration) detail { return func(f *facts) { f.first = epoch().Add(at) } }

// under changes the limits of one write.
func under(change func(*store.Limits)) detail {
	return func(f *facts) { f.limits = append(f.limits, change) }
}

// storedStamp sets the stamp of the stored Event of an UPDATE, since the start of the story.
func storedStamp(at time.Duration) detail {
	return func(f *facts) { f.update.Stored.Stamp = epoch().Add(at).UnixMicro() }
}

// Details of an UPDATE. The first three are about the stored Event: its count, the merged part of it, and that a recorder
// has overwritten the count. The others: it reverts the message, no recorder sent it, and the key of its content.
func stored(n int64) detail       { return func(f *facts) { f.update.Stored.Count = n } }
func storedMerged(n int64) detail { return func(f *facts) { f.update.Stored.Merged = n } }
func overwritten(f *facts)        { f.update.Stored.Overwritten = true }
func reverting(f *facts)          { f.update.RevertsMessage = true }
func notByRecorder(f *facts)      { f.update.ByRecorder = false }
func content(key string) detail   { return func(f *facts) { f.update.ContentKey = store.KeyOf(key) } }

// write returns the write of an Event at a time.
func (f facts) write(now time.Time) store.Write {
	var stamp int64
	if f.at.IsZero() {
		f.at = now
	} else {
		stamp = f.at.UnixMicro()
	}
	object := []string{f.namespace, f.component, f.pod}
	keyOf := func(parts ...string) store.Key { return store.KeyOf(append(parts, object...)...) }
	w := store.Write{
		GroupKey:       keyOf("group", f.user),
		ObjectKey:      keyOf("object"),
		ExactKey:       keyOf("exact", f.reason, f.message),
		SimilarKey:     keyOf("similar", f.reason),
		MessageKey:     store.KeyOf(f.message),
		Namespace:      f.namespace,
		Name:           f.name,
		Count:          f.count,
		Series:         f.series,
		FirstSeen:      f.first,
		LastSeen:       f.at,
		Stamp:          stamp,
		Text:           f.message,
		Combined:       f.combined,
		Reason:         f.reason,
		Warning:        f.warning,
		InvolvedObject: store.Object{APIVersion: "v1", Kind: "Pod", Namespace: f.namespace, Name: f.pod, UID: f.pod + "-uid"},
		Source:         store.Source{Component: f.component, Host: "node"},
	}
	if f.workload != "" {
		w.Workload = store.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: f.namespace, Name: f.workload, UID: f.workload + "-uid"}
	}
	w.CreateID = f.id
	if f.update != nil {
		u := *f.update
		if u.ContentKey.IsZero() {
			u.ContentKey = store.KeyOf("content", f.name, fmt.Sprint(f.count), fmt.Sprint(stamp))
		}
		w.Update = &u
	}
	return w
}

// under returns the limits of a write.
func (f facts) under(l store.Limits, w *store.Write) store.Limits {
	for _, change := range f.limits {
		change(&l)
	}
	if l.SpamFilter.NoticeObject == (store.Object{}) {
		l.SpamFilter.NoticeObject = w.InvolvedObject
	}
	return l
}

// limits returns the limits of a write unless a story changes them. Events are written at most every ten seconds, and
// combined from the third distinct message on.
func limits() store.Limits {
	return store.Limits{
		Merge:            true,
		SimilarThreshold: 3,
		Window:           10 * time.Minute,
		IdenticalWindow:  time.Hour,
		WriteInterval:    10 * time.Second,
		MaxWriteInterval: 10 * time.Second,
		KeepMessages:     2,
		SpamFilter:       store.Bucket{Limit: store.Limit{Burst: 25, Every: 5 * time.Minute}, Key: store.KeyOf("spam filter"), Name: "spam filter"},
	}
}

// bucket returns the bucket of a quota. Its notices are about the quota.
func bucket(name string, burst int, every time.Duration) store.Bucket {
	return store.Bucket{
		Limit: store.Limit{Burst: burst, Every: every}, Key: store.KeyOf("quota", name), Name: name, Policy: "quota " + name,
		NoticeObject: store.Object{APIVersion: "eventquota.io/v1alpha1", Kind: "EventQuota", Namespace: "default", Name: name},
	}
}
