package metrics

import (
	"strings"
	"sync"
)

// other is the label value of all that has none of its own.
const other = "other"

// bounded gives label values: the first ones of each scope, as they come, are
// their own, and all others of that scope are other. So nobody can make more
// series than the bound, and nobody in one scope takes the places of another.
// None is forgotten: a counter that ended would begin again at 0. It is safe for
// concurrent use and allocates only for a value that is new.
type bounded struct {
	most  int        // in each scope
	mu    sync.Mutex // held for tens of nanoseconds
	known map[scoped]string
	taken map[string]int // by scope
}

type scoped struct{ scope, value string }

// newBounded makes a bounded. Its callers see to it that scopes are few.
func newBounded(most int) *bounded {
	return &bounded{most: most, known: map[scoped]string{}, taken: map[string]int{}}
}

// label is the label value of value. It keeps neither string.
func (b *bounded) label(scope, value string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if label, ok := b.known[scoped{scope, value}]; ok {
		return label
	}
	if b.taken[scope] >= b.most {
		return other
	}
	key := scoped{strings.Clone(scope), strings.Clone(value)}
	b.known[key] = key.value
	b.taken[key.scope]++
	return key.value
}
