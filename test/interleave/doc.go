// Package interleave runs replicas of the webhook, settlers, recorders and an API server against a Redis in process, one
// command at a time, and checks what must hold whatever interleaves.
//
// All of it lives in a bubble of testing/synctest, on virtual time. The stores, the fallback, the settler, admission's keys
// and the script of Redis are the real ones; Redis is package luaredis, and the API server keeps Events in a map. Each command
// of Redis, each request of a settler and each call of its store waits twice: until it is carried out, and until its answer is
// delivered. Once nobody can go on, a seed chooses what happens next: one of these, a client's next write, a change of leader,
// time that passes, or a fault that the Mix allows. At the end all faults cease, everybody finishes, the replicas stop and all
// is settled; then counts, tokens and the index of what is due must be right.
//
// The same seed gives the same schedule, as a test holds: no two timers are due at the same time, what waits is looked at in
// the order of its names, goroutines share one processor, and crypto/rand reads the seed. So a schedule is a list of sentences,
// which a failure prints, shrunk by leaving out steps as long as the same thing breaks.
//
//	go test ./test/interleave -seeds 100000 -mix claims -seed 1 -tries 0
//
// The package knows of a store only redisclient.Caller, its methods and its Options, not what it sends.
//
// # What must hold
//
// As many occurrences are told as were asked about: no more, and no fewer but for what docs say may be lost (I1). A settler
// lowers no count. Of quotas and spam filters, as many tokens are gone as were paid (I3, I9, I15); with faults at most as many. A quota
// refuses nothing while it has tokens. All that is pending is in the index, and nothing else is. A register that cannot be read takes Redis from
// no other (I10). While one slot moves, a breaker opens once. No call outlives its context, nothing runs on when all have ended.
//
// Twice may be told what a replica could not ask Redis about until it was stopped, or for ten minutes; and, where Redis has lost what it
// said, what was decided by an attempt whose answer was lost. Skipped counts of a recorder may be missing where a quota may have
// refused them.
//
// # What it found
//
// In the protocol that took the tokens of quotas one by one and spread registers over 128 shards, each of these was red first. Seeds
// counted from 1, of the mixes as they were then.
//
//	finding   mix         what broke                                       first seed  steps, shrunk
//	E1        claims      something pending is not in the index, lost       1247        30
//	N5, N16   quotas      a quota refuses though it has tokens              1           35
//	E2        junk        one register takes Redis from others              2           52
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
// In the store of one slot and one script:
//
//	mix         what broke                                                       first seed  steps, shrunk
//	slots       two replicas report a refusal and an admission under one         19          5
//	            name in another order: counted twice
//	admit       tokens that were given already did not count in the same         8           -
//	            attempt, which was repeated for ever
//	stops-lost  the breaker of a replica that stops kept its last reports         2           39
//	            from Redis: counted twice
//	counting    three replicas refuse one name, and the middle count is          3           16
//	            reported last: lost
//
// The same mixes guard all of it now. Those for what was not seen before are doubt (E14: an answer is lost, and what it was about
// is settled and expires in the outage), leaders (E15: two settlers and a lost register), created (E16: one replica admits a
// CREATE and another its UPDATE), slots with its moves key by key (flapping), local, unmerged, contended and nodes; and places,
// where a namespace has more registers and buckets than it may.
package interleave
