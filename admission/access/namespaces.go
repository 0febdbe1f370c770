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
	// nothing but what a Namespaces guards.
	Audience = "eventquota.io"
	// Header has the token: API servers that pass a request on to a service remove its Authorization.
	Header = "Eventquota-Token"
	// lookRate and lookBurst bound the requests about one namespace, a second and in a burst, and lookNamespaces those
	// that are counted.
	lookRate, lookBurst, lookNamespaces = 2, 10, 1024
)

// Namespaces lets those in who may get the EventQuotas of the namespace that they ask about. It shares nothing with a
// Guard: whatever tenants send, scrapers get their metrics. It may be used concurrently.
type Namespaces struct {
	guard *Guard
	looks *cache.LRUExpireCache // by namespace, *rate.Limiter
}

// NewNamespaces makes a Namespaces that asks an API server. The client needs no rate.
func NewNamespaces(client kubernetes.Interface) *Namespaces { return newNamespaces(New(client)) }

func newNamespaces(g *Guard) *Namespaces {
	return &Namespaces{guard: g, looks: cache.NewLRUExpireCache(lookNamespaces)}
}

// Before serves next, whose path has a {namespace}, to users with a token for Audience in Header. A token
// for the API server gets 401, so that nobody gets used to sending one. It answers as a Guard does, and 404 for what cannot
// be a namespace; 429 to more requests than a few a second about one namespace.
func (n *Namespaces) Before(next http.Handler) http.Handler {
	slowed := n.slowed(next)
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
		n.guard.serve(w, r, question{token: token, verb: strings.ToLower(r.Method), namespace: namespace}, slowed)
	})
}

// slowed bounds the requests about one namespace.
func (n *Namespaces) slowed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		namespace := r.PathValue("namespace")
		limiter, known := n.looks.Get(namespace)
		if !known {
			limiter = rate.NewLimiter(lookRate, lookBurst)
			n.looks.Add(namespace, limiter, keepKnown)
		}
		if !limiter.(*rate.Limiter).Allow() { //nolint:errcheck // it holds nothing else
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}
