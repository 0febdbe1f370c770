// Package access lets in whom the API server lets do something with a path: who reads metrics.
package access

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"
)

// What those who may not read metrics can cost, whoever reaches the port.
const (
	// guardPlaces bounds the requests that the API server is asked about at a time,
	// and guardWithin each of them: as long as Prometheus waits by default.
	guardPlaces = 16
	guardWithin = 10 * time.Second
	// guardAnswers bounds the answers that are kept. Those of a minute at
	// guardReviews a second fit in, so none is pushed out before its time.
	guardAnswers = 1024
	guardReviews = 10
	// keepAllowed is how long somebody gets in whose token or right is gone, and
	// keepRefused how long somebody does not who has got one.
	keepAllowed = time.Minute
	keepRefused = 10 * time.Second
)

// reviewer tells whether a token may do something with a path: 200, 401 when it is
// nobody's, or 403. An error is that nothing could be found out.
type reviewer interface {
	review(ctx context.Context, token, verb, path string) (status int, err error)
}

// Guard lets in whom a reviewer lets in. It may be used concurrently.
type Guard struct {
	reviewer   reviewer
	answers    *cache.LRUExpireCache // by key, statuses
	places     chan struct{}
	complaints rate.Sometimes
}

// New makes a Guard that asks an API server.
func New(config *rest.Config) (*Guard, error) {
	r, err := newAPIReviewer(config)
	if err != nil {
		return nil, err
	}
	return newGuard(r), nil
}

func newGuard(r reviewer) *Guard {
	return &Guard{
		reviewer:   r,
		answers:    cache.NewLRUExpireCache(guardAnswers),
		places:     make(chan struct{}, guardPlaces),
		complaints: rate.Sometimes{Interval: 10 * time.Second},
	}
}

// Before serves next to those who may have it: 401 to who shows no token that the
// API server knows, 403 to anyone without a right to the path, 503 when it is not known in
// time. An answer that is kept is given without a wait.
func (g *Guard) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := g.status(r)
		if status == http.StatusOK {
			next.ServeHTTP(w, r)
			return
		}
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, http.StatusText(status), status)
	})
}

func (g *Guard) status(r *http.Request) int {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized
	}
	verb := strings.ToLower(r.Method)
	key := answerKey(token, verb, r.URL.Path)
	if status, ok := g.answers.Get(key); ok {
		return status.(int) //nolint:errcheck // it holds nothing else
	}
	select {
	case g.places <- struct{}{}:
	default:
		return http.StatusServiceUnavailable
	}
	defer func() { <-g.places }()
	ctx, cancel := context.WithTimeout(r.Context(), guardWithin)
	defer cancel()
	status, err := g.reviewer.review(ctx, token, verb, r.URL.Path)
	if err != nil {
		g.complaints.Do(func() {
			logr.FromContextOrDiscard(ctx).Error(err, "Not known who may read metrics, so nobody new may")
		})
		return http.StatusServiceUnavailable
	}
	keep := keepRefused
	if status == http.StatusOK {
		keep = keepAllowed
	}
	g.answers.Add(key, status, keep)
	return status
}

// answerKey is of one size whatever was sent, and gives no token away.
func answerKey(parts ...string) [sha256.Size]byte {
	var all []byte
	for _, part := range parts {
		all = binary.AppendUvarint(all, uint64(len(part)))
		all = append(all, part...)
	}
	return sha256.Sum256(all)
}
