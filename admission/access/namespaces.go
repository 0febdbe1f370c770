package access

import (
	"net/http"
	"strings"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
)

const (
	// Audience is what tokens of tenants are for. The API server takes none of them, so one that leaks on its way opens
	// nothing but what a NamespaceGuard guards.
	Audience = "eventquota.io"
	// Header has the token: API servers that pass a request on to a service remove its Authorization.
	Header = "Eventquota-Token"
	// requestsPerSecond and requestBurst bound the requests about one namespace, a second and in a burst, and maxLimitedNamespaces those
	// that are counted.
	requestsPerSecond, requestBurst, maxLimitedNamespaces = 2, 10, 1024
)

// NamespaceGuard lets those in who may get the EventQuotas of the namespace that they ask about. It shares nothing with a
// Guard: whatever tenants send, scrapers get their metrics. It may be used concurrently.
type NamespaceGuard struct {
	guard    *Guard
	limiters *cache.LRUExpireCache // by namespace, *rate.Limiter
}

// NewNamespaceGuard makes a NamespaceGuard that asks an API server. The client needs no rate.
func NewNamespaceGuard(client kubernetes.Interface) *NamespaceGuard {
	return newNamespaceGuard(New(client))
}

func newNamespaceGuard(g *Guard) *NamespaceGuard {
	return &NamespaceGuard{guard: g, limiters: cache.NewLRUExpireCache(maxLimitedNamespaces)}
}

// Protect serves next, whose path has a {namespace}, to users with a token for Audience in Header. A token
// for the API server gets 401, so that nobody gets used to sending one. It answers as a Guard does, and 404 for what cannot
// be a namespace; 429 to more requests than a few a second about one namespace.
func (n *NamespaceGuard) Protect(next http.Handler) http.Handler {
	slowed := n.limitRate(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		namespace := r.PathValue("namespace")
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			http.NotFound(w, r)
			return
		}
		var token string
		if sent := r.Header.Values(Header); len(sent) == 1 && r.Header.Get("Authorization") == "" {
			token = sent[0]
		}
		n.guard.serveIfAllowed(w, r, accessQuery{token: token, verb: strings.ToLower(r.Method), namespace: namespace}, slowed)
	})
}

// limitRate bounds the requests about one namespace.
func (n *NamespaceGuard) limitRate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		namespace := r.PathValue("namespace")
		limiter, known := n.limiters.Get(namespace)
		if !known {
			limiter = rate.NewLimiter(requestsPerSecond, requestBurst)
			n.limiters.Add(namespace, limiter, knownTTL)
		}
		if !limiter.(*rate.Limiter).Allow() { //nolint:errcheck // it holds nothing else
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}
