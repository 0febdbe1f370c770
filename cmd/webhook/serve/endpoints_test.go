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

// TestMetricsAreSecureUnlessTheyAreToldNotToBe holds it by the defaults of the flags.
// test/manifests holds it on a real API server, with the rights that are shipped.
func TestMetricsAreSecureUnlessTheyAreToldNotToBe(t *testing.T) {
	s := serving(t, newReviewingAPIServer(t, nil), func(o *options) { o.MetricsSecure = defaultOptions().MetricsSecure })
	s.ready(t)
	for token, want := range map[string]int{
		"": http.StatusUnauthorized, "nobody": http.StatusUnauthorized, "somebody": http.StatusForbidden, "reader": http.StatusOK,
	} {
		answer, err := scrape(t, s, token)
		if err != nil {
			t.Fatal(err)
		}
		if answer.status != want || strings.Contains(answer.says, "eventquota_build_info") != (want == http.StatusOK) {
			t.Errorf("token %q is answered %d, want %d:\n%s", token, answer.status, want, answer.says)
		}
		if answer.proto != "HTTP/1.1" {
			t.Errorf("it is answered by %s, want HTTP/1.1", answer.proto)
		}
		served, err := s.certs.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(answer.certificate, served.Certificate[0]) {
			t.Error("it is not the certificate of the webhook")
		}
	}
	if status, says := page(t, "http://"+s.opts.MetricsAddress+"/metrics"); status != http.StatusBadRequest {
		t.Errorf("plain HTTP is answered %d, want 400:\n%s", status, says)
	}
	s.end(t)
}

// TestAnAPIServerThatHangsHoldsUpNoStop holds that a scrape which waits for it gets no
// answer any more: nothing waits for that of the API server.
func TestAnAPIServerThatHangsHoldsUpNoStop(t *testing.T) {
	reviews := make(chan struct{})
	s := serving(t, newReviewingAPIServer(t, reviews), func(o *options) { o.MetricsSecure = true })
	s.ready(t)
	answered := make(chan error)
	go func() {
		_, err := scrape(t, s, "reader")
		answered <- err
	}()
	<-reviews
	s.end(t)
	if err := <-answered; err == nil {
		t.Error("the stop waited for a scrape to be answered")
	}
}

// scraped is what a server answers.
type scraped struct {
	status      int
	proto, says string
	certificate []byte // DER
}

// scrape asks a server for its metrics by TLS.
func scrape(t *testing.T, s *served, token string) (scraped, error) {
	t.Helper()
	return fetch(t, "https://"+s.opts.MetricsAddress+"/metrics", token)
}

func fetch(t *testing.T, url, token string) (scraped, error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return scraped{}, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return scraped{}, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	scraped := scraped{status: answer.StatusCode, proto: answer.Proto, says: string(content)}
	if answer.TLS != nil {
		scraped.certificate = answer.TLS.PeerCertificates[0].Raw
	}
	return scraped, err
}

// newReviewingAPIServer knows the tokens reader, which may get /metrics, profiler, which may get profiles, and somebody. Unless hung
// is nil, it signals each token review and lets it hang.
func newReviewingAPIServer(t *testing.T, hung chan<- struct{}) *apiServer {
	t.Helper()
	a := newAPIServer(t)
	others := a.Config.Handler
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			var review authenticationv1.TokenReview
			exchange(w, r, &review, func() {
				if hung != nil {
					hung <- struct{}{}
					<-r.Context().Done()
				}
				review.Status.User.Username = review.Spec.Token
				review.Status.Authenticated = slices.Contains([]string{"reader", "profiler", "somebody"}, review.Spec.Token)
			})
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			var review authorizationv1.SubjectAccessReview
			exchange(w, r, &review, func() {
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

// exchange reads a review, fills it in and answers it.
func exchange(w http.ResponseWriter, r *http.Request, review runtime.Object, fill func()) {
	content, err := io.ReadAll(r.Body) // to its end, or a disconnect goes unnoticed
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

// TestNotReadyWithoutACertificate holds that a replica that can get no certificate lives and is not
// ready, and one that has one is ready and reports when it expires.
func TestNotReadyWithoutACertificate(t *testing.T) {
	for name, selfManaged := range map[string]bool{"from files": false, "self-managed, but the API server refuses": true} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, newAPIServer(t), func(o *options) { o.SelfManaged = selfManaged })
			ready := "http://" + s.opts.HealthAddress + "/readyz"
			cli.Eventually(t, "live", func() bool { return get(t, "http://"+s.opts.HealthAddress+"/healthz") == http.StatusOK })
			if selfManaged {
				cli.Eventually(t, "a check of the certificate", func() bool {
					return strings.Contains(body(t, ready+"?verbose"), "[-]certificate failed")
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

// body is what a page says.
func body(t *testing.T, url string) string {
	t.Helper()
	_, says := page(t, url)
	return says
}

// TestProfilesAreForWhoMayGetThem holds that they are served by the guard, and nowhere without one.
func TestProfilesAreForWhoMayGetThem(t *testing.T) {
	for _, secure := range []bool{true, false} {
		s := serving(t, newReviewingAPIServer(t, nil), func(o *options) { o.MetricsSecure = secure })
		s.ready(t)
		scheme := map[bool]string{true: "https", false: "http"}[secure]
		for path, tokens := range map[string]map[string]int{
			"/debug/pprof/goroutine?debug=2": {"": http.StatusUnauthorized, "somebody": http.StatusForbidden, "profiler": http.StatusOK},
			"/debug/pprof/heap":              {"profiler": http.StatusOK},
			"/debug/pprof/profile?seconds=1": {"profiler": http.StatusOK},
			"/debug/pprof/trace?seconds=1":   {"profiler": http.StatusOK},
			"/metrics":                       {"profiler": http.StatusForbidden},
		} {
			for token, want := range tokens {
				if !secure && path != "/metrics" {
					want = http.StatusNotFound
				} else if !secure {
					want = http.StatusOK
				}
				answer, err := fetch(t, scheme+"://"+s.opts.MetricsAddress+path, token)
				if err != nil || answer.status != want {
					t.Errorf("%s by %s for token %q is answered %d, want %d: %v", path, scheme, token, answer.status, want, err)
				}
				if stack := "(*server).run"; want == http.StatusOK && strings.Contains(path, "goroutine") && !strings.Contains(answer.says, stack) {
					t.Errorf("the profile of goroutines has no %s", stack)
				}
			}
		}
		if got := get(t, "http://"+s.opts.HealthAddress+"/debug/pprof/"); got != http.StatusNotFound {
			t.Errorf("beside /healthz profiles are answered %d too", got)
		}
		s.end(t)
	}
}
