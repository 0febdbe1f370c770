package access

import (
	"net/http"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
)

const (
	// Audience is the audience of tenants' tokens. The API server accepts none of them, so a leaked token gives access only
	// to what a NamespaceGuard protects.
	Audience = "eventquota.io"
	// Header is the header of the token: an API server that proxies a request to a service removes its Authorization header.
	Header = "Eventquota-Token"
	// requestsPerSecond and requestBurst limit the requests about one namespace. maxLimitedNamespaces bounds the namespaces
	// whose limiters are kept.
	requestsPerSecond, requestBurst, maxLimitedNamespaces = 2, 10, 1024
)

// NamespaceGuard serves users who may get the EventQuotas of the namespace in the path, whatever the method of their request: it
// protects handlers that only read. It shares no cache or limiter with other Guards, so requests of tenants cannot keep scrapers
// from metrics. It is safe for concurrent use.
type NamespaceGuard struct {
	guard    *Guard
	limiters *cache.LRUExpireCache // by namespace, *rate.Limiter
}

// NewNamespaceGuard returns a NamespaceGuard that uses the access reviews of an API server. The client needs no rate limit.
func NewNamespaceGuard(client kubernetes.Interface) *NamespaceGuard {
	return newNamespaceGuard(New(client))
}

func newNamespaceGuard(g *Guard) *NamespaceGuard {
	return &NamespaceGuard{guard: g, limiters: cache.NewLRUExpireCache(maxLimitedNamespaces)}
}

// Protect serves next, whose path must have a {namespace}, to users with a token for Audience in Header. A token for the API
// server gets 401, so that users do not make a habit of sending one. It answers 404 if the name cannot be a namespace's,
// 429 above requestsPerSecond for one namespace, and otherwise as Guard.Protect does.
func (n *NamespaceGuard) Protect(next http.Handler) http.Handler {
	limited := n.limitRate(next)
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
		n.guard.serveIfAllowed(w, r, accessQuery{token: token, namespace: namespace}, limited)
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
		if !limiter.(*rate.Limiter).Allow() { //nolint:errcheck // all values are *rate.Limiter
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}
