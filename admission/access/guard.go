// Package access serves metrics, and what is known of a namespace, only to users whom the API server allows to read them.
package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Bounds of what anyone who reaches the port can cost.
const (
	// guardPlaces bounds the requests of a lane that the API server is asked about at the same time, and
	// guardWithin each of them: as long as Prometheus waits by default.
	guardPlaces = 16
	guardWithin = 10 * time.Second
	// guardAnswers bounds the answers that are kept. Those of a minute at guardReviews a second in each lane fit in,
	// so none is pushed out early.
	guardAnswers = 2048
	guardReviews = 10
	// keepKnown is how long a token and its address have the lane of known ones after they were allowed.
	keepKnown = time.Hour
	// keepAllowed is how long a revoked token or right still works, and keepRefused how long a new one
	// does not work yet.
	keepAllowed = time.Minute
	keepRefused = 10 * time.Second
)

// question is whether the user of a token may use a verb on a path or, unless that is empty, whether a token for Audience
// may get the quotas of a namespace.
type question struct{ token, verb, path, namespace string }

// review says what the user may: 200, 401 for an unknown token, or 403. An error means that it is not known.
type review func(ctx context.Context, q question) (status int, err error)

// Guard lets users in by what the API server says of them. It may be used concurrently.
type Guard struct {
	review  review
	answers *cache.LRUExpireCache // by key, statuses
	// known has the keys of requests that were allowed, and of the addresses that sent them. A flood of unknown
	// tokens fills the lane of strangers only. Tokens are replaced every hour: a new one is known by its address.
	known              *cache.LRUExpireCache
	strangers, allowed lane
	complaints         rate.Sometimes
}

// lane bounds the reviews of some requests, whatever others send.
type lane struct {
	places  chan struct{}
	reviews *rate.Limiter
}

func newLane() lane {
	return lane{make(chan struct{}, guardPlaces), rate.NewLimiter(guardReviews, 2*guardReviews)}
}

// New makes a Guard that asks an API server. The client needs no rate: lanes have one.
func New(client kubernetes.Interface) *Guard {
	return newGuard(func(ctx context.Context, q question) (int, error) { return ask(ctx, client, q) })
}

func newGuard(r review) *Guard {
	return &Guard{
		review:     r,
		answers:    cache.NewLRUExpireCache(guardAnswers),
		known:      cache.NewLRUExpireCache(guardAnswers),
		strangers:  newLane(),
		allowed:    newLane(),
		complaints: rate.Sometimes{Interval: 10 * time.Second},
	}
}

// Before serves next to users with a right to the path. It answers 401 without a token that the API server knows, 403
// without the right, and 503 if neither is known in time. An answer that is kept costs no call.
func (g *Guard) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			token = ""
		}
		g.serve(w, r, question{token: strings.TrimSpace(token), verb: strings.ToLower(r.Method), path: r.URL.Path}, next)
	})
}

// serve serves next if the answer to a question is yes.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request, q question, next http.Handler) {
	status := g.status(r, q)
	if status == http.StatusOK {
		next.ServeHTTP(w, r)
		return
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, http.StatusText(status), status)
}

func (g *Guard) status(r *http.Request, q question) int {
	if q.token == "" {
		return http.StatusUnauthorized
	}
	key := answerKey(q.token, q.verb, q.path, q.namespace)
	if status, ok := g.answers.Get(key); ok {
		return status.(int) //nolint:errcheck // it holds nothing else
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	address := answerKey(host)
	in := g.lane(key, address)
	select {
	case in.places <- struct{}{}:
	default:
		return http.StatusServiceUnavailable
	}
	defer func() { <-in.places }()
	ctx, cancel := context.WithTimeout(r.Context(), guardWithin)
	defer cancel()
	var status int
	err := in.reviews.Wait(ctx)
	if err == nil {
		status, err = g.review(ctx, q)
	}
	if err != nil {
		g.complaints.Do(func() {
			logr.FromContextOrDiscard(ctx).Error(err, "Cannot check who may read metrics, only those who were just allowed may")
		})
		return http.StatusServiceUnavailable
	}
	keep := keepRefused
	if status == http.StatusOK {
		keep = keepAllowed
		g.known.Add(key, nil, keepKnown)
		g.known.Add(address, nil, keepKnown)
	}
	g.answers.Add(key, status, keep)
	return status
}

// lane is where a request waits for its review.
func (g *Guard) lane(key, address [sha256.Size]byte) lane {
	_, token := g.known.Get(key)
	if _, ok := g.known.Get(address); ok || token {
		return g.allowed
	}
	return g.strangers
}

// answerKey is of one size whatever was sent, and gives no token away. Quotes keep the parts apart.
func answerKey(parts ...string) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q", parts))
}

// ask asks the API server whose a token is, and what that user may do, with two calls for a known token. For a path, only
// tokens for the API server itself are known, such as those of service accounts.
func ask(ctx context.Context, client kubernetes.Interface, q question) (int, error) {
	token := authenticationv1.TokenReviewSpec{Token: q.token}
	if q.namespace != "" {
		token.Audiences = []string{Audience}
	}
	who, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: token}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review a token: %w", err)
	}
	// An authenticator that knows no audiences returns none.
	if !who.Status.Authenticated || q.namespace != "" && !slices.Contains(who.Status.Audiences, Audience) {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	access := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: make(map[string]authorizationv1.ExtraValue, len(user.Extra)),
	}
	for name, values := range user.Extra {
		access.Extra[name] = authorizationv1.ExtraValue(values)
	}
	if q.namespace == "" {
		access.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: q.verb, Path: q.path}
	} else {
		access.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: q.namespace, Verb: q.verb, Group: v1alpha1.GroupName, Version: v1alpha1.Version, Resource: "eventquotas",
		}
	}
	may, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: access}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review the access of %s: %w", user.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
