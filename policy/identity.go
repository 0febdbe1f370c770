package policy

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Identity distinguishes a policy from every other one. The zero value is that of the
// built-in default.
type Identity struct {
	// Kind is EventPolicy or ClusterEventPolicy.
	Kind string
	// Namespace is empty for a ClusterEventPolicy.
	Namespace string
	Name      string
	// UID distinguishes the policy from others that had its name.
	UID types.UID
	// Generation is the version of the policy's spec.
	Generation int64
}

// String is how answers and metrics call the policy.
func (i Identity) String() string {
	switch {
	case i.Kind == "":
		return "default"
	case i.Namespace == "":
		return i.Kind + " " + i.Name
	}
	return i.Kind + " " + i.Namespace + "/" + i.Name
}

// Identified is p with a name for the buckets of its spam filter and of each
// quota. Such a name has the kind, namespace and name of the policy, so that
// no two policies share a bucket and none is filled by deleting a policy and
// writing it again; and it has the limits, so that a bucket goes on through
// every change but one of them, after which its level would mean something
// else. The order of quotas does not matter, but for quotas that are the same.
func (p Policy) Identified() Policy {
	i, s := p.Identity, &p.SpamFilter
	// No kind, namespace or name has a slash or a space in it.
	owner := i.Kind + "/" + i.Namespace + "/" + i.Name
	if i.Kind == "" {
		owner += p.Name
	}
	parts := make([]string, 0, len(s.KeyBy))
	for _, part := range s.KeyBy {
		parts = append(parts, string(part))
	}
	s.ID = fmt.Sprintf("%s spam %s %s", owner, rate(s.Burst, s.Tokens, s.Interval), strings.Join(parts, ","))
	seen := map[string]int{}
	quotas := make([]Quota, 0, len(p.Quotas))
	for _, q := range p.Quotas {
		id := fmt.Sprintf("%s quota %s %s", owner, q.Type, rate(q.Burst, q.Tokens, q.Interval))
		if seen[id]++; seen[id] > 1 {
			q.ID = fmt.Sprintf("%s again %d", id, seen[id])
		} else {
			q.ID = id
		}
		quotas = append(quotas, q)
	}
	if p.Quotas != nil {
		p.Quotas = quotas
	}
	return p
}

func rate(burst, tokens int, interval time.Duration) string {
	return fmt.Sprintf("%d/%d/%s", burst, tokens, interval)
}
