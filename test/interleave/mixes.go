package interleave

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// noRefill is a refill interval that is longer than a schedule.
const noRefill = 1000 * time.Hour

// Mix describes a kind of schedules: the cluster, its load, and the faults that may happen.
type Mix struct {
	Name, Summary string
	// Replicas, Clients, Recorders and Readers are numbers. The first of the clients are recorders. The last ones are readers, which
	// keep no count: they read the Event, add one and replace it. Bursts lets an Event begin with a count
	// above 1. Memory uses a memory store, with one replica, instead of Redis.
	Replicas, Clients, Recorders, Readers int
	Bursts, Memory                        bool
	// Pods, Reasons and Messages are the numbers of distinct values, and Steps is the length of a schedule.
	Pods, Reasons, Messages, Steps int
	// Spam is the burst of spam filters, or 0 for none. Quotas returns the quotas of a client's writes. Combined makes the notices
	// of both combined. Windows is the length of both merge windows, by default 5 and 10 minutes.
	Spam      int
	Quotas    func(client int) []store.Bucket
	Combined  bool
	OnFailure store.FailureMode
	Windows   time.Duration

	// Settlers is the highest number of concurrent settlers.
	Settlers int
	// Slow lets time pass while calls are in flight. The other fields allow faults.
	Slow, Outages, LoseCommands, LoseAnswers, Stops, Crashes       bool
	Failover, PartialLoss, SlotMoves, ClockJumps, Rejects, Refuses bool
	Deletions, Junk, APIFails                                      bool
	// Bounds are the bounds of a namespace. By default, they are too large to matter.
	Bounds store.Bounds
	// Unmerged turns merging off, so that only quotas have state.
	Unmerged bool
	// Long is the length of long outages, or 0 for none. User is the user of all clients, by default a kubelet.
	Long time.Duration
	User string
}

// limits returns the limits of all writes, without quotas.
func (m *Mix) limits(rng *rand.Rand) store.Limits {
	l := store.Limits{
		Merge: true, SimilarThreshold: 2 + rng.IntN(3), KeepMessages: 2, Window: 5 * time.Minute, IdenticalWindow: 10 * time.Minute,
		WriteInterval: 300 * time.Millisecond, MaxWriteInterval: 600 * time.Millisecond,
	}
	l.Merge = !m.Unmerged
	if m.Windows != 0 {
		l.Window, l.IdenticalWindow = m.Windows, m.Windows
	}
	if m.Spam > 0 {
		l.SpamFilter = store.Bucket{
			Limit: store.Limit{Burst: m.Spam, Every: noRefill}, Key: store.KeyOf("spam filter"), Name: "the spam filter", Policy: "policy", LimitID: "the spam filter",
			Combined: m.Combined,
		}
	}
	return l
}

// quotas returns the quotas of a client's writes.
func (m *Mix) quotas(client int) []store.Bucket {
	if m.Quotas == nil {
		return nil
	}
	all := m.Quotas(client)
	for i := range all {
		all[i].Combined = m.Combined
	}
	return all
}

// anythingFails reports whether a fault, or a recorder, may move a count to another Event or notice.
func (m *Mix) anythingFails() bool {
	return m.tokensMayBeLost() || m.countsMayBeLost() || m.Crashes || m.Rejects || m.Refuses || m.Deletions || m.APIFails || m.Recorders > 0
}

// tokensMayBeLost reports whether a token may be taken without an admission, or twice.
func (m *Mix) tokensMayBeLost() bool {
	return m.Slow || m.Outages || m.LoseAnswers || m.LoseCommands || m.Failover || m.PartialLoss || m.SlotMoves || m.ClockJumps || m.Stops ||
		m.Bounds != store.Bounds{}
}

// countsMayBeLost reports whether occurrences may be missing in the end.
func (m *Mix) countsMayBeLost() bool { return m.Failover || m.PartialLoss || m.Junk }

