package replicas

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission/busiest"
)

// TestTenantCallsThroughAPIServer checks which token goes where. The user's own token goes only to the API server. The replica gets a
// token that is valid only for eventquota. test/live checks the rights of that token.
func TestTenantCallsThroughAPIServer(t *testing.T) {
	var calls []string
	expires := time.Now().Add(time.Hour)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls = append(calls, fmt.Sprintf("%s %s %q %q", r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Eventquota-Token")))
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			_ = json.NewEncoder(w).Encode(busiest.Live{Namespace: "shop"})
			return
		}
		var request authenticationv1.TokenRequest
		content, err := io.ReadAll(r.Body)
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(content, nil, &request)
		}
		if err != nil || !slices.Equal(request.Spec.Audiences, []string{"eventquota.io"}) || *request.Spec.ExpirationSeconds != 600 {
			t.Errorf("error %v, unexpected token request %+v", err, request.Spec)
		}
		request.Status = authenticationv1.TokenRequestStatus{Token: "viewer", ExpirationTimestamp: metav1.NewTime(expires)}
		_ = json.NewEncoder(w).Encode(request)
	}))
	defer s.Close()
	config := &rest.Config{Host: s.URL, BearerToken: "own"}
	r, err := openByProxy(t.Context(), config, "system", "shop")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	live, err := r.Live(t.Context(), "shop")
	if err != nil || live.Namespace != "shop" {
		t.Errorf("counts %+v, error %v, want those of shop", live, err)
	}
	if want := []string{
		`POST /api/v1/namespaces/shop/serviceaccounts/eventquota-viewer/token "Bearer own" ""`,
		`GET /api/v1/namespaces/system/services/https:eventquota:metrics/proxy/namespaces/shop/live "Bearer own" "viewer"`,
	}; !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
	if r.ExpiresSoon() {
		t.Error("ExpiresSoon is true an hour before expiry")
	}
	expires = time.Now().Add(time.Minute / 2)
	soon, err := openByProxy(t.Context(), config, "system", "shop")
	if err != nil {
		t.Fatal(err)
	}
	defer soon.Close()
	if !soon.ExpiresSoon() {
		t.Error("ExpiresSoon is false half a minute before expiry")
	}
}

// TestLiveFiltersOneNamespace checks that a user with rights for all namespaces sees the same of one namespace as its tenants do.
func TestLiveFiltersOneNamespace(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/live" {
			t.Errorf("unexpected request for %s", r.URL.Path)
		}
		_ = json.NewEncoder(w).Encode(busiest.Live{Breakdown: busiest.Breakdown{Details: []busiest.Detail{{Namespace: "shop"}, {Namespace: "ops"}}}})
	}))
	defer s.Close()
	r, err := (&Options{Endpoint: s.URL}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for namespace, want := range map[string]int{"shop": 1, "": 2} {
		if live, err := r.Live(t.Context(), namespace); err != nil || len(live.Details) != want {
			t.Errorf("namespace %q: details %+v, error %v, want %d details", namespace, live.Details, err, want)
		}
	}
}
