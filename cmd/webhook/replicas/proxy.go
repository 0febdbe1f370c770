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
	// viewerAccount is the service account of a namespace that may read the counts of that namespace.
	viewerAccount = "eventquota-viewer"
	// proxyServiceName names the service and its port for metrics to the API server's proxy.
	proxyServiceName = "https:eventquota:metrics"
)

// openByProxy connects to a replica that answers about one namespace only, by the API server's proxy to the service in the
// namespace system. Eventquota does not learn who the user is: it accepts a token of the service account viewerAccount in that
// namespace. The token is valid only for eventquota. The proxy checks no certificate, so the user's own token must not go through it.
func openByProxy(ctx context.Context, config *rest.Config, system, namespace string) (*Replica, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{access.Audience}, ExpirationSeconds: new(int64(tokenSeconds)),
	}}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, viewerAccount, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("get a token of service account %s in namespace %s: %w", viewerAccount, namespace, err)
	}
	target := rest.CopyConfig(config)
	target.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return tokenTransport{next, token.Status.Token}
	})
	u := client.CoreV1().RESTClient().Get().Namespace(system).Resource("services").Name(proxyServiceName).SubResource("proxy").URL()
	r, err := newReplica(fmt.Sprintf("eventquota in namespace %s, by the API server", system), u, target, func() {})
	if err == nil {
		r.namespace, r.expiry = namespace, token.Status.ExpirationTimestamp.Time
	}
	return r, err
}

// tokenTransport adds a token to requests.
type tokenTransport struct {
	http.RoundTripper

	token string
}

// RoundTrip implements http.RoundTripper.
func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	clone := r.Clone(r.Context())
	clone.Header.Set(access.Header, t.token)
	return t.RoundTripper.RoundTrip(clone)
}

// WrappedRoundTripper gives access to the idle connections, to close them.
func (t tokenTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

var _ utilnet.RoundTripperWrapper = tokenTransport{}
