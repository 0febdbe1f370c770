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
	// viewerAccount is the service account of a namespace that may see what is counted in it.
	viewerAccount = "eventquota-viewer"
	// proxyServiceName is what the API server's proxy calls the port for metrics of the service.
	proxyServiceName = "https:eventquota:metrics"
)

// openByProxy reaches a replica that answers about one namespace only, by the API server's proxy to the service in the
// namespace system, as a user of whom eventquota learns nothing. What opens the way is a token of the service account
// viewer in that namespace, which only eventquota takes: the proxy checks no certificate, so the user's own must not go
// through it.
func openByProxy(ctx context.Context, config *rest.Config, system, namespace string) (*Replica, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{access.Audience}, ExpirationSeconds: new(int64(tokenSeconds)),
	}}
	given, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, viewerAccount, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("get a token of service account %s in namespace %s: %w", viewerAccount, namespace, err)
	}
	to := rest.CopyConfig(config)
	to.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return tokenTransport{next, given.Status.Token}
	})
	u := client.CoreV1().RESTClient().Get().Namespace(system).Resource("services").Name(proxyServiceName).SubResource("proxy").URL()
	r, err := newReplica(fmt.Sprintf("eventquota in namespace %s, by the API server", system), u, to, func() {})
	if err == nil {
		r.namespace, r.expiry = namespace, given.Status.ExpirationTimestamp.Time
	}
	return r, err
}

// tokenTransport adds a token to requests.
type tokenTransport struct {
	http.RoundTripper

	token string
}

// RoundTrip implements http.RoundTripper.
func (w tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := r.Clone(r.Context())
	sent.Header.Set(access.Header, w.token)
	return w.RoundTripper.RoundTrip(sent)
}

// WrappedRoundTripper leads to the connections, to close them.
func (w tokenTransport) WrappedRoundTripper() http.RoundTripper { return w.RoundTripper }

var _ utilnet.RoundTripperWrapper = tokenTransport{}
