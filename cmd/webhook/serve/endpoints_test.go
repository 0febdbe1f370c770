package serve

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/prom"
)

// TestMetricsAreSecureByDefault checks the response to each token, by default and with --metrics-secure=false. Profiles need the guard.
// test/manifests checks the same with a real API server and the shipped RBAC.
func TestMetricsAreSecureByDefault(t *testing.T) {
	for scheme, secure := range map[string]bool{"https": defaultOptions().MetricsSecure, "http": false} {
		s := startServer(t, newReviewingAPIServer(t, nil), func(o *options) { o.MetricsSecure = secure })
		s.ready(t)
		for path, test := range map[string]struct {
			has    string // a part of the page
			tokens map[string]int
		}{
			"/metrics": {"eventquota_build_info", map[string]int{
				"": http.StatusUnauthorized, "nobody": http.StatusUnauthorized, "somebody": http.StatusForbidden,
				"profiler": http.StatusForbidden, "reader": http.StatusOK,
			}},
			"/debug/pprof/goroutine?debug=2": {"(*server).run", map[string]int{
				"": http.StatusUnauthorized, "somebody": http.StatusForbidden, "profiler": http.StatusOK,
			}},
			"/debug/pprof/heap":              {"", map[string]int{"profiler": http.StatusOK}},
			"/debug/pprof/profile?seconds=1": {"", map[string]int{"profiler": http.StatusOK}},
			"/debug/pprof/trace?seconds=1":   {"", map[string]int{"profiler": http.StatusOK}},
		} {
			for token, want := range test.tokens {
				if !secure {
					want = map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[path == "/metrics"]
				}
				got := fetch(t, scheme+"://"+s.opts.MetricsAddress+path, token)
				if got.status != want || got.proto != "HTTP/1.1" || test.has != "" && strings.Contains(got.body, test.has) != (want == http.StatusOK) {
					t.Errorf("%s by %s for token %q is answered %d by %s, want %d by HTTP/1.1:\n%s", path, scheme, token, got.status, got.proto, want, got.body)
				}
				if served, err := s.certs.GetCertificate(nil); err != nil || secure && !bytes.Equal(got.certificate, served.Certificate[0]) {
					t.Errorf("%s does not use the certificate of the webhook, error %v", path, err)
				}
			}
		}
		if got := fetch(t, "http://"+s.opts.MetricsAddress+"/metrics", ""); secure && got.status != http.StatusBadRequest {
			t.Errorf("plain HTTP is answered %d, want 400:\n%s", got.status, got.body)
		}
		if got := get(t, "http://"+s.opts.HealthAddress+"/debug/pprof/"); got != http.StatusNotFound {
			t.Errorf("--health-address answers %d for profiles, want 404", got)
		}
		s.end(t)
	}
}

// question asks explain about an Event of namespace shop.
const question = `{"samples": [{"metadata": {"namespace": "shop"}, "involvedObject": {"namespace": "shop", "name": "web-0"}}]}`

// TestLiveEndpointsAreGuarded checks which guard protects which path of live and explain. test/live checks what tenants see with a real
// API server.
func TestLiveEndpointsAreGuarded(t *testing.T) {
	for scheme, secure := range map[string]bool{"https": true, "http": false} {
		s := startServer(t, newReviewingAPIServer(t, nil), func(o *options) { o.MetricsSecure = secure })
		s.ready(t)
		for path, tokens := range map[string]map[string]int{
			"/live":                     {"": http.StatusUnauthorized, "somebody": http.StatusForbidden},
			"/explain":                  {"": http.StatusUnauthorized, "somebody": http.StatusForbidden},
			"/namespaces/shop/live":     {"": http.StatusUnauthorized, "reader": http.StatusUnauthorized},
			"/namespaces/shop/explain":  {"": http.StatusUnauthorized, "reader": http.StatusUnauthorized},
			"/namespaces/Shop!/live":    {"reader": http.StatusNotFound},
			"/namespaces/Shop!/explain": {"reader": http.StatusNotFound},
			"/namespaces/shop":          {"": http.StatusUnauthorized},
		} {
			for token, want := range tokens {
				method, body, has := http.MethodGet, "", `"replicas":`
				if strings.HasSuffix(path, "/explain") {
					method, body, has = http.MethodPost, question, `"store":`
				}
				if !secure && strings.HasPrefix(path, "/namespaces/Shop!") {
					continue // without a guard, nobody checks the name
				}
				if !secure {
					want = map[bool]int{true: http.StatusNotFound, false: http.StatusOK}[path == "/namespaces/shop"]
				}
				got := send(t, method, scheme+"://"+s.opts.MetricsAddress+path, token, body)
				if got.status != want || strings.Contains(got.body, has) != (want == http.StatusOK) {
					t.Errorf("%s by %s for token %q is answered %d, want %d:\n%s", path, scheme, token, got.status, want, got.body)
				}
			}
		}
		s.end(t)
	}
}

