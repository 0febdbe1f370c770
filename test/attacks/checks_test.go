package attacks

import (
	"slices"
	"strconv"
	"strings"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store/engine"
)

const (
	// maxKeysPerEvent bounds the keys in a Redis call for one Event. Each limit of the namespace has one key, the administrator's limit
	// one, the shipped limits two, and the spam filter one. The register has four with its index and two sets.
	maxKeysPerEvent = policy.MaxLimitsPerEvent + 1 + 2 + 1 + 4
	// maxCommandsPerWrite bounds the Redis commands for an Event write, including those for writing pending counts and notices.
	maxCommandsPerWrite = 8 * maxKeysPerEvent
)

// bucketsKeyPrefix precedes the namespace in the name of a key that each call with buckets has.
const bucketsKeyPrefix = "nq:"

// check checks the results after the tenant has stopped.
func (a *arena) check(tenant *tenant, counts neighbourCounts) {
	a.Helper()
	a.checkQuota(tenant)
	a.checkNeighbour(counts)
	if failed, err := a.cluster.WebhookFailures(a.Context()); err != nil || failed != 0 {
		a.Errorf("%d webhook calls failed (%v), want none:\n%s", failed, err, a.cluster.WebhookErrors())
	}
	decisions, err := a.replica.Decisions(a.Context(), "outcome")
	a.must(err)
	a.Logf("decisions: %v", decisions)
	if decisions["undecided"]+decisions["overload"] > 0 {
		a.Errorf("got decisions %v, want none undecided or refused because of overload", decisions)
	}
	if a.redis != nil {
		a.checkCalls(tenant)
	}
	a.logTimes()
	if !a.Failed() {
		a.must(tenant.checkAccepted())
	}
}

// checkQuota checks that the administrator's quota limits the tenant's Event writes.
func (a *arena) checkQuota(tenant *tenant) {
	a.Helper()
	if stored, most := tenant.storedWrites(), a.maxStored(); stored > most && !a.exceeded {
		a.exceeded = true
		a.Errorf("%d Event writes of the tenant were stored, want at most %d: its quota has a burst of %d and a token every %s, and each token pays for %d writes",
			stored, most, tenantBurst, tenantRefill, 1+engine.FreeRetries)
	}
}

// recordCalls makes Redis record the latest 20,000 commands in its slow log, including those that scripts run.
func (a *arena) recordCalls() {
	a.Helper()
	a.must(a.redis.ConfigSet(a.Context(), "slowlog-log-slower-than", "0").Err())
	a.must(a.redis.ConfigSet(a.Context(), "slowlog-max-len", "20000").Err())
}

// readCalls reads the recorded calls and checks how many keys each call for an Event of the tenant had.
func (a *arena) readCalls() {
	a.Helper()
	calls, err := a.redis.SlowLogGet(a.Context(), -1).Result()
	a.must(err)
	a.must(a.redis.SlowLogReset(a.Context()).Err())
	for _, call := range calls {
		takesTokens := slices.ContainsFunc(call.Args, func(arg string) bool { return strings.HasSuffix(arg, bucketsKeyPrefix+tenantNamespace) })
		if !takesTokens || !strings.EqualFold(call.Args[0], "EVALSHA") {
			continue // a settler may read many registers at once, and commands within scripts are recorded too
		}
		keys, err := strconv.Atoi(call.Args[2])
		a.must(err)
		if a.maxKeysPerCall <= maxKeysPerEvent && keys > maxKeysPerEvent {
			a.Errorf("a Redis call for an Event of the tenant had %d keys, want at most %d", keys, maxKeysPerEvent)
		}
		a.maxKeysPerCall = max(a.maxKeysPerCall, keys)
	}
}

// checkCalls checks the number of Redis commands for each Event write, and that every Event was decided with Redis.
func (a *arena) checkCalls(tenant *tenant) {
	a.Helper()
	a.readCalls()
	stats, err := a.redis.Info(a.Context(), "commandstats").Result()
	a.must(err)
	total := int64(0)
	for line := range strings.Lines(stats) {
		if _, calls, ok := strings.Cut(line, ":calls="); ok {
			n, _, _ := strings.Cut(calls, ",")
			count, err := strconv.ParseInt(n, 10, 64)
			a.must(err)
			total += count
		}
	}
	writes := tenant.attempts[creates].Load() + tenant.attempts[patches].Load() + neighbourRounds*(repeatsPerEvent+3)
	a.Logf("%d Redis commands for %d Event writes; at most %d keys in a call", total, writes, a.maxKeysPerCall)
	if total > maxCommandsPerWrite*writes {
		a.Errorf("%d Redis commands for %d Event writes, want at most %d for each write", total, writes, maxCommandsPerWrite)
	}
	without, err := a.replica.Sum(a.Context(), "eventquota_decisions_without_store_total")
	a.must(err)
	if without != 0 {
		a.Errorf("%d Events were decided without Redis, want none", without)
	}
}
