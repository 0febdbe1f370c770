package policy

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Identity identifies a rule. The zero value identifies the built-in default.
type Identity struct {
	// Kind is a kind of v1alpha1.
	Kind string
	// Namespace is empty for a rule of the cluster.
	Namespace string
	Name      string
	// UID distinguishes the rule from others that had its name.
	UID types.UID
	// Generation is the version of the rule's spec.
	Generation int64
}

// String returns the name of the rule in answers and metrics.
func (i Identity) String() string {
	switch {
	case i.Kind == "":
		return DefaultName
	case i.Namespace == "":
		return i.Kind + " " + i.Name
	}
	return i.Kind + " " + i.Namespace + "/" + i.Name
}

// bucketID identifies the buckets of a limit. It has the kind, namespace and name of the rule, so that no two rules
// share a bucket, and deleting and recreating a rule does not refill it. It also has the settings of the bucket. Other
// changes of the rule keep the bucket, but after a change of these its state would have another meaning.
func (r *Rule) bucketID(limit string, b *Bucket) string {
	i := r.Identity
	per := slices.Sorted(slices.Values(b.Per)) // their order does not matter
	// No kind, namespace, name or limit contains a slash.
	return fmt.Sprintf("%s/%s/%s/%s/%d/%d/%s/%v", i.Kind, i.Namespace, i.Name, limit, b.Burst, b.Tokens, b.Interval, per)
}
