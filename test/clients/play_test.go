package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// sleeps counts the times that a play would have waited before it sends a request again. It does not wait.
type sleeps struct{ n atomic.Int64 }

// play sends the requests of a client that is not written in Go.
type play struct {
	*session
	http *http.Client
	// at is the time of the newest publication. Each is a second after the one before, as core/v1 has whole seconds.
	at time.Time
}

// object is a JSON object.
type object = map[string]any

// status is the answer to a request of a play.
type status struct {
	code   int
	reason metav1.StatusReason
	body   object
}

func newPlay(s *session) (*play, error) {
	c, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return nil, err
	}
	return &play{session: s, http: c, at: time.Now().Add(-10 * time.Minute)}, nil
}

// tick returns the time of the next publication.
func (p *play) tick() time.Time {
	p.at = p.at.Add(time.Second)
	return p.at.UTC()
}

// micro formats a time with six digits.
func micro(t time.Time) string { return t.Format("2006-01-02T15:04:05.000000Z07:00") }

// eventsPath is the path of the Events of a namespace, in an API such as api/v1.
func eventsPath(api, namespace string) string {
	return "/" + api + "/namespaces/" + namespace + "/events"
}

const (
	coreAPI   = "api/v1"
	eventsAPI = "apis/events.k8s.io/v1"
)

// send sends one request.
func (p *play) send(ctx context.Context, method, path string, body object) (s status, err error) {
	content, err := json.Marshal(body)
	if err != nil {
		return s, err
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(p.config.Host, "/")+path, bytes.NewReader(content))
	if err != nil {
		return s, err
	}
	request.Header.Set("Content-Type", map[string]string{http.MethodPatch: "application/merge-patch+json"}[method])
	if method != http.MethodPatch {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := p.http.Do(request)
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	s.code = response.StatusCode
	if err := json.NewDecoder(response.Body).Decode(&s.body); err != nil {
		return s, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if s.failed() {
		reason, _ := s.body["reason"].(string)
		s.reason = metav1.StatusReason(reason)
	}
	return s, nil
}

func (s *status) failed() bool { return s.code >= http.StatusBadRequest }

// sendAgain sends a request up to tries more times while again returns true for the status code. It counts each delay.
func (p *play) sendAgain(ctx context.Context, tries int, again func(code int) bool, method, path string, body object) (s status, err error) {
	for range tries {
		if s, err = p.send(ctx, method, path, body); err != nil || !again(s.code) {
			return s, err
		}
		p.sleeps.n.Add(1)
	}
	return p.send(ctx, method, path, body)
}
