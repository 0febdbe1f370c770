// Package access serves metrics, and counts of a namespace, only to users whom the API server allows to read them.
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

// Bounds on the cost of requests from any client that reaches the port.
const (
	// maxConcurrentReviews bounds the concurrent access reviews of each limiter. reviewTimeout bounds one review; it is
	// the default scrape timeout of Prometheus.
	maxConcurrentReviews = 16
	reviewTimeout        = 10 * time.Second
	// maxCachedAnswers bounds the cached results. The reviews of a minute, reviewsPerSecond from each of the two limiters,
	// fit into the cache, so none is evicted early.
	maxCachedAnswers = 2048
	reviewsPerSecond = 10
	// knownTTL is the time for which a token and its address use the limiter of known clients after a review allowed them.
	knownTTL = time.Hour
	// allowedTTL is the longest time for which a revoked token or permission still works. refusedTTL is the longest time
	// for which a new one does not work yet.
	allowedTTL = time.Minute
	refusedTTL = 10 * time.Second
)

// accessQuery asks whether a token's user may use verb on path or, if namespace is set, get the EventQuotas of that namespace.
// With a namespace, the token must be for Audience.
type accessQuery struct{ token, verb, path, namespace string }

// reviewFunc returns 200 if q is allowed, 401 if the token is unknown, or 403. An error means that the answer is unknown.
type reviewFunc func(ctx context.Context, q accessQuery) (status int, err error)

// Guard authorizes requests by access reviews of the API server. It is safe for concurrent use.
type Guard struct {
	review  reviewFunc
	answers *cache.LRUExpireCache // HTTP statuses by answerKey
	// known has the keys of allowed requests and of the addresses that sent them. A flood of unknown tokens fills only
	// unknownLimiter. Tokens are replaced every hour: a new one is known by its address.
	known                        *cache.LRUExpireCache
	unknownLimiter, knownLimiter reviewLimiter
	logLimiter                   rate.Sometimes
}

// reviewLimiter bounds the rate and concurrency of access reviews for one class of clients.
type reviewLimiter struct {
	slots chan struct{}
	rate  *rate.Limiter
}

func newReviewLimiter() reviewLimiter {
	return reviewLimiter{make(chan struct{}, maxConcurrentReviews), rate.NewLimiter(reviewsPerSecond, 2*reviewsPerSecond)}
}

// New returns a Guard that uses the access reviews of an API server. The client needs no rate limit, because the Guard has its own.
func New(client kubernetes.Interface) *Guard {
	return newGuard(func(ctx context.Context, q accessQuery) (int, error) { return reviewAccess(ctx, client, q) })
}

func newGuard(r reviewFunc) *Guard {
	return &Guard{
		review:         r,
		answers:        cache.NewLRUExpireCache(maxCachedAnswers),
		known:          cache.NewLRUExpireCache(maxCachedAnswers),
		unknownLimiter: newReviewLimiter(),
		knownLimiter:   newReviewLimiter(),
		logLimiter:     rate.Sometimes{Interval: 10 * time.Second},
	}
}

// Protect serves next to users who may access the path. It answers 401 if the API server does not know the token, 403 if
// access is denied, and 503 if the review fails or takes too long. A cached result needs no call.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			token = ""
		}
		g.serveIfAllowed(w, r, accessQuery{token: strings.TrimSpace(token), verb: strings.ToLower(r.Method), path: r.URL.Path}, next)
	})
}

// serveIfAllowed serves next if q is allowed, and answers with the error status otherwise.
func (g *Guard) serveIfAllowed(w http.ResponseWriter, r *http.Request, q accessQuery, next http.Handler) {
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

func (g *Guard) status(r *http.Request, q accessQuery) int {
	if q.token == "" {
		return http.StatusUnauthorized
	}
	key := answerKey(q.token, q.verb, q.path, q.namespace)
	if status, ok := g.answers.Get(key); ok {
		return status.(int) //nolint:errcheck // all values are int
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	address := answerKey(host)
	limiter := g.limiter(key, address)
	select {
	case limiter.slots <- struct{}{}:
	default:
		return http.StatusServiceUnavailable
	}
	defer func() { <-limiter.slots }()
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	var status int
	err := limiter.rate.Wait(ctx)
	if err == nil {
		status, err = g.review(ctx, q)
	}
	if err != nil {
		g.logLimiter.Do(func() {
			logr.FromContextOrDiscard(ctx).Error(err, "Access review failed, only requests with a cached result are served")
		})
		return http.StatusServiceUnavailable
	}
	ttl := refusedTTL
	if status == http.StatusOK {
		ttl = allowedTTL
		g.known.Add(key, nil, knownTTL)
		g.known.Add(address, nil, knownTTL)
	}
	g.answers.Add(key, status, ttl)
	return status
}

// limiter returns the limiter for a review: knownLimiter if the request or its address was allowed before.
func (g *Guard) limiter(key, address [sha256.Size]byte) reviewLimiter {
	_, knownKey := g.known.Get(key)
	_, knownAddress := g.known.Get(address)
	if knownKey || knownAddress {
		return g.knownLimiter
	}
	return g.unknownLimiter
}

// answerKey returns a key of constant size, from which no token can be read. Quotes separate the parts.
func answerKey(parts ...string) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q", parts))
}

// reviewAccess asks the API server to authenticate the token, and then to authorize its user. A query for a path accepts only
// tokens for the API server itself, such as those of service accounts.
func reviewAccess(ctx context.Context, client kubernetes.Interface, q accessQuery) (int, error) {
	token := authenticationv1.TokenReviewSpec{Token: q.token}
	if q.namespace != "" {
		token.Audiences = []string{Audience}
	}
	review, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: token}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review a token: %w", err)
	}
	// Authenticators that are not aware of audiences return none.
	if !review.Status.Authenticated || q.namespace != "" && !slices.Contains(review.Status.Audiences, Audience) {
		return http.StatusUnauthorized, nil
	}
	user := review.Status.User
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
			Namespace: q.namespace, Verb: "get", Group: v1alpha1.GroupName, Version: v1alpha1.Version, Resource: "eventquotas",
		}
	}
	result, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: access}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review the access of %s: %w", user.Username, err)
	}
	if !result.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
