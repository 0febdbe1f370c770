package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/eventquota/eventquota/cmd/webhook/live"
)

// latestView holds the latest View for several streams. It is safe for concurrent use.
type latestView struct {
	mu      sync.Mutex
	view    *live.View    // nil before the first one
	changed chan struct{} // closed when there is a newer one
}

func newLatestView() *latestView { return &latestView{changed: make(chan struct{})} }

// set replaces the View, which must not change afterwards.
func (l *latestView) set(v *live.View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view = v
	close(l.changed)
	l.changed = make(chan struct{})
}

// get returns the View, nil before the first one, and a channel that is closed when there is a newer one.
func (l *latestView) get() (v *live.View, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view, l.changed
}

// messageTimeout bounds how long sending one message may take. A slow browser misses the Views in between.
const messageTimeout = 10 * time.Second

// live streams the message for each View as server-sent events. The last event, named end, says that there are no more.
func (p *page) live(w http.ResponseWriter, r *http.Request) {
	s, err := parseSelection(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	response := http.NewResponseController(w)
	send := func(event string, data []byte) error {
		if err := response.SetWriteDeadline(time.Now().Add(messageTimeout)); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data); err != nil {
			return err
		}
		return response.Flush()
	}
	if err := response.Flush(); err != nil {
		return
	}
	for {
		v, changed := p.latest.get()
		if v != nil {
			data, err := json.Marshal(s.messageFor(v))
			if err != nil || send("view", data) != nil { // it fails if the browser has disconnected
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
