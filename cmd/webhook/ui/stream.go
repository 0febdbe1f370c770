package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/eventquota/eventquota/cmd/webhook/live"
)

// latestView is the newest View, for several who follow it.
type latestView struct {
	mu      sync.Mutex
	view    *live.View    // nil before the first one
	changed chan struct{} // closed at the next one
}

func newLatestView() *latestView { return &latestView{changed: make(chan struct{})} }

// set replaces the View, which nobody may change.
func (n *latestView) set(v *live.View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.view = v
	close(n.changed)
	n.changed = make(chan struct{})
}

// get returns the View, nil before the first one, and what is closed when there is a newer one.
func (n *latestView) get() (v *live.View, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.view, n.changed
}

// messageTimeout bounds how long a browser may take for one message. One that is slow misses those in between.
const messageTimeout = 10 * time.Second

// live streams what a selection shows of each View as server-sent events. The last one, named end, says that there are
// no more.
func (p *page) live(w http.ResponseWriter, r *http.Request) {
	s, err := parseSelection(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	to := http.NewResponseController(w)
	send := func(event string, data []byte) error {
		if err := to.SetWriteDeadline(time.Now().Add(messageTimeout)); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data); err != nil {
			return err
		}
		return to.Flush()
	}
	if err := to.Flush(); err != nil {
		return
	}
	for {
		v, changed := p.latest.get()
		if v != nil {
			data, err := json.Marshal(s.messageFor(v))
			if err != nil || send("view", data) != nil { // it fails if the browser has left
				return
			}
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			_ = send("end", []byte("{}"))
			return
		}
	}
}
