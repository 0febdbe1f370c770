package policy

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Identity identifies a rule. The zero value is that of the built-in default.
type Identity struct {
	// Kind is one of v1alpha1.
	Kind string
	// Namespace is empty for a rule of the cluster.
	Namespace string
	Name      string
	// UID distinguishes the rule from others that had its name.
	UID types.UID
	// Generation is the version of the rule's spec.
	Generation int64
}

// String is the name of the rule in answers and metrics.
func (i Identity) String() string {
	switch {
	case i.Kind == "":
		return DefaultName
	case i.Namespace == "":
		return i.Kind + " " + i.Name
	}
	return i.Kind + " " + i.Namespace + "/" + i.Name
}

// bucketID names the buckets of a rule. The name has the kind, namespace and name of the rule, so that no two
// share a bucket and none is filled by deleting a rule and writing it again; and it has the limits, so that a
// bucket goes on through every change but one of them, after which its level would mean something else.
func (r *Rule) bucketID(limit string, b *Bucket) string {
	i := r.Identity
	per := slices.Sorted(slices.Values(b.Per)) // their order does not matter
	// No kind, namespace, name or limit has a slash in it.
	return fmt.Sprintf("%s/%s/%s/%s/%d/%d/%s/%v", i.Kind, i.Namespace, i.Name, limit, b.Burst, b.Tokens, b.Interval, per)
}
