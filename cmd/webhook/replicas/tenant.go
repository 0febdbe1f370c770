package replicas

import (
	"context"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission/access"
)

const (
	// viewer is the service account of a namespace that may see what is counted in it.
	viewer = "eventquota-viewer"
	// proxied is what the API server's proxy calls the port for metrics of the service.
	proxied = "https:eventquota:metrics"
)

// findFor reaches a replica that answers about one namespace only, by the API server's proxy to the service in the
// namespace system, as a user of whom eventquota learns nothing. What opens the way is a token of the service account
// viewer in that namespace, which only eventquota takes: the proxy checks no certificate, so the user's own must not go
// through it.
func findFor(ctx context.Context, config *rest.Config, system, namespace string) (*Replica, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{access.Audience}, ExpirationSeconds: new(int64(tokenSeconds)),
	}}
	given, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, viewer, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("get a token of service account %s in namespace %s: %w", viewer, namespace, err)
	}
	to := rest.CopyConfig(config)
	to.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return withToken{next, given.Status.Token}
	})
	u := client.CoreV1().RESTClient().Get().Namespace(system).Resource("services").Name(proxied).SubResource("proxy").URL()
	r, err := newReplica(fmt.Sprintf("eventquota in namespace %s, by the API server", system), u, to, func() {})
	if err == nil {
		r.of, r.until = namespace, given.Status.ExpirationTimestamp.Time
	}
	return r, err
}

// withToken adds a token to requests.
type withToken struct {
	http.RoundTripper

	token string
}

// RoundTrip implements http.RoundTripper.
func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := r.Clone(r.Context())
	sent.Header.Set(access.Header, w.token)
	return w.RoundTripper.RoundTrip(sent)
}

// WrappedRoundTripper leads to the connections, to close them.
func (w withToken) WrappedRoundTripper() http.RoundTripper { return w.RoundTripper }

var _ utilnet.RoundTripperWrapper = withToken{}
