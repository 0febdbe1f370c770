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
	// maxConcurrentReviews bounds the requests of a lane that the API server is asked about at the same time, and
	// reviewTimeout each of them: as long as Prometheus waits by default.
	maxConcurrentReviews = 16
	reviewTimeout        = 10 * time.Second
	// maxCachedAnswers bounds the answers that are kept. Those of a minute at reviewsPerSecond a second in each lane fit in,
	// so none is pushed out early.
	maxCachedAnswers = 2048
	reviewsPerSecond = 10
	// knownTTL is how long a token and its address have the lane of known ones after they were allowed.
	knownTTL = time.Hour
	// allowedTTL is how long a revoked token or right still works, and refusedTTL how long a new one
	// does not work yet.
	allowedTTL = time.Minute
	refusedTTL = 10 * time.Second
)

// accessQuery is whether the user of a token may use a verb on a path or, unless that is empty, whether a token for Audience
// may get the quotas of a namespace.
type accessQuery struct{ token, verb, path, namespace string }

// reviewFunc says what the user may: 200, 401 for an unknown token, or 403. An error means that it is not known.
type reviewFunc func(ctx context.Context, q accessQuery) (status int, err error)

// Guard lets users in by what the API server says of them. It may be used concurrently.
type Guard struct {
	review  reviewFunc
	answers *cache.LRUExpireCache // by key, statuses
	// known has the keys of requests that were allowed, and of the addresses that sent them. A flood of unknown
	// tokens fills the lane of strangers only. Tokens are replaced every hour: a new one is known by its address.
	known                        *cache.LRUExpireCache
	unknownLimiter, knownLimiter reviewLimiter
	logLimiter                   rate.Sometimes
}

// reviewLimiter bounds the reviews of some requests, whatever others send.
type reviewLimiter struct {
	slots chan struct{}
	rate  *rate.Limiter
}

func newReviewLimiter() reviewLimiter {
	return reviewLimiter{make(chan struct{}, maxConcurrentReviews), rate.NewLimiter(reviewsPerSecond, 2*reviewsPerSecond)}
}

// New makes a Guard that asks an API server. The client needs no rate: lanes have one.
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

// Protect serves next to users with a right to the path. It answers 401 without a token that the API server knows, 403
// without the right, and 503 if neither is known in time. An answer that is kept costs no call.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			token = ""
		}
		g.serveIfAllowed(w, r, accessQuery{token: strings.TrimSpace(token), verb: strings.ToLower(r.Method), path: r.URL.Path}, next)
	})
}

// serveIfAllowed serves next if the answer to a question is yes.
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
		return status.(int) //nolint:errcheck // it holds nothing else
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	address := answerKey(host)
	in := g.limiter(key, address)
	select {
	case in.slots <- struct{}{}:
	default:
		return http.StatusServiceUnavailable
	}
	defer func() { <-in.slots }()
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	var status int
	err := in.rate.Wait(ctx)
	if err == nil {
		status, err = g.review(ctx, q)
	}
	if err != nil {
		g.logLimiter.Do(func() {
			logr.FromContextOrDiscard(ctx).Error(err, "Cannot check who may read metrics, only those who were just allowed may")
		})
		return http.StatusServiceUnavailable
	}
	keep := refusedTTL
	if status == http.StatusOK {
		keep = allowedTTL
		g.known.Add(key, nil, knownTTL)
		g.known.Add(address, nil, knownTTL)
	}
	g.answers.Add(key, status, keep)
	return status
}

// limiter is where a request waits for its review.
func (g *Guard) limiter(key, address [sha256.Size]byte) reviewLimiter {
	_, token := g.known.Get(key)
	if _, ok := g.known.Get(address); ok || token {
		return g.knownLimiter
	}
	return g.unknownLimiter
}

// answerKey is of one size whatever was sent, and gives no token away. Quotes keep the parts apart.
func answerKey(parts ...string) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q", parts))
}

// reviewAccess asks the API server whose a token is, and what that user may do, with two calls for a known token. For a path, only
// tokens for the API server itself are known, such as those of service accounts.
func reviewAccess(ctx context.Context, client kubernetes.Interface, q accessQuery) (int, error) {
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