// noticeKey returns the key of the notice about a bucket.
func noticeKey(b *store.Bucket) store.Key { return engine.NoticeKey(b) }

// quota returns a bucket that writes share.
func quota(name string, burst int) store.Bucket {
	return store.Bucket{
		Limit: store.Limit{Burst: burst, Every: noRefill}, Key: store.KeyOf("quota", name), Name: name, Policy: "quotas",
		NoticeObject: store.Object{APIVersion: "eventquota.io/v1alpha1", Kind: "EventQuota", Namespace: "default", Name: name},
	}
}

// sharedQuotas returns one quota for all clients, and another one of its own, with a single token, for every second client.
func sharedQuotas(client int) []store.Bucket {
	all := []store.Bucket{quota("the shared quota", 6)}
	if client%2 == 0 {
		all = append(all, quota(fmt.Sprint("the empty quota of client ", client), 1))
	}
	return all
}

// smallBounds returns bounds that a namespace soon reaches.
func smallBounds() store.Bounds { return store.Bounds{Buckets: 2, Registers: 3} }

// quotaPerClient returns a quota for each client, more than smallBounds allows.
func quotaPerClient(client int) []store.Bucket {
	b := quota(fmt.Sprint("the quota of client ", client), 4)
	b.LimitID = "each"
	return []store.Bucket{b}
}

// quotaWithFailureMode returns a function for Mix.Quotas, with one quota for all clients.
func quotaWithFailureMode(f store.FailureMode) func(int) []store.Bucket {
	return func(int) []store.Bucket {
		b := quota("the quota", 4)
		b.OnFailure = f
		return []store.Bucket{b}
	}
}

