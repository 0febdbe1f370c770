package interleave

import (
	"fmt"
	"slices"
	"time"
)

// action is a possible next step of a schedule.
type action struct {
	id     string
	weight int
	do     func()
}

// actions collects possible next steps.
type actions []action

// add adds a step. A step with twice the weight is chosen twice as often.
func (as *actions) add(weight int, do func(), id string) { *as = append(*as, action{id, weight, do}) }

// enabled returns all possible next steps, in an order that depends only on the schedule so far.
func (w *world) enabled() []action {
	var as actions
	live := w.ops.live()
	w.opActions(&as, live)
	w.timeActions(&as, live)
	for _, s := range w.eventClients {
		for _, r := range w.replicas {
			if !s.busy && !r.stopped {
				as.add(8, func() { s.act(r) }, s.name+" writes through "+r.name)
			}
		}
	}
	w.leaderActions(&as)
	w.replicaActions(&as)
	w.redisActions(&as)
	return as
}

// opActions adds the steps of the operations in flight.
func (w *world) opActions(as *actions, live []*operation) {
	for _, o := range live {
		w.forwardActions(as, o)
		w.faultActions(as, o)
	}
}

// forwardActions adds the steps that execute, answer or lose an operation.
func (w *world) forwardActions(as *actions, o *operation) {
	forward := func() { w.ops.forward(o) }
	switch {
	case o.abandoned:
		as.add(3, forward, "execute late: "+o.id)
		as.add(2, func() { w.ops.lose(o) }, "lose after its timeout: "+o.id)
	case o.ran:
		as.add(12, forward, "answer: "+o.id)
	default:
		as.add(12, forward, "execute: "+o.id)
	}
}

// faultActions adds the faults of an operation that the mix allows.
func (w *world) faultActions(as *actions, o *operation) {
	m := w.mix
	if o.refuse != nil && m.Refuses {
		as.add(2, func() {
			o.refuse()
			w.ops.answer(o, nil)
		}, "another webhook refuses: "+o.id)
	}
	if o.abandoned || o.once {
		return
	}
	if o.fail != nil && m.APIFails && w.allowFault("") {
		description := "the API server fails before: "
		if o.ran {
			description = "the API server fails after: "
		}
		as.add(2, func() {
			w.allowFault("failure")
			o.fail()
			w.ops.answer(o, nil)
		}, description+o.id)
	}
	cut := func() { w.ops.answer(o, errCut) }
	switch {
	case o.ran && m.LoseAnswers:
		as.add(2, cut, "cut the connection before the answer to: "+o.id)
		as.add(1, func() { w.ops.lose(o) }, "lose the answer to: "+o.id)
	case !o.ran && m.LoseCommands:
		as.add(1, cut, "cut the connection before: "+o.id)
		as.add(1, func() { w.ops.lose(o) }, "lose: "+o.id)
	}
}

// timeActions adds steps that let time pass. Unless the mix is Slow, these steps leave calls in flight enough time to end before their
// deadlines.
func (w *world) timeActions(as *actions, live []*operation) {
	steps := []time.Duration{5 * time.Millisecond, 110 * time.Millisecond, 260 * time.Millisecond, 1100 * time.Millisecond, 3 * time.Second}
	weight := 3
	switch {
	case w.mix.Slow:
		steps = append(steps, 55*time.Millisecond, 210*time.Millisecond, 30*time.Second)
		if len(live) > 0 {
			weight = 1
		}
	case slices.ContainsFunc(live, func(o *operation) bool { return o.redis != nil }) || len(w.calls) > 0:
		steps = steps[:0]
		if w.callsHaveTime(live) {
			steps = []time.Duration{time.Millisecond}
		}
	case len(live) > 0: // operations of settlers, which have longer deadlines
		steps = steps[1:4]
	}
	if w.mix.Windows > 0 && w.mix.Slow && !slices.ContainsFunc(w.leaders, func(l *leader) bool { return !l.over() }) {
		long := w.mix.Windows * 5 / 4
		as.add(2, func() { w.runUntil(long, func() bool { return false }) }, fmt.Sprintf("%v pass, and operations are executed", long))
	}
	if w.mix.Long > 0 && w.longOutages < 3 && w.apiIdle() {
		as.add(1, func() { w.longOutages++; w.runUntil(w.mix.Long, func() bool { return false }) }, fmt.Sprintf("%v pass, and operations are executed", w.mix.Long))
	}
	if i := slices.IndexFunc(live, func(o *operation) bool { return o.prompt }); i >= 0 {
		// The API server stores an admitted Event within a tenth of a second, otherwise settlers would not find it.
		const limit = 100 * time.Millisecond
		if w.oldestWait(live) > limit {
			return
		}
		steps = slices.DeleteFunc(steps, func(d time.Duration) bool { return d > limit })
	}
	for _, d := range steps {
		as.add(weight, func() { w.advanceTime(d) }, fmt.Sprintf("at most %v pass", d))
	}
}

