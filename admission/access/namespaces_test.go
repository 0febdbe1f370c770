package access

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// tenantServer returns a fake API server that knows the tokens of two service accounts. shop may only get the EventQuotas of
// the namespace shop, and nobody has no permissions. The token unaware is from an authenticator without audiences.
func tenantServer() *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		for _, audience := range review.Spec.Audiences {
			switch {
			case audience != Audience:
			case review.Spec.Token == "unaware":
				review.Status.Authenticated, review.Status.User.Username = true, "shop"
			case review.Spec.Token == "shop", review.Spec.Token == "nobody":
				review.Status = authenticationv1.TokenReviewStatus{
					Authenticated: true, Audiences: []string{audience}, User: authenticationv1.UserInfo{Username: review.Spec.Token},
				}
			}
		}
		if len(review.Spec.Audiences) == 0 && review.Spec.Token == "admin" {
			review.Status.Authenticated, review.Status.User.Username = true, "admin"
		}
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		want := authorizationv1.ResourceAttributes{Namespace: "shop", Verb: "get", Group: "eventquota.io", Version: "v1alpha1", Resource: "eventquotas"}
		review.Status.Allowed = review.Spec.User == "admin" ||
			review.Spec.User == "shop" && review.Spec.ResourceAttributes != nil && *review.Spec.ResourceAttributes == want
		return true, review, nil
	})
	return client
}

// getAs requests a namespace with headers, and returns the status.
func getAs(t *testing.T, h http.Handler, namespace string, headers http.Header) int {
	t.Helper()
	return requestAs(t, h, http.MethodGet, namespace, headers)
}

func requestAs(t *testing.T, h http.Handler, method, namespace string, headers http.Header) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/namespaces/x/live", http.NoBody)
	r.SetPathValue("namespace", namespace)
	r.Header = headers
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if secret := w.Body.String() == "secret"; secret != (w.Code == http.StatusOK) {
		t.Errorf("got body %q with status %d", w.Body, w.Code)
	}
	return w.Code
}

func TestNamespaceGuardRequiresGetOnQuotas(t *testing.T) {
	t.Parallel()
	n := NewNamespaceGuard(tenantServer())
	h := n.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("secret")) }))
	header := func(token string) http.Header { return http.Header{Header: {token}} }
	both := header("shop")
	both.Set("Authorization", "Bearer admin")
	for says, test := range map[string]struct {
		namespace string
		headers   http.Header
		status    int
	}{
		"its own namespace":                         {"shop", header("shop"), http.StatusOK},
		"another one":                               {"ops", header("shop"), http.StatusForbidden},
		"all namespaces, by *":                      {"*", header("shop"), http.StatusNotFound},
		"all namespaces, by an empty name":          {"", header("shop"), http.StatusNotFound},
		"a path in the name":                        {"shop/../ops", header("shop"), http.StatusNotFound},
		"an account without access":                 {"shop", header("nobody"), http.StatusForbidden},
		"an unknown token":                          {"shop", header("x"), http.StatusUnauthorized},
		"no token":                                  {"shop", http.Header{}, http.StatusUnauthorized},
		"two tokens":                                {"shop", http.Header{Header: {"shop", "shop"}}, http.StatusUnauthorized},
		"a token for the API server, in our header": {"shop", header("admin"), http.StatusUnauthorized},
		"a token for the API server, in its header": {"shop", http.Header{"Authorization": {"Bearer admin"}}, http.StatusUnauthorized},
		"both headers":                              {"shop", both, http.StatusUnauthorized},
		"an authenticator that knows no audiences":  {"shop", header("unaware"), http.StatusUnauthorized},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} { // neither changes anything
			if got := requestAs(t, h, method, test.namespace, test.headers); got != test.status {
				t.Errorf("%s, %s: got status %d, want %d", says, method, got, test.status)
			}
		}
	}
}

// TestNamespacesAreRateLimitedSeparately checks that a tenant above the limit gets 429, and other tenants do not.
func TestNamespacesAreRateLimitedSeparately(t *testing.T) {
	t.Parallel()
	n := newNamespaceGuard(newGuard(func(context.Context, accessQuery) (int, error) { return http.StatusOK, nil }))
	h := n.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("secret")) }))
	answered := map[int]int{}
	for range 100 * requestBurst {
		answered[getAs(t, h, "noisy", http.Header{Header: {"a"}})]++
	}
	if answered[http.StatusOK] < requestBurst || answered[http.StatusTooManyRequests] == 0 || len(answered) != 2 {
		t.Errorf("got %v answers by status, want %d or a few more of 200, and the others 429", answered, requestBurst)
	}
	if got := getAs(t, h, "quiet", http.Header{Header: {"b"}}); got != http.StatusOK {
		t.Errorf("got status %d for another namespace, want 200", got)
	}
}
