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
// one Event at a time. Clients that are no recorders use a new name each time.
type eventClient struct {
	world    *world
	name     string
	id       int
	user     string
	recorder bool
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
}

func newEventClient(w *world, id int, seed uint64) *eventClient {
	s := &eventClient{
		world: w, id: id, name: fmt.Sprint("client ", id), user: cmp.Or(w.mix.User, "kubelet"), sent: map[kind]sent{},
		rng: rand.New(rand.NewPCG(seed, uint64(id)+100)), recorder: id <= w.mix.Recorders,
	}
	s.quotas = w.mix.quotas(id)
	for i := range s.quotas {
		if w.ample {
			s.quotas[i].Burst *= ampleTokens
		}
		w.name(s.quotas[i].Key, s.quotas[i].Name)
		w.name(noticeKey(&s.quotas[i]), "the notice of "+s.quotas[i].Name)
	}
	if w.mix.Bounds != (store.Bounds{}) {
		for _, limit := range []string{"each", "the spam filter"} {
			overflow := (&store.Bucket{LimitID: limit}).Overflow("default")
			w.name(noticeKey(&overflow), "the notice of the overflow bucket of "+limit)
		}
	}
	return s
}

// act reports a random Event through a replica.
func (s *eventClient) act(via *replica) {
	w, m := s.world, s.world.mix
	pick := func(prefix string, n int) string { return fmt.Sprint(prefix, 1+s.rng.IntN(max(n, 1))) }
	k := kind{namespace: "default", pod: pick("pod-", m.Pods), reason: pick("Reason", m.Reasons), message: pick("message ", m.Messages)}
	f := s.sent[k]
	repeat := s.recorder && f.name != "" && time.Since(f.first) < w.limits.IdenticalWindow*9/10
	if repeat {
		f.count++
		if w.skips {
			s.skip(&f, s.rng.Int64N(3))
		}
	} else {
		s.serial++
		f = sent{name: fmt.Sprintf("e%d.%d", s.id, s.serial), count: 1, first: time.Now()}
		if s.recorder && m.Bursts && s.rng.IntN(2) == 0 {
			s.skip(&f, 3) // earlier writes, which were lost
		}
	}
	s.sent[k], s.busy = f, true
	via.calls++
	go func() {
		for again := repeat; again; {
			done, missing := s.patch(k, f, via)
			if done {
				return
			}
			again = !missing
		}
		s.create(k, f, via)
	}()
}

// skip lets a recorder count occurrences without a write for each. A refusal by a quota leaves no state, so a store with
// quotas assumes that the skipped occurrences were refused and reported.
func (s *eventClient) skip(f *sent, n int64) {
	f.count += n
	if s.quotas != nil {
		s.world.skipped += n
	}
}

func (s *eventClient) done(via *replica) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.busy = false
	via.calls--
}

// decide lets a replica decide a write of e. old is nil for a CREATE.
func (s *eventClient) decide(e, old *corev1.Event, via *replica) (store.Decision, *store.Write) {
	w := s.world
	write, l := w.storeWrite(e, old, s.user), w.limits
	l.Quotas = slices.Clone(s.quotas)
	if l.SpamFilter.Burst > 0 || !l.SpamFilter.Key.IsZero() {
		l.SpamFilter.NoticeObject = write.InvolvedObject
	}
	d := via.decide(s.name, &write, &l)
	verb := "CREATE"
	if old != nil {
		verb = "UPDATE"
	}
	w.note("%s: %s of %s count %d, through %s: %s", s.name, verb, write.Name, write.Count, via.name, describeDecision(d))
	return d, &write
}

// create sends a CREATE, which the API server stores if it is admitted.
func (s *eventClient) create(k kind, f sent, via *replica) {
	w, e := s.world, k.event(f.name, f.count, f.first)
	defer s.done(via)
	d, write := s.decide(e, nil, via)
	if !d.Verdict.Admits() {
		return
	}
	if write.CreateID != 0 {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, admission.AnnotationCreateID, fmt.Sprintf("%016x", write.CreateID))
	}
	if d.Verdict == store.Aggregate {
		e.Message = admission.AggregateMessage(e.Message, false)
	}
	o := &operation{by: s.name, name: "the API server stores " + f.name, once: true, prompt: true}
	o.run = func() {
		if w.api.events[at(e.Namespace, e.Name)] != nil {
			w.lostEvents += f.count
			return
		}
		w.api.put(&storedEvent{
			Event: e, kind: k, recorder: s.recorder,
			rejectsPatches: w.mix.Rejects && w.rng.IntN(4) == 0, forbidden: w.mix.APIFails && w.rng.IntN(3) == 0,
		})
	}
	o.refuse = func() { w.lostEvents += f.count }
	_ = w.ops.submit(context.Background(), o) // it cannot fail without a deadline
}

// patch sends a PATCH as an UPDATE, and reports whether it is done. If not, missing says whether the Event does not exist;
// otherwise it has changed meanwhile.
func (s *eventClient) patch(k kind, f sent, via *replica) (done, missing bool) {
	w := s.world
	old := w.api.events[at(k.namespace, f.name)]
	if old == nil {
		return false, true
	}
	version, e := old.ResourceVersion, old.DeepCopy()
	e.Count, e.Message, e.LastTimestamp = int32(f.count), k.message, metav1.NewTime(time.Now())
	if d, _ := s.decide(e, old.Event, via); !d.Verdict.Admits() {
		s.done(via)
		return true, false
	}
	conflict := false
	o := &operation{by: s.name, name: fmt.Sprintf("the API server sets %s to %d", f.name, f.count), once: true, prompt: true}
	o.run = func() {
		if now := w.api.events[at(k.namespace, f.name)]; now != old || now.ResourceVersion != version {
			conflict = true
			w.note("the API server sends another review, as %s has changed", f.name)
			return
		}
		old.Event = e
		w.api.put(old)
	}
	_ = w.ops.submit(context.Background(), o) // it cannot fail without a deadline
	if conflict {
		return false, false
	}
	s.done(via)
	return true, false
}
