package serve

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/eventquota/eventquota/test/cli"
)

// TestMetricsAreSecureUnlessTheyAreToldNotToBe holds it by the defaults of the flags.
// test/manifests holds it on a real API server, with the rights that are shipped.
func TestMetricsAreSecureUnlessTheyAreToldNotToBe(t *testing.T) {
	s := serving(t, newReviewingAPIServer(t, nil), func(o *options) { o.MetricsSecure = defaultOptions().MetricsSecure })
	cli.Eventually(t, "ready", func() bool { return get(t, "http://"+s.opts.HealthAddress+"/readyz") == http.StatusOK })
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
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// TestAnAPIServerThatHangsHoldsUpNoStop holds that a scrape which waits for it gets no
// answer any more: nothing waits for that of the API server.
func TestAnAPIServerThatHangsHoldsUpNoStop(t *testing.T) {
	reviews := make(chan struct{})
	s := serving(t, newReviewingAPIServer(t, reviews), func(o *options) { o.MetricsSecure = true })
	cli.Eventually(t, "ready", func() bool { return get(t, "http://"+s.opts.HealthAddress+"/readyz") == http.StatusOK })
	answered := make(chan error)
	go func() {
		_, err := scrape(t, s, "reader")
		answered <- err
	}()
	<-reviews
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
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
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.opts.MetricsAddress+"/metrics", http.NoBody)
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
	return scraped{answer.StatusCode, answer.Proto, string(content), answer.TLS.PeerCertificates[0].Raw}, err
}

// newReviewingAPIServer knows the tokens reader, which may get /metrics, and somebody. Unless hung
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
				review.Status.Authenticated = review.Spec.Token == "reader" || review.Spec.Token == "somebody"
			})
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			var review authorizationv1.SubjectAccessReview
			exchange(w, r, &review, func() {
				a := review.Spec.NonResourceAttributes
				review.Status.Allowed = review.Spec.User == "reader" && a.Verb == "get" && a.Path == "/metrics"
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

func TestProfilesAreForThisMachineAlone(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct {
		address string
		taken   bool
	}{
		"none is the default":             {defaultOptions().PprofAddress, true},
		"none may be said by nothing too": {"", true},
		"IPv4 loopback":                   {"127.0.0.1:6060", true},
		"all of it":                       {"127.8.9.1:6060", true},
		"IPv6 loopback":                   {"[::1]:6060", true},
		"all addresses":                   {"0.0.0.0:6060", false},
		"all addresses of IPv6":           {"[::]:6060", false},
		"no host, which is all":           {":6060", false},
		"an address of a network":         {"10.0.0.1:6060", false},
		"one that only looks like it":     {"[::ffff:10.0.0.1]:6060", false},
		"a name, even this one":           {"localhost:6060", false},
		"no port":                         {"127.0.0.1", false},
		"a port that is none":             {"127.0.0.1:65536", false},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			o := defaultOptions()
			o.PprofAddress = test.address
			err := o.validate()
			if test.taken && err != nil {
				t.Errorf("it is refused: %v", err)
			}
			want := fmt.Sprintf("--pprof-address %q: must be a loopback IP address and a port, such as 127.0.0.1:6060, or 0 for none", test.address)
			if !test.taken && (err == nil || err.Error() != want) {
				t.Errorf("it is refused by\n%v\nwant\n%s", err, want)
			}
		})
	}
}

func TestAProfileCanBeFetchedWhereItIsToldToBe(t *testing.T) {
	t.Parallel()
	s := serving(t, newAPIServer(t), func(o *options) { o.PprofAddress = fmt.Sprintf("127.0.0.1:%d", freePort(t)) })
	o := s.opts
	cli.Eventually(t, "profiles", func() bool { return get(t, "http://"+o.PprofAddress+"/debug/pprof/") == http.StatusOK })
	cli.Eventually(t, "ready", func() bool { return get(t, "http://"+o.HealthAddress+"/readyz") == http.StatusOK })
	cli.Eventually(t, "metrics", func() bool { return get(t, "http://"+o.MetricsAddress+"/metrics") == http.StatusOK })
	for _, profile := range []string{"heap", "allocs", "profile?seconds=1", "trace?seconds=1"} {
		if status, content := page(t, "http://"+o.PprofAddress+"/debug/pprof/"+profile); status != http.StatusOK || content == "" {
			t.Errorf("%s is answered %d with %d bytes", profile, status, len(content))
		}
	}
	if _, content := page(t, "http://"+o.PprofAddress+"/debug/pprof/goroutine?debug=2"); !strings.Contains(content, "(*server).run") {
		t.Error("the goroutines that serve are not in the profile of goroutines")
	}
	for _, elsewhere := range []string{o.MetricsAddress, o.HealthAddress} {
		if got := get(t, "http://"+elsewhere+"/debug/pprof/"); got != http.StatusNotFound {
			t.Errorf("at %s profiles are answered %d too", elsewhere, got)
		}
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}
