package attacks

import (
	"slices"
	"strconv"
	"strings"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store/engine"
)

const (
	// maxKeysPerEvent bounds the keys of a call of Redis for one Event: the limits of its namespace, those of the admin and of what is
	// shipped, the spam filter, and the register, its index and two sets.
	maxKeysPerEvent = policy.MaxLimitsPerEvent + 1 + 2 + 1 + 4
	// maxCommandsPerWrite bounds the commands of Redis that a write of an Event needs: some for each key, and for settling.
	maxCommandsPerWrite = 8 * maxKeysPerEvent
)

// bucketsKeyPrefix is in the name of the key, before a namespace, that each call has which takes tokens of buckets.
const bucketsKeyPrefix = "nq:"

// check holds what is left when the tenant has ended.
func (a *arena) check(tenant *tenant, n neighbourCounts) {
	a.Helper()
	a.checkQuota(tenant)
	a.checkNeighbour(n)
	if failed, err := a.cluster.WebhookFailures(a.Context()); err != nil || failed != 0 {
		a.Errorf("%d calls of the webhook failed (%v), want none:\n%s", failed, err, a.cluster.WebhookErrors())
	}
	decisions, err := a.replica.Decisions(a.Context(), "outcome")
	a.must(err)
	a.Logf("decisions: %v", decisions)
	if decisions["undecided"]+decisions["overload"] > 0 {
		a.Errorf("%v, want all decided", decisions)
	}
	if a.redis != nil {
		a.checkCalls(tenant)
	}
	a.logTimes()
	if !a.Failed() {
		a.must(tenant.checkAccepted())
	}
}

// checkQuota holds that the admin's quota limits the tenant.
func (a *arena) checkQuota(tenant *tenant) {
	a.Helper()
	if stored, most := tenant.storedWrites(), a.maxStored(); stored > most && !a.exceeded {
		a.exceeded = true
		a.Errorf("%d writes of the tenant's were stored, want at most %d: its quota has %d tokens and one each %s, and each pays for %d writes",
			stored, most, tenantBurst, tenantRefill, 1+engine.FreeRetries)
	}
}

// recordCalls has Redis record each call and each command of a script, up to a number.
func (a *arena) recordCalls() {
	a.Helper()
	a.must(a.redis.ConfigSet(a.Context(), "slowlog-log-slower-than", "0").Err())
	a.must(a.redis.ConfigSet(a.Context(), "slowlog-max-len", "20000").Err())
}

// readCalls reads the latest calls, and holds how many keys each had.
func (a *arena) readCalls() {
	a.Helper()
	calls, err := a.redis.SlowLogGet(a.Context(), -1).Result()
	a.must(err)
	a.must(a.redis.SlowLogReset(a.Context()).Err())
	for _, call := range calls {
		taking := slices.ContainsFunc(call.Args, func(arg string) bool { return strings.HasSuffix(arg, bucketsKeyPrefix+tenantNamespace) })
		if !taking || !strings.EqualFold(call.Args[0], "EVALSHA") {
			continue // a settler may read many registers at once; commands of a script are recorded too
		}
		keys, err := strconv.Atoi(call.Args[2])
		a.must(err)
		if a.maxKeysPerCall <= maxKeysPerEvent && keys > maxKeysPerEvent {
			a.Errorf("an Event of the tenant's has cost a call of Redis with %d keys, want at most %d", keys, maxKeysPerEvent)
		}
		a.maxKeysPerCall = max(a.maxKeysPerCall, keys)
	}
}

// checkCalls holds what Events have cost Redis.
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
	a.Logf("%d commands of Redis for %d writes; the widest call had %d keys", total, writes, a.maxKeysPerCall)
	if total > maxCommandsPerWrite*writes {
		a.Errorf("%d commands of Redis for %d writes, want at most %d for each", total, writes, maxCommandsPerWrite)
	}
	without, err := a.replica.CounterSum(a.Context(), "eventquota_decisions_without_store_total")
	a.must(err)
	if without != 0 {
		a.Errorf("%d Events were decided without Redis, want none", without)
	}
}
