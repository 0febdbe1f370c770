package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// defaultTimeout is the API server's own where a webhook configuration sets none.
const defaultTimeout = 10 * time.Second

// Handler serves one phase over HTTP. Its fields are set before the first call
// and not changed after; it is safe for concurrent use.
type Handler struct {
	Gate  *Gate
	Phase Phase
	// Count is told of every answer.
	Count func(Outcome)
	// MaxBytes is the longest body that is read.
	MaxBytes int64
	// InFlight are the places of reviews. Shared by the handlers of a server.
	InFlight *Places
}

var _ http.Handler = (*Handler)(nil)

// ServeHTTP answers one review. A body that is no review gets a 4xx, and a long one
// that finds no place a 503, which the API server treats by its failurePolicy; all
// else gets a review.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	timeout, err := timeoutOf(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// A little is left for the way back.
	ctx, cancel := context.WithTimeout(req.Context(), timeout-timeout/10)
	defer cancel()
	deadline, _ := ctx.Deadline()
	// Not every ResponseWriter has deadlines; those of net/http's servers do.
	_ = http.NewResponseController(w).SetReadDeadline(deadline)
	_ = http.NewResponseController(w).SetWriteDeadline(deadline.Add(timeout / 10))

	// A wait for a place leaves time to decide.
	places := h.InFlight.need(req, h.MaxBytes)
	placed := h.InFlight.enter(ctx, places, timeout/2)
	switch {
	case placed:
		defer h.InFlight.leave(places)
	case places > 1: // many of these at a time would fill the memory
		http.Error(w, errCrowded.Error(), http.StatusServiceUnavailable)
		return
	}
	body, status, err := h.read(w, req)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	r, err := decode(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	phase := h.Phase
	if !placed {
		phase = crowded
	}
	answer := h.Gate.Decide(ctx, phase, r)
	h.Count(answer.Outcome)
	respond(w, &answer.Response)
}

var errCrowded = errors.New("too many reviews in flight")

// crowded is the phase of a review that found no place.
func crowded(context.Context, *Request) (Answer, error) { return Answer{}, errCrowded }

// read returns the body, or the status that says why not.
func (h *Handler) read(w http.ResponseWriter, req *http.Request) ([]byte, int, error) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, fmt.Errorf("method %s: must be POST", req.Method)
	}
	media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return nil, http.StatusUnsupportedMediaType,
			fmt.Errorf("Content-Type %q: must be application/json", req.Header.Get("Content-Type"))
	}
	var body bytes.Buffer
	// No more is taken on the word of a header.
	body.Grow(int(min(max(req.ContentLength, 0)+bytes.MinRead, placeBytes)))
	_, err = body.ReadFrom(http.MaxBytesReader(w, req.Body, h.MaxBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("body: must have at most %d bytes", tooLarge.Limit)
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("read body: %w", err)
	}
	return body.Bytes(), http.StatusOK, nil
}

// timeoutOf is the time that the API server gives the call, from its query.
func timeoutOf(req *http.Request) (time.Duration, error) {
	given := req.URL.Query().Get("timeout")
	if given == "" {
		return defaultTimeout, nil
	}
	timeout, err := time.ParseDuration(given)
	if err != nil || timeout <= 0 {
		return 0, fmt.Errorf("query parameter timeout %q: must be a duration of more than 0, such as 2s", given)
	}
	return timeout, nil
}

// respond writes a review that carries response.
func respond(w http.ResponseWriter, response *admissionv1.AdmissionResponse) {
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: admissionv1.SchemeGroupVersion.String()},
		Response: response,
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// Nobody is left to tell when the client has gone.
	_, _ = w.Write(body)
}
