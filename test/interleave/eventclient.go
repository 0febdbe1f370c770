package interleave

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// eventClient is a client of the API server that reports Events. A recorder remembers its names and their counts, as
// client-go's recorder does. A repeat is a PATCH, or, if the Event is not found, a CREATE of the same name. A client sends
// one Event at a time. A reader keeps one name for each kind of Event and no count: it reads the Event, adds one and replaces it, or creates
// it. Other clients use a new name each time.
type eventClient struct {
	world    *world
	name     string
	id       int
	user     string
	recorder bool
	reader   bool
	busy     bool
	serial   int
	rng      *rand.Rand
	sent     map[kind]sent
	quotas   []store.Bucket
}

// sent is the last Event of a kind that a client sent.
type sent struct {
	name  string
	count int64
	first time.Time
	// stamp is the time of the occurrence by the client's clock. That of a reader shows whole seconds; no two of its occurrences have the same.
	stamp time.Time
}

func newEventClient(w *world, id int, seed uint64) *eventClient {
	c := &eventClient{
		world: w, id: id, name: fmt.Sprint("client ", id), user: cmp.Or(w.mix.User, "kubelet"), sent: map[kind]sent{},
		rng: rand.New(rand.NewPCG(seed, uint64(id)+100)), recorder: id <= w.mix.Recorders,
		reader: id > w.mix.Clients-w.mix.Readers,
	}
	c.quotas = w.mix.quotas(id)
	for i := range c.quotas {
		if w.ample {
			c.quotas[i].Burst *= ampleTokens
		}
		w.name(c.quotas[i].Key, c.quotas[i].Name)
		w.name(noticeKey(&c.quotas[i]), "the notice of "+c.quotas[i].Name)
	}
	if w.mix.Bounds != (store.Bounds{}) {
		for _, limit := range []string{"each", "the spam filter"} {
			overflow := (&store.Bucket{LimitID: limit}).Overflow("default")
			w.name(noticeKey(&overflow), "the notice of the overflow bucket of "+limit)
		}
	}
	return c
}

// act writes a random Event, which a replica decides.
func (c *eventClient) act(via *replica) {
	w, m := c.world, c.world.mix
	pick := func(prefix string, n int) string { return fmt.Sprint(prefix, 1+c.rng.IntN(max(n, 1))) }
	k := kind{namespace: "default", pod: pick("pod-", m.Pods), reason: pick("Reason", m.Reasons), message: pick("message ", m.Messages)}
	f := c.sent[k]
	repeat := c.recorder && f.name != "" && time.Since(f.first) < w.limits.IdenticalWindow*9/10
	if repeat {
		f.count++
		if w.skips {
			c.skip(&f, c.rng.Int64N(3))
		}
	} else {
		c.serial++
		f = sent{name: fmt.Sprintf("e%d.%d", c.id, c.serial), count: 1, first: time.Now()}
		if c.recorder && m.Bursts && c.rng.IntN(2) == 0 {
			c.skip(&f, 3) // writes that were lost before
		}
	}
	if c.reader {
		k.reason = fmt.Sprint("Read", c.id) // no Event of another client merges it
		f = sent{name: fmt.Sprint(readerPrefix, c.id, ".", k.pod, ".", k.message), count: 1, first: time.Now(), stamp: w.began.Add(time.Duration(c.serial) * time.Second)}
	}
	if !c.reader {
		f.stamp = time.Now()
	}
	c.sent[k], c.busy = f, true
	via.calls++
	go func() {
		if c.reader && w.api.events[at(k.namespace, f.name)] != nil {
			c.replace(k, f, via)
			return
		}
		for again := repeat; again; {
			done, missing := c.patch(k, f, via)
			if done {
				return
			}
			again = !missing
		}
		c.create(k, f, via)
	}()
}

// skip lets a recorder count occurrences without a write for each. A refusal by a quota leaves no state, so a store with
// quotas assumes that the skipped occurrences were refused and reported.
func (c *eventClient) skip(f *sent, n int64) {
	f.count += n
	if c.quotas != nil {
		c.world.skipped += n
	}
}

// done ends a write through a replica, so that the client can write again.
func (c *eventClient) done(via *replica) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.busy = false
	via.calls--
}

