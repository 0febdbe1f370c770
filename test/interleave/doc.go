// Package interleave runs replicas of the webhook, settlers, recorders and an API server with an in-process Redis, one
// command at a time. It checks the invariants that must hold for every order of these commands.
//
// Everything runs in a bubble of testing/synctest, on virtual time. The stores, the fallback, the settler, admission's keys
// and the Redis script are the real ones. Redis is package luaredis, and the API server keeps Events in a map. Each
// command to Redis, each request of a settler and each call of its store waits twice: until it is executed, and until its
// answer is delivered. When all goroutines wait, a seed chooses the next step. It is one of these operations, a client's
// next write, a change of the leader, a span of time, or a fault that the Mix allows. At the end all faults end, everybody
// finishes, the replicas stop, and all pending counts are written. Then counts, tokens and the index must be correct.
//
// The same seed gives the same schedule, as a test checks. For that, no two timers are due at the same time, waiting
// operations are sorted by name, goroutines share one processor, and crypto/rand reads the seed. A schedule is a list of
// sentences. A failure prints it, after removing steps while the same invariant still breaks.
//
//	go test ./test/interleave -seeds 100000 -mix claims -seed 1 -tries 0
//
// The package uses only redisclient.Caller and a store's methods and Options. It does not depend on the commands that a
// store sends.
//
// # Invariants
//
// Stored Events and notices report as many occurrences as were requested: no more, and no fewer except for documented losses
// (I1). A settler lowers no count. Quotas and spam filters lose as many tokens as admissions took (I3, I9, I15), and with
// faults at most as many. A quota that has tokens refuses nothing. The index has all pending writes and nothing else. An
// unreadable register does not affect others (I10). A breaker opens at most once while a slot moves. No call outlives its
// context, and no goroutine outlives its replica.
//
// Occurrences may be counted twice if a replica could not ask Redis about them until it was stopped, or for ten minutes. If
// Redis has lost data, this may also happen to decisions of an attempt whose answer was lost. Skipped counts of a recorder
// may be missing if a quota may have refused them.
//
// # Findings
//
// An earlier protocol took the tokens of quotas one by one and spread registers over 128 shards. Each of these failures was
// seen there first. Seeds counted from 1, in the mixes as they were then.
//
//	finding   mix         what broke                                       first seed  steps, shrunk
//	E1        claims      a pending write is not in the index, lost         1247        30
//	N5, N16   quotas      a quota refuses although it has tokens            1           35
//	E2        junk        an unreadable register affects others             2           52
//	E10       stops       occurrences are lost                              2           12
//	E11       counting    occurrences are lost                              1           25
//	E12       slow        occurrences are lost                              224         38
//	E13       stops-lost  occurrences are counted twice                     1           23
//	E17       partial     occurrences are counted twice                     166         15
//	E17       expiry      occurrences are counted twice                     1315        30
//	like E16  outages     occurrences are counted twice                     209         13
//	E18       failover    a count goes down                                 654         58
//	new       memory      a recorder's UPDATE whose count the settler had   1877        60
//	                      just written, refused by a quota, is lost
//
// In the current store, with one slot and one script:
//
//	mix         what broke                                                       first seed  steps, shrunk
//	slots       two replicas report a refusal and an admission under one         19          5
//	            name in reverse order: counted twice
//	admit       tokens that were given already did not count in the same         8           -
//	            attempt, which was repeated for ever
//	stops-lost  the breaker of a stopping replica kept its last backlog          2           39
//	            from Redis: counted twice
//	counting    three replicas refuse one name, and the middle count is          3           16
//	            reported last: lost
//
// The same mixes guard against all of these now. Other mixes cover cases that these did not find. In doubt (E14), an answer
// is lost, and its decision is written and expires during the outage. In leaders (E15), two settlers meet a lost register.
// In created (E16), one replica admits a CREATE and another its UPDATE. In slots, keys move one by one (a flapping breaker).
// The others are local, unmerged, contended, nodes, and full, where a namespace exceeds its bounds.
package interleave
