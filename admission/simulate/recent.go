package simulate

import "github.com/eventquota/eventquota/store"

// maxRefused is how many refused Events are remembered at most, and half of it how
// many of those sent last at least. A recorder of client-go remembers 4,096.
const maxRefused = 1 << 15

// recent keeps what was added or looked for not long ago: when now has its share,
// it becomes before, and what was in that is forgotten. The zero value is ready.
type recent struct {
	now, before map[store.Key]kept
}

func (r *recent) add(name store.Key, k kept) {
	if len(r.now) >= maxRefused/2 || r.now == nil {
		r.now, r.before = r.before, r.now
		clear(r.now)
		if r.now == nil {
			r.now = map[store.Key]kept{}
		}
	}
	r.now[name] = k
}

func (r *recent) get(name store.Key) (kept, bool) {
	if k, known := r.now[name]; known {
		return k, true
	}
	k, known := r.before[name]
	if known {
		r.add(name, k)
	}
	return k, known
}

func (r *recent) remove(name store.Key) {
	delete(r.now, name)
	delete(r.before, name)
}
