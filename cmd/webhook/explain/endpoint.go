package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

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
// and only Events about its objects are accepted. It changes nothing. It answers one question at a time: decoding it and evaluating
// conditions takes memory and CPU time that decisions need too. A namespace has at most one question that waits or is answered, so that
// those of others are next. An answer takes at most timeout, with the wait for others.
func Handler(r Replica, timeout time.Duration) http.Handler {
	turn, asking := make(chan struct{}, 1), &sync.Map{}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		content, status, err := readQuestion(w, request)
		if err == nil {
			content, status, err = r.inTurn(request, turn, asking, timeout, content)
		}
		if err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(content) // it fails if the client has disconnected
	})
}

// inTurn waits for the turn, and returns the JSON of the answer to a question. With an error, it returns the HTTP status. The turn ends
// before the answer is sent, which takes as long as its client likes. The keys of asking are the namespaces with a question.
func (r *Replica) inTurn(request *http.Request, turn chan struct{}, asking *sync.Map, timeout time.Duration, content []byte) ([]byte, int, error) {
	only := request.PathValue("namespace")
	if only != "" {
		if _, asks := asking.LoadOrStore(only, nil); asks {
			return nil, http.StatusServiceUnavailable, errors.New("the replica is busy with another question about this namespace: try again")
		}
		defer asking.Delete(only)
	}
	ctx, cancel := context.WithTimeout(request.Context(), timeout)
	defer cancel()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, http.StatusServiceUnavailable, errors.New("the replica is busy with other questions: try again")
	}
	q, err := decodeQuestion(content, only)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	a, err := r.answer(ctx, q, only)
	if err != nil && only != "" {
		err = errors.New("the replica cannot answer now: try again") // the error may name a server or a policy
	}
	if err != nil {
		return nil, http.StatusServiceUnavailable, err
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false) // escaped, < and > take six times as much memory
	err = encoder.Encode(a)
	return encoded.Bytes(), http.StatusInternalServerError, err
}

// readQuestion reads the body of a question. With an error, it returns the HTTP status. The server does not wait for the rest of the body
// then. So it must end the connection, on which the read deadline would end the context of all later requests.
func readQuestion(w http.ResponseWriter, request *http.Request) (content []byte, status int, err error) {
	defer func() {
		if err != nil {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
			w.Header().Set("Connection", "close")
		}
	}()
	if request.URL.RawQuery != "" {
		return nil, http.StatusBadRequest, errors.New("explain: takes no query parameters")
	}
	content, err = io.ReadAll(http.MaxBytesReader(w, request.Body, maxQuestionBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the body must have at most %d bytes", maxQuestionBytes)
	}
	if err != nil {
		return nil, http.StatusBadRequest, errors.New("the body did not arrive completely")
	}
	return content, 0, nil
}
