package policy

import "k8s.io/apimachinery/pkg/labels"

// Match says which Events a policy governs and when it is asked.
type Match struct {
	// Tier is when the policy is asked: one of a namespace has none.
	Tier Tier
	// Priority orders the policies of one tier or namespace: higher goes
	// first, and of equal ones the lower name.
	Priority int32
	// Namespaces selects the namespaces of a cluster policy by their labels.
	// Nil selects all.
	Namespaces labels.Selector
	// Conditions must all hold.
	Conditions []Condition
}

// Tier is when a cluster policy is asked.
type Tier string

// The tiers: before and after the policies of the namespace.
const (
	TierAdmin    Tier = "Admin"
	TierBaseline Tier = "Baseline"
)

// Action is what becomes of the Events that a policy governs.
type Action string

// The actions. Under Limit repeated and similar Events are merged, and the
// rest must get a token from every bucket; under Admit it must get one from
// every quota that applies; Drop refuses it.
const (
	Limit Action = "Limit"
	Admit Action = "Admit"
	Drop  Action = "Drop"
)

// Mode is whether a policy is in force.
type Mode string

// The modes. A policy in mode Audit decides and counts, but does not govern:
// the next one that enforces does. A policy that is Off is as if it were not
// there.
const (
	Enforce Mode = "Enforce"
	Audit   Mode = "Audit"
	Off     Mode = "Off"
)