// decide lets a replica decide a write of e. old is nil for a CREATE.
func (c *eventClient) decide(e, old *corev1.Event, via *replica) (store.Decision, *store.Write) {
	w := c.world
	write, l := w.storeWrite(e, old, c.user), w.limits
	l.Quotas = slices.Clone(c.quotas)
	if l.SpamFilter.Burst > 0 || !l.SpamFilter.Key.IsZero() {
		l.SpamFilter.NoticeObject = write.InvolvedObject
	}
	d := via.decide(c.name, &write, &l)
	verb := "CREATE"
	if old != nil {
		verb = "UPDATE"
	}
	w.note("%s: %s of %s count %d, through %s: %s", c.name, verb, write.Name, write.Count, via.name, describeDecision(d))
	return d, &write
}

// create sends a CREATE, which the API server stores if it is admitted.
func (c *eventClient) create(k kind, f sent, via *replica) {
	w, e := c.world, k.event(f.name, f.count, f.first)
	e.LastTimestamp = metav1.NewTime(f.stamp)
	defer c.done(via)
	d, write := c.decide(e, nil, via)
	if !d.Verdict.Admits() {
		return
	}
	if write.CreateID != 0 {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, admission.AnnotationCreateID, fmt.Sprintf("%016x", write.CreateID))
	}
	if d.Verdict == store.Aggregate {
		e.Message = admission.AggregateMessage(e.Message, false)
	}
	o := &operation{by: c.name, name: "the API server stores " + f.name, once: true, prompt: true}
	o.run = func() {
		if w.api.events[at(e.Namespace, e.Name)] != nil {
			w.lostEvents += f.count
			return
		}
		w.api.put(&storedEvent{
			Event: e, kind: k, recorder: c.recorder,
			rejectsPatches: w.mix.Rejects && w.rng.IntN(4) == 0, forbidden: w.mix.APIFails && w.rng.IntN(3) == 0,
		})
	}
	o.refuse = func() { w.lostEvents += f.count }
	_ = w.ops.submit(context.Background(), o) // cannot fail without a deadline
}

// readerPrefix begins the names of readers' Events.
const readerPrefix = "read"

// replace sends a PUT with the stored count and one more. The API server refuses it if the Event has changed meanwhile, and the reader
// gives up: replicas have counted the occurrence.
func (c *eventClient) replace(k kind, f sent, via *replica) {
	w := c.world
	defer c.done(via)
	old := w.api.events[at(k.namespace, f.name)]
	version, e := old.ResourceVersion, old.DeepCopy()
	e.Count, e.LastTimestamp = old.Count+1, metav1.NewTime(f.stamp)
	if d, _ := c.decide(e, old.Event, via); !d.Verdict.Admits() {
		return
	}
	o := &operation{by: c.name, name: fmt.Sprintf("the API server replaces %s with count %d", f.name, e.Count), once: true, prompt: true}
	o.run = func() {
		if now := w.api.events[at(k.namespace, f.name)]; now != old || now.ResourceVersion != version {
			w.note("the API server refuses the PUT, as %s has changed", f.name)
			return
		}
		old.Event = e
		w.api.put(old)
	}
	_ = w.ops.submit(context.Background(), o) // cannot fail without a deadline
}

// looksLikeReader reports whether a replica would take the recorder, which skips counts here, for a client that has read the count and added
// one. The recorder's next count would correct that, but not its last one.
func (c *eventClient) looksLikeReader(f sent, old *corev1.Event) bool {
	merged := admission.ReadStored(old, "").Merged
	return merged != 0 && f.count == int64(old.Count)+1
}

// patch sends a PATCH, which replicas see as an UPDATE. done reports whether it needs no further attempt. If done is false, the Event is
// missing or has changed meanwhile.
func (c *eventClient) patch(k kind, f sent, via *replica) (done, missing bool) {
	w := c.world
	old := w.api.events[at(k.namespace, f.name)]
	if old == nil {
		return false, true
	}
	if c.looksLikeReader(f, old.Event) {
		f.count++
		c.sent[k] = f
	}
	version, e := old.ResourceVersion, old.DeepCopy()
	e.Count, e.Message, e.LastTimestamp = int32(f.count), k.message, metav1.NewTime(f.stamp)
	if d, _ := c.decide(e, old.Event, via); !d.Verdict.Admits() {
		c.done(via)
		return true, false
	}
	conflict := false
	o := &operation{by: c.name, name: fmt.Sprintf("the API server sets %s to %d", f.name, f.count), once: true, prompt: true}
	o.run = func() {
		if now := w.api.events[at(k.namespace, f.name)]; now != old || now.ResourceVersion != version {
			conflict = true
			w.note("the API server sends another review, as %s has changed", f.name)
			return
		}
		old.Event = e
		w.api.put(old)
	}
	_ = w.ops.submit(context.Background(), o) // cannot fail without a deadline
	if conflict {
		return false, false
	}
	c.done(via)
	return true, false
}