// TestHangingAPIServerDoesNotDelayStop checks that a stop does not wait for a scrape whose token review hangs. The scrape gets no
// response.
func TestHangingAPIServerDoesNotDelayStop(t *testing.T) {
	reviews := make(chan struct{})
	s := startServer(t, newReviewingAPIServer(t, reviews), func(o *options) { o.MetricsSecure = true })
	s.ready(t)
	statuses := make(chan int)
	go func() { statuses <- fetch(t, "https://"+s.opts.MetricsAddress+"/metrics", "reader").status }()
	<-reviews
	s.end(t)
	if status := <-statuses; status != 0 {
		t.Errorf("the scrape got status %d, want that the stop does not wait for it", status)
	}
}

// httpResponse is the response to fetch. Its status is 0 if there is none.
type httpResponse struct {
	status      int
	proto, body string
	certificate []byte // DER
}

// fetch gets a page, with a bearer token unless that is empty.
func fetch(t *testing.T, url, token string) httpResponse {
	t.Helper()
	return send(t, http.MethodGet, url, token, "")
}

// send sends a request with a body, and with a bearer token unless that is empty.
func send(t *testing.T, method, url, token, body string) httpResponse {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return httpResponse{}
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return httpResponse{}
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return httpResponse{}
	}
	got := httpResponse{status: answer.StatusCode, proto: answer.Proto, body: string(content)}
	if answer.TLS != nil {
		got.certificate = answer.TLS.PeerCertificates[0].Raw
	}
	return got
}

// get returns the status of a page, or 0 if there is no response.
func get(t *testing.T, url string) int {
	t.Helper()
	return fetch(t, url, "").status
}

// newReviewingAPIServer returns an API server that knows three tokens: reader may get /metrics, profiler may get profiles, and somebody
// has no rights. Unless hung is nil, it signals each token review there and lets it hang.
func newReviewingAPIServer(t *testing.T, hung chan<- struct{}) *apiServer {
	t.Helper()
	a := newAPIServer(t)
	others := a.Config.Handler
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			var review authenticationv1.TokenReview
			answerReview(w, r, &review, func() {
				if hung != nil {
					hung <- struct{}{}
					<-r.Context().Done()
				}
				review.Status.User.Username = review.Spec.Token
				review.Status.Authenticated = slices.Contains([]string{"reader", "profiler", "somebody"}, review.Spec.Token)
			})
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			var review authorizationv1.SubjectAccessReview
			answerReview(w, r, &review, func() {
				a := review.Spec.NonResourceAttributes
				review.Status.Allowed = a.Verb == "get" && (review.Spec.User == "reader" && a.Path == "/metrics" ||
					review.Spec.User == "profiler" && strings.HasPrefix(a.Path, "/debug/pprof/"))
			})
		default:
			others.ServeHTTP(w, r)
		}
	})
	return a
}

// answerReview decodes a review, calls fill to set its status, and responds with it.
func answerReview(w http.ResponseWriter, r *http.Request, review runtime.Object, fill func()) {
	content, err := io.ReadAll(r.Body) // to its end, so that the server notices a disconnect
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(content, nil, review)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fill()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(review)
}

// TestReadinessNeedsCertificate checks that a replica without a certificate is live but not ready. One with a certificate is ready and
// reports its expiry.
func TestReadinessNeedsCertificate(t *testing.T) {
	for name, selfManaged := range map[string]bool{"from files": false, "self-managed, but the API server refuses": true} {
		t.Run(name, func(t *testing.T) {
			api := newAPIServer(t)
			api.noSecrets = selfManaged
			s := startServer(t, api, func(o *options) { o.SelfManaged = selfManaged })
			ready := "http://" + s.opts.HealthAddress + "/readyz"
			cli.Eventually(t, "live", func() bool { return get(t, "http://"+s.opts.HealthAddress+"/healthz") == http.StatusOK })
			if selfManaged {
				cli.Eventually(t, "a check of the certificate", func() bool {
					return strings.Contains(fetch(t, ready+"?verbose", "").body, "[-]certificate failed")
				})
				if got := get(t, ready); got != http.StatusInternalServerError {
					t.Errorf("/readyz answers %d without a certificate, want 500", got)
				}
			} else {
				s.ready(t)
			}
			if got := prom.Sum(t, s.metrics.Gatherer, "eventquota_certificate_expiry_timestamp_seconds"); math.IsNaN(got) != selfManaged || got < float64(time.Now().Unix()) {
				t.Errorf("the certificate expires at %f", got)
			}
			s.end(t)
		})
	}
}
