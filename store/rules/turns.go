package rules

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/eventquota/eventquota/store"
)

// DueGroup is a register of which something is due.
type DueGroup struct {
	Group     store.Key
	Namespace string
	Due       int64 // in microseconds of Unix time
}

// Turns gives namespaces their turns, in the order of their names. The zero value begins with the first.
// It is safe for concurrent use.
type Turns struct {
	mu     sync.Mutex
	served string // whose turn was last
}

// Pick picks up to n registers that are not claimed, one of each namespace in turn, the most overdue of
// it first. It reorders due. claimed is called until it has said no for each that is picked.
func (t *Turns) Pick(due []DueGroup, n int, claimed func(namespace string, group store.Key) bool) []DueGroup {
	slices.SortFunc(due, func(a, b DueGroup) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), bytes.Compare(a.Group[:], b.Group[:])) // chance decides nothing
	})
	queues := map[string][]DueGroup{}
	for _, d := range due {
		queues[d.Namespace] = append(queues[d.Namespace], d)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	turns := slices.Sorted(maps.Keys(queues))
	next, found := slices.BinarySearch(turns, t.served)
	if found {
		next++
	}
	turns = append(turns[next:], turns[:next]...)
	var picked []DueGroup
	for len(turns) > 0 && len(picked) < n {
		turns = slices.DeleteFunc(turns, func(namespace string) bool {
			queue := queues[namespace]
			for len(queue) > 0 && len(picked) < n {
				first := queue[0]
				queue = queue[1:]
				if !claimed(namespace, first.Group) {
					picked, t.served = append(picked, first), namespace
					break
				}
			}
			queues[namespace] = queue
			return len(queue) == 0
		})
	}
	return picked
}
