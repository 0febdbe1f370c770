package busiest

import (
	"hash/maphash"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// Places is how many rows of each By a replica follows. The first so many are
// counted exactly. Beyond, one that has made more than a 256th of all writes is
// always among the rows, and misses less than a 256th of them.
const Places = 256

// maxPart is how many bytes of a part of a name count: the longest name that an
// object can have. Clients may claim more.
const maxPart = 253

// Counter counts what one replica decides: by each By (1 MB at the most, for Places rows), and by
// policies with who they refused. It is for any number of goroutines.
type Counter struct {
	replica string
	since   time.Time
	seed    maphash.Seed
	by      [kinds]*sketch[key]

	policies  *sketch[PolicyID]             // its lock guards what follows
	offenders map[PolicyID]*sketch[Subject] // of those in policies
	followed  int                           // how many offenders there are
}

// NewCounter makes a Counter that begins to count now, for a replica of a name
// that no other process has. It follows so many rows of each By.
func NewCounter(replica string, now time.Time, places int) *Counter {
	c := &Counter{
		replica: replica, since: now.UTC(), seed: maphash.MakeSeed(),
		policies: newSketch(policyPlaces, PolicyID.detached), offenders: map[PolicyID]*sketch[Subject]{},
	}
	for i := range c.by {
		c.by[i] = newSketch(places, key.detached)
	}
	return c
}

// Write is whose write was decided.
type Write struct {
	Namespace string // of the Event
	Subject   Subject
	Type      string
	Reason    string
	Policy    string
}

// Count counts one decision. It takes five locks for a moment, one after the
// other, allocates only for what is not followed yet, and keeps no part of w.
func (c *Counter) Count(w *Write, v store.Verdict) {
	s, one := &w.Subject, CountsOf(v)
	countBy(c.by[Namespace], c.seed, key{w.Namespace}, one)
	countBy(c.by[Source], c.seed, key{s.Component, s.Host}, one)
	countBy(c.by[Object], c.seed, key{s.Kind, s.Namespace, s.Name}, one)
	countBy(c.by[Reason], c.seed, key{w.Type, w.Reason}, one)
	countBy(c.by[Policy], c.seed, key{w.Policy}, one)
}

// Decided counts what became of one Event write. What an audited policy would have done is in no ranking; one
// that is in force has in its status what it did, not what it would do if others were audited too. The
// built-in default has no status. It keeps no part of d.
func (c *Counter) Decided(d *admission.Decided) {
	e, subject := d.Request.Object, Subject{Object: d.Object(), Source: d.Source()}
	if !d.Audited {
		c.Count(&Write{Namespace: d.Request.Namespace, Subject: subject, Type: e.Type, Reason: e.Reason, Policy: d.Policy.Name}, d.Verdict)
	}
	if i := d.Policy.Identity; i.UID != "" && (!d.Audited || d.Policy.Mode == policy.Audit) {
		c.CountPolicy(PolicyID{UID: string(i.UID), Generation: i.Generation}, d.Verdict, subject)
	}
}

// Snapshot is what was counted until now. Rankings are each of one moment, and
// may differ by the writes that are being counted.
func (c *Counter) Snapshot(now time.Time) Snapshot {
	return Snapshot{
		Replica: Replica{Name: c.replica, Since: c.since, At: now.UTC()},
		By: map[By]Ranking{
			Namespace: ranking(c.by[Namespace], whole),
			Source:    ranking(c.by[Source], sourceName),
			Object:    ranking(c.by[Object], objectName),
			Reason:    ranking(c.by[Reason], reasonName),
			Policy:    ranking(c.by[Policy], whole),
		},
		Policies: c.policyCounts(),
	}
}