// oldestWait returns the time for which the oldest admitted Event has waited to be stored.
func (w *world) oldestWait(live []*operation) (oldest time.Duration) {
	for _, o := range live {
		if o.prompt {
			oldest = max(oldest, time.Since(o.at))
		}
	}
	return oldest
}

// apiIdle reports whether no decision is in flight and no admitted Event waits to be stored.
func (w *world) apiIdle() bool {
	return len(w.calls) == 0 && !slices.ContainsFunc(w.ops.live(), func(o *operation) bool { return o.prompt })
}

// callsHaveTime reports whether time can pass without making a call in flight miss its deadline.
func (w *world) callsHaveTime(live []*operation) bool {
	const limit = 20 * time.Millisecond
	for _, o := range live {
		if o.redis != nil && time.Since(o.at) > limit {
			return false
		}
	}
	for c := range w.calls {
		if time.Since(c.began) > limit {
			return false
		}
	}
	return true
}

// advanceTime lets up to d pass. It returns early when an operation arrives.
func (w *world) advanceTime(d time.Duration) {
	select {
	case <-w.ops.wake:
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ops.wake:
	}
}

// leaderActions adds the start and the end of settlers' terms.
func (w *world) leaderActions(as *actions) {
	active := 0
	for _, l := range w.leaders {
		if l.over() {
			continue
		}
		active++
		if l.ending {
			continue
		}
		endings := []string{"ends", "loses its lease"}
		if w.mix.Crashes {
			endings = append(endings, "crashes")
		}
		for _, ending := range endings {
			as.add(1, func() { l.end(ending) }, l.name+" "+ending)
		}
	}
	if active >= w.mix.Settlers {
		return
	}
	for _, r := range w.replicas {
		if !r.stopped {
			as.add(2, func() { w.startLeader(r) }, r.name+" becomes the leader")
		}
	}
}

// replicaActions adds the starts, stops and faults of replicas.
func (w *world) replicaActions(as *actions) {
	running := 0
	for _, r := range w.replicas {
		if !r.stopped {
			running++
		}
	}
	for _, r := range w.replicas {
		if w.mix.Outages && !r.over() {
			if r.redisLink == redisAnswers {
				as.add(1, func() { r.redisLink = redisRefuses }, r.name+" cannot connect to Redis")
				as.add(1, func() { r.redisLink = redisSilent }, "Redis does not answer "+r.name)
			} else {
				as.add(2, func() { r.redisLink = redisAnswers }, "Redis answers "+r.name+" again")
			}
		}
		if w.mix.Stops && running > 1 && !r.stopped && r.calls == 0 && !r.leads() {
			as.add(2, func() {
				r.stopped = true
				r.stop()
			}, r.name+" stops")
		}
		if w.mix.ClockJumps && w.allowFault("") && w.apiIdle() {
			r.clockActions(as)
		}
	}
	if w.mix.Stops && running < w.mix.Replicas && len(w.replicas) < 2*w.mix.Replicas {
		name := fmt.Sprint("replica ", len(w.replicas)+1)
		as.add(2, func() { w.replicas = append(w.replicas, w.newReplica(name, true)) }, name+" starts")
	}
}

// clockActions adds jumps of the replica's clock.
func (r *replica) clockActions(as *actions) {
	for _, d := range []time.Duration{3 * time.Second, -3 * time.Second} {
		as.add(1, func() { r.world.allowFault("jump"); r.clockOffset += d }, fmt.Sprintf("the clock of %s jumps by %v", r.name, d))
	}
}

// leads reports whether a settler runs on the replica.
func (r *replica) leads() bool {
	for _, l := range r.world.leaders {
		if l.replica == r && !l.over() {
			return true
		}
	}
	return false
}

// allowFault reports whether the schedule may have another of the limited faults. Unless kind is empty, it first counts one.
func (w *world) allowFault(kind string) bool {
	const maxFaults = 4
	if kind != "" {
		w.faultsUsed++
	}
	return w.faultsUsed < maxFaults
}
