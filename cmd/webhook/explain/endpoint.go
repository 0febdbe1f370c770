package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// bodyTimeout bounds the time in which a question must arrive.
const bodyTimeout = 5 * time.Second

// Peeker is a store whose state can be read.
type Peeker interface {
	// Peek copies the state of groups and of buckets of quotas, and changes nothing.
	Peek(ctx context.Context, groups, buckets []store.Key) (engine.Snapshot, error)
}

// Store is the store in which a replica decides, with its name in metrics.
type Store struct {
	Peeker

	Name string
	// Now is its clock; nil for a store with its own clock.
	Now func() time.Time
}

// BucketStates copies the state of buckets of quotas, and the time by the clock of the store.
func (s Store) BucketStates(ctx context.Context, buckets []store.Key) (engine.Snapshot, error) {
	return s.read(ctx, nil, buckets)
}

// read copies the state of groups and of buckets of quotas, and the time by the clock of the store.
func (s Store) read(ctx context.Context, groups, buckets []store.Key) (engine.Snapshot, error) {
	state, err := s.Peek(ctx, groups, buckets)
	if s.Now != nil {
		state.At = s.Now()
	}
	return state, err
}

// Replica is the part of a replica that answers questions.
type Replica struct {
	Store    Store
	Policies admission.Policies
	// Reports returns the state of the policies and quotas of a namespace, or of the cluster for "".
	Reports func(namespace string) []watch.Report
}

// Handler serves POST requests with a question. If the path has a {namespace}, the answer has only what Events of that namespace did,
// and only Events about its objects are accepted. It changes nothing. It answers one question at a time: evaluating conditions takes
// CPU time that decisions need too. An answer takes at most timeout, with the wait for others.
func Handler(r Replica, timeout time.Duration) http.Handler {
	turn := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		only := request.PathValue("namespace")
		q, status, err := readQuestion(w, request, only)
		if err != nil {
			// The server does not wait for the rest of the body. So it must end the connection, on which the read deadline would end the
			// context of all later requests.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
			w.Header().Set("Connection", "close")
			http.Error(w, err.Error(), status)
			return
		}
		ctx, cancel := context.WithTimeout(request.Context(), timeout)
		defer cancel()
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			http.Error(w, "the replica is busy with other questions: try again", http.StatusServiceUnavailable)
			return
		}
		a, err := r.answer(ctx, q, only)
		if err != nil {
			message := err.Error()
			if only != "" {
				message = "the replica cannot answer now: try again" // an error may name a server or a policy
			}
			http.Error(w, message, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(a) // it fails if the client has disconnected
	})
}

// readQuestion reads and checks a question. With an error, it returns the HTTP status.
func readQuestion(w http.ResponseWriter, request *http.Request, only string) (*question, int, error) {
	if request.URL.RawQuery != "" {
		return nil, http.StatusBadRequest, errors.New("explain: takes no query parameters")
	}
	// Not every ResponseWriter has deadlines; those of net/http's servers do.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	content, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxQuestionBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the body must have at most %d bytes", maxQuestionBytes)
	}
	if err != nil {
		return nil, http.StatusBadRequest, errors.New("the body did not arrive completely")
	}
	q, err := decodeQuestion(content, only)
	return q, http.StatusBadRequest, err
}
