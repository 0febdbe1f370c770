package admission

import (
	"net/http"

	"golang.org/x/sync/semaphore"
)

// placeBytes is how much of a review's body one place is for. Nearly all reviews
// are shorter.
const placeBytes = 64 << 10

// Places bound the reviews that are decided at the same time, and their memory: a
// long review takes several. It is safe for concurrent use.
type Places struct {
	free *semaphore.Weighted
	all  int64
}

// NewPlaces makes n places, 1 or more.
func NewPlaces(n int) *Places {
	return &Places{free: semaphore.NewWeighted(int64(n)), all: int64(n)}
}

// need is how many places a review takes: one for each placeBytes of its body, all
// at most. A length that is not known is the longest.
func (p *Places) need(req *http.Request, maxBytes int64) int64 {
	length := req.ContentLength
	if length < 0 {
		length = maxBytes
	}
	return min(1+min(length, maxBytes)/placeBytes, p.all)
}

// enter takes n places, if they are free.
func (p *Places) enter(n int64) bool { return p.free.TryAcquire(n) }

func (p *Places) leave(n int64) { p.free.Release(n) }
