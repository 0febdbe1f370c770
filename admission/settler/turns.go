package settler

import (
	"k8s.io/client-go/util/workqueue"

	"github.com/eventquota/eventquota/store"
)

// item is a group in line.
type item struct {
	namespace string
	group     store.Key
}

// turns is a queue in which namespaces take turns, whatever the number of their groups, so that
// none waits for another's storm. The workqueue around it has the lock.
type turns struct {
	order  []string // namespaces that have groups in line, the next one first
	groups map[string][]item
	n      int
}

var _ workqueue.Queue[item] = (*turns)(nil)

// Touch implements workqueue.Queue.
func (*turns) Touch(item) {}

// Push implements workqueue.Queue.
func (t *turns) Push(i item) {
	if t.groups == nil {
		t.groups = map[string][]item{}
	}
	if len(t.groups[i.namespace]) == 0 {
		t.order = append(t.order, i.namespace)
	}
	t.groups[i.namespace] = append(t.groups[i.namespace], i)
	t.n++
}

// Len implements workqueue.Queue.
func (t *turns) Len() int { return t.n }

// Pop implements workqueue.Queue.
func (t *turns) Pop() item {
	namespace := t.order[0]
	t.order = t.order[1:]
	line := t.groups[namespace]
	if len(line) > 1 {
		t.groups[namespace] = line[1:]
		t.order = append(t.order, namespace)
	} else {
		delete(t.groups, namespace)
	}
	t.n--
	return line[0]
}
