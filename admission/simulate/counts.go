package simulate

import "github.com/eventquota/eventquota/admission/busiest"

// EtcdWrites count writes to etcd.
type EtcdWrites struct {
	// Before is how many writes the input is without eventquota.
	Before int64 `json:"before"`
	// After is how many are left: of clients, of the settler's counts, and of
	// notices.
	After   int64 `json:"after"`
	Events  int64 `json:"events"`
	Counts  int64 `json:"counts"`
	Notices int64 `json:"notices"`
}

// PolicyCounts are what one policy did, or would do if it is audited.
type PolicyCounts struct {
	Policy  string `json:"policy"`
	Audited bool   `json:"audited,omitempty"`
	busiest.Counts
	// Buckets count what was dropped by the bucket that had no token.
	Buckets map[string]int64 `json:"buckets,omitempty"`
}

type policyKey struct {
	policy  string
	audited bool
}
