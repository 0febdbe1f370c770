package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/store"
)

// create sends a CREATE.
func create(name string, details ...detail) action {
	return func(sc *script) string { return sc.decide(about(name, details)) }
}

// update sends an UPDATE. It is a recorder's, of an Event stored with count 1, unless details say
// otherwise.
func update(name string, details ...detail) action {
	return func(sc *script) string {
		recorders := func(f *facts) { f.update = &store.Update{Recorder: true, Stored: store.Stored{Count: 1}} }
		return sc.decide(about(name, append([]detail{recorders}, details...)))
	}
}

// each sends several writes at the same moment; their outcomes are joined.
func each(all ...action) action {
	return func(sc *script) string {
		var said []string
		for _, one := range all {
			said = append(said, one(sc))
		}
		return strings.Join(slices.Compact(said), "; ")
	}
}

func (sc *script) decide(f facts) string {
	w := f.write(sc.now)
	l := f.under(sc.limits, &w)
	d, err := sc.subject.Decide(sc.t.Context(), sc.now, w, l)
	if err != nil {
		return err.Error()
	}
	return decided(d)
}

// Claims: what is due, what falls due within a time, all there is, and what is to be said beside
// counts.
func due(sc *script) string    { return sc.claim(0, math.MaxInt, nobody, counted) }
func drain(sc *script) string  { return sc.claim(math.MaxInt64, math.MaxInt, nobody, counted) }
func saying(sc *script) string { return sc.claim(math.MaxInt64, math.MaxInt, nobody, detailed) }
func asking(sc *script) string { return sc.claim(math.MaxInt64, math.MaxInt, nobody, conditions) }

func soon(ahead time.Duration) action {
	return func(sc *script) string { return sc.claim(ahead, math.MaxInt, nobody, counted) }
}

// some claims at most n groups, and none of pods that are claimed already.
func some(n int, but ...string) action {
	return func(sc *script) string {
		return sc.claim(0, n, func(namespace string, group store.Key) bool {
			return slices.ContainsFunc(but, func(name string) bool {
				return about("", []detail{pod(name), in(namespace)}).write(sc.now).Group == group
			})
		}, counted)
	}
}

// pending says of how many groups something is pending.
func pending(sc *script) string {
	n, err := sc.subject.Pending(sc.t.Context())
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(n)
}

// again keeps the last claim of a name under another one.
func again(name, as string) action {
	return func(sc *script) string {
		sc.claimed[as] = sc.claimed[name]
		return ""
	}
}

// written says that the Event that was last claimed under a name has been written, and what it said
// before, if that was looked at.
func written(name string, said ...store.Stored) action {
	return func(sc *script) string {
		sc.writes++
		o := store.Outcome{Result: store.Written, UID: name + "-uid", ResourceVersion: fmt.Sprint(sc.writes)}
		if len(said) > 0 {
			o.Stored = said[0]
		}
		return sc.complete(name, o)
	}
}

// became says what else became of the write that was last claimed under a name.
func became(r store.Result, name string) action {
	return func(sc *script) string { return sc.complete(name, store.Outcome{Result: r}) }
}

func missing(name string) action { return became(store.NotFound, name) }

func (sc *script) complete(name string, o store.Outcome) string {
	p, ok := sc.claimed[name]
	if !ok {
		return "nothing was claimed for " + name
	}
	if err := sc.subject.Complete(sc.t.Context(), sc.now, p, o); err != nil {
		return err.Error()
	}
	return ""
}