// Mixes returns all mixes.
func Mixes() []Mix {
	base := Mix{Replicas: 3, Clients: 4, Recorders: 2, Pods: 2, Reasons: 1, Messages: 2, Steps: 120, Spam: 3, Settlers: 1}
	mix := func(name, summary string, change func(*Mix)) Mix {
		m := base
		m.Name, m.Summary = name, summary
		change(&m)
		return m
	}
	return []Mix{
		mix("quiet", "no faults", func(m *Mix) { m.Bursts = true }),
		mix("memory", "no faults, in memory", func(m *Mix) { m.Memory, m.Replicas, m.Quotas = true, 1, sharedQuotas }),
		mix("quotas", "empty quotas refuse", func(m *Mix) {
			m.Recorders, m.Pods, m.Messages, m.Spam, m.Quotas = 0, 4, 4, 0, sharedQuotas
		}),
		mix("counting", "recorders continue to count names that a quota or a spam filter refused", func(m *Mix) {
			m.Recorders, m.Pods, m.Spam, m.Quotas = 4, 1, 1, sharedQuotas
		}),
		mix("slow", "calls take longer than their callers wait", func(m *Mix) { m.Slow, m.Bursts, m.Pods, m.Recorders = true, true, 1, 3 }),
		mix("lost", "commands and answers are lost", func(m *Mix) {
			m.Slow, m.LoseCommands, m.LoseAnswers, m.Pods = true, true, true, 1
		}),
		mix("outages", "Redis cannot be reached from some replicas", func(m *Mix) {
			m.Slow, m.Outages, m.Bursts, m.Pods, m.Recorders = true, true, true, 1, 3
		}),
		mix("refused-names", "recorders count on under names that one replica has refused without Redis, and a quota may have", func(m *Mix) {
			m.Slow, m.Outages, m.Replicas, m.Clients, m.Recorders, m.Pods, m.Messages, m.Spam, m.Steps, m.Quotas = true, true, 2, 4, 3, 1, 1, 0, 60, sharedQuotas
		}),
		mix("readers", "clients read a count, add one and write it, while Redis cannot be reached from some replicas", func(m *Mix) {
			m.Slow, m.Outages, m.Pods, m.Messages, m.Spam, m.Recorders, m.Readers = true, true, 1, 1, 0, 1, 2
		}),
		mix("readers-memory", "clients read a count, add one and write it, in memory", func(m *Mix) {
			m.Memory, m.Replicas, m.Pods, m.Recorders, m.Readers, m.Quotas = true, 1, 1, 1, 2, sharedQuotas
		}),
		mix("stops", "replicas stop, also while Redis cannot be reached", func(m *Mix) {
			m.Slow, m.Outages, m.Stops, m.Pods, m.Recorders = true, true, true, 1, 0
		}),
		mix("stops-lost", "replicas stop, and answers are lost", func(m *Mix) {
			m.Slow, m.LoseAnswers, m.Stops, m.Pods, m.Recorders = true, true, true, 1, 0
		}),
		mix("settlers", "two settlers overlap, and some crash", func(m *Mix) { m.Settlers, m.Crashes = 2, true }),
		mix("claims", "two settlers claim Events while others merge into them", func(m *Mix) {
			m.Replicas, m.Clients, m.Recorders, m.Pods, m.Messages, m.Spam, m.Settlers = 2, 2, 0, 1, 1, 0, 2
		}),
		mix("failover", "Redis fails over to an older copy", func(m *Mix) {
			m.Failover, m.Replicas, m.Clients, m.Recorders, m.Spam, m.Pods, m.Messages, m.Steps = true, 2, 2, 0, 1, 1, 30, 180
		}),
		mix("partial", "Redis loses a register or an index", func(m *Mix) {
			m.PartialLoss, m.Slow, m.LoseAnswers, m.Crashes = true, true, true, true
			m.Recorders, m.Pods, m.Messages, m.Spam, m.Settlers = 0, 1, 1, 0, 2
		}),
		mix("slots", "slots move", func(m *Mix) { m.Slow, m.SlotMoves, m.Pods, m.Long = true, true, 1, 8*time.Second }),
		mix("clocks", "clocks jump", func(m *Mix) { m.ClockJumps = true }),
		mix("deny", "Redis cannot be reached, and quotas deny", func(m *Mix) {
			m.Slow, m.Outages, m.Quotas, m.OnFailure, m.Recorders = true, true, quotaWithFailureMode(store.DenyAll), store.DenyAll, 0
		}),
		mix("admit", "Redis cannot be reached, and quotas admit", func(m *Mix) {
			m.Slow, m.Outages, m.Quotas, m.OnFailure, m.Recorders = true, true, quotaWithFailureMode(store.AdmitAll), store.AdmitAll, 0
		}),
		mix("local", "Redis cannot be reached, and replicas decide by the last known state of quotas", func(m *Mix) {
			m.Slow, m.Outages, m.LoseAnswers, m.Quotas, m.Recorders = true, true, true, sharedQuotas, 0
		}),
		mix("rejects", "the API server rejects writes by settlers, and other webhooks refuse Events", func(m *Mix) {
			m.Rejects, m.Refuses, m.APIFails, m.Recorders = true, true, true, 1
		}),
		mix("expiry", "outages last longer than registers", func(m *Mix) {
			m.Slow, m.LoseAnswers, m.Outages, m.Windows = true, true, true, 20*time.Second
			m.Replicas, m.Clients, m.Recorders, m.Spam, m.Pods, m.Messages, m.Steps = 2, 2, 0, 0, 1, 1, 100
		}),
		mix("doubt", "answers are lost in outages of many minutes, while their decisions are written and expire", func(m *Mix) {
			m.Slow, m.LoseAnswers, m.Outages, m.Windows, m.Long = true, true, true, 20*time.Second, 4*time.Minute
			m.Replicas, m.Clients, m.Recorders, m.Spam, m.Pods, m.Messages, m.Steps = 2, 2, 0, 0, 1, 1, 60
		}),
		mix("leaders", "two settlers overlap, some crash, and a register is lost", func(m *Mix) {
			m.PartialLoss, m.Crashes, m.Settlers, m.APIFails = true, true, 2, true
			m.Replicas, m.Clients, m.Recorders, m.Spam, m.Pods, m.Messages = 2, 2, 0, 0, 1, 1
		}),
		mix("created", "one replica admits a CREATE and another its UPDATE, both in an outage", func(m *Mix) {
			m.Slow, m.Outages, m.Bursts, m.Clients, m.Spam, m.Pods, m.Messages, m.Steps = true, true, true, 2, 0, 1, 1, 80
		}),
		mix("nodes", "Events of nodes, which have no create ID and are recognized by their content", func(m *Mix) {
			m.User, m.Settlers, m.APIFails, m.Pods = "system:node:a", 2, true, 1
		}),
		mix("contended", "many replicas change one register at the same time", func(m *Mix) {
			m.Replicas, m.Clients, m.Recorders, m.Spam, m.Pods, m.Messages, m.Steps = 4, 6, 0, 0, 1, 1, 200
		}),
		mix("unmerged", "nothing is merged, and quotas limit", func(m *Mix) {
			m.Unmerged, m.Recorders, m.Spam, m.Quotas = true, 0, 0, sharedQuotas
		}),
		mix("unmerged-lost", "nothing is merged, quotas limit, and answers are lost", func(m *Mix) {
			m.Unmerged, m.Recorders, m.Spam, m.Quotas, m.Slow, m.LoseAnswers, m.LoseCommands = true, 0, 0, sharedQuotas, true, true, true
		}),
		mix("full", "a namespace exceeds its bounds of registers and buckets", func(m *Mix) {
			m.Pods, m.Recorders, m.Quotas, m.Bounds = 6, 1, quotaPerClient, smallBounds()
		}),
		mix("full-memory", "a namespace exceeds its bounds, in memory", func(m *Mix) {
			m.Memory, m.Replicas, m.Pods, m.Recorders, m.Quotas, m.Bounds = true, 1, 6, 1, quotaPerClient, smallBounds()
		}),
		mix("full-lost", "a namespace exceeds its bounds, answers are lost, and Redis cannot be reached", func(m *Mix) {
			m.Slow, m.LoseAnswers, m.LoseCommands, m.Outages = true, true, true, true
			m.Pods, m.Recorders, m.Quotas, m.Bounds = 6, 0, quotaPerClient, smallBounds()
		}),
		mix("bounds", "more notices and reasons than a register keeps", func(m *Mix) {
			m.Windows, m.Spam, m.Reasons, m.Messages, m.Pods, m.Recorders = 3*time.Second, 1, 20, 20, 1, 0
		}),
		mix("combined", "each dropped reason has a combined notice", func(m *Mix) {
			m.Combined, m.Reasons, m.Pods, m.Messages, m.Recorders, m.Spam, m.Quotas = true, 5, 4, 4, 0, 2, sharedQuotas
		}),
		mix("combined-memory", "each dropped reason has a combined notice, in memory", func(m *Mix) {
			m.Combined, m.Memory, m.Replicas, m.Reasons, m.Messages, m.Recorders, m.Spam, m.Quotas = true, true, 1, 5, 4, 0, 2, sharedQuotas
		}),
		mix("combined-lost", "more dropped reasons than combined notices, answers are lost, and settlers overlap and crash", func(m *Mix) {
			m.Combined, m.Reasons, m.Messages, m.Recorders, m.Spam, m.Quotas = true, 24, 3, 1, 2, sharedQuotas
			m.Slow, m.LoseAnswers, m.LoseCommands, m.Outages, m.Crashes, m.Settlers = true, true, true, true, true, 2
		}),
		mix("combined-windows", "windows are short, and reasons occur again in the next one", func(m *Mix) {
			m.Combined, m.Windows, m.Reasons, m.Pods, m.Messages, m.Recorders, m.Spam, m.Settlers = true, 3*time.Second, 20, 1, 20, 0, 1, 2
		}),
		mix("junk", "another program overwrites a register", func(m *Mix) { m.Junk, m.Recorders, m.Pods = true, 0, 3 }),
	}
}
