package e2e

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy"
)

const (
	// floodWriters is the number of concurrent writers. All write to one or two buckets at a time, because the Events
	// of a bucket follow each other.
	floodWriters = 32
	// knownReasons and rareReasons have one reserve per reason. Together they stay below the 16 reasons that can have
	// a reserve.
	knownReasons, rareReasons = 5, 6
	// eventsPerKnownReason is the number of Events per bucket under its known reasons, and eventsPerRareReason the
	// number under each rare reason. They are enough to empty the buckets of 3 replicas that share nothing.
	eventsPerKnownReason, eventsPerRareReason = 100, 5
	// floodRepeats is how often the second wave repeats each Event of the first.
	floodRepeats = 4
)

// flood writes Events to many token buckets until they are empty, in four waves. How many
// Events of a wave are stored does not depend on their order:
//
//   - The first wave has one Event of each known reason. Each takes a token and
//     the reserve of its reason.
//   - The second repeats these Events under other names. All are merged and take
//     no token. Their pending counts must survive all later Events of the same source
//     and object.
//   - The third has Events of the known reasons only. Their reserves are used
//     up, so as many are stored as the bucket has tokens left.
//   - The fourth has Events of new reasons. The bucket is empty,
//     so the reserve of each is stored.
//
// Only Events of the second wave can be merged: all others have distinct messages and
// reporting instances, so none are similar. No token refills, because the flood ends
// before the first one could.
type flood struct {
	*setEnv
	namespace string

	mu       sync.Mutex        // guards the fields below
	counts   map[string]int64  // expected counts, by stored Event and notice
	admitted map[spamKey]int64 // number of stored Events
	merged   int64             // number of merged Events
}

// newFlood makes a namespace and a flood in it.
func newFlood(e *setEnv, namespace string) *flood {
	return &flood{setEnv: e, namespace: e.namespace(namespace), counts: map[string]int64{}, admitted: map[spamKey]int64{}}
}

// writeWaves writes the four waves.
func (f *flood) writeWaves() {
	f.Helper()
	begun := time.Now()
	sent := f.wave(knownReasons, f.opening)
	sent += f.wave(knownReasons*floodRepeats, f.repeat)
	sent += f.wave(eventsPerKnownReason-knownReasons, func(k spamKey, i int) *corev1.Event {
		return f.event(k, fmt.Sprint("more-", i), fmt.Sprint("Known", i%knownReasons))
	})
	sent += f.wave(rareReasons*eventsPerRareReason, func(k spamKey, i int) *corev1.Event {
		return f.event(k, fmt.Sprint("rare-", i), fmt.Sprint("Rare", i%rareReasons))
	})
	lasted := time.Since(begun)
	f.Logf("sent %d Events to %d buckets in %s", sent, len(spamKeys()), lasted.Round(time.Millisecond))
	if refill := policy.Default().SpamFilter.Interval; lasted >= refill {
		f.Fatalf("the flood lasted %s, want less than %s, the interval of a token", lasted, refill)
	}
}

// tokensPerBucket returns how many Events of a flood one bucket admits.
func tokensPerBucket() int64 {
	limits := policy.Default().SpamFilter
	return int64(limits.Burst + rareReasons*limits.ReservePerReason)
}

// wave writes n Events to each bucket, records the outcomes, and returns the total number of Events.
func (f *flood) wave(n int, event func(k spamKey, i int) *corev1.Event) (sent int) {
	f.Helper()
	var writers errgroup.Group
	writers.SetLimit(floodWriters)
	for _, k := range spamKeys() {
		for i := range n {
			e := event(k, i)
			writers.Go(func() error {
				_, err := f.client.CoreV1().Events(f.namespace).Create(f.Context(), e, metav1.CreateOptions{})
				return f.recordOutcome(k, e, err)
			})
		}
	}
	f.must(writers.Wait())
	return n * len(spamKeys())
}

// recordOutcome records the outcome of an Event. It returns an error if the Event was not stored, merged or dropped.
func (f *flood) recordOutcome(k spamKey, e *corev1.Event, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.counts[e.Name]++
		f.admitted[k]++
	case isDropped(err):
		f.counts[noticeOf(k.source, k.object)]++
	case apierrors.IsAlreadyExists(err):
		f.counts[e.Annotations[repeats]]++
		f.merged++
	default:
		return fmt.Errorf("create %s: %w", e.Name, err)
	}
	return nil
}

const (
	floodSources = 2
	floodObjects = 2
	// repeats is an annotation with the name of the repeated Event.
	repeats = "example.com/repeats"
)

// spamKey identifies a token bucket of the default policy's spam filter within a namespace.
type spamKey struct{ source, object, kind string }

// opening returns the first Event of a known reason.
func (f *flood) opening(k spamKey, reason int) *corev1.Event {
	return f.event(k, fmt.Sprint("first-", reason), fmt.Sprint("Known", reason))
}

// repeat returns an opening under a new name.
func (f *flood) repeat(k spamKey, i int) *corev1.Event {
	e := f.opening(k, i%knownReasons)
	e.Annotations = map[string]string{repeats: e.Name}
	e.Name = fmt.Sprint(e.Name, "-again-", i/knownReasons)
	return e
}

// event returns an Event that is similar to no other.
func (f *flood) event(k spamKey, what, reason string) *corev1.Event {
	name := strings.ToLower(k.source + "-" + k.object + "-" + k.kind + "-" + what)
	e := coreEvent(f.namespace, name, k.object, "worked on "+what)
	e.Source = corev1.EventSource{Component: k.source, Host: "node-1"}
	e.ReportingController, e.ReportingInstance = "example.com/"+k.source, k.source+"-"+what
	e.Type, e.Reason = k.kind, reason
	return e
}

// spamKeys returns the buckets of a flood.
func spamKeys() (keys []spamKey) {
	for source := range floodSources {
		for object := range floodObjects {
			for _, kind := range []string{corev1.EventTypeNormal, corev1.EventTypeWarning} {
				keys = append(keys, spamKey{fmt.Sprint("operator-", source), fmt.Sprint("web-", object), kind})
			}
		}
	}
	return keys
}

// noticeOf returns the key in counts for the notices of a source and object.
func noticeOf(source, object string) string { return "notices about " + source + " and " + object }
