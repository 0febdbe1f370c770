package e2e

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/certs"
	"github.com/eventquota/eventquota/test/cluster"
)

const (
	shippedOverlay = "../../manifests/overlays/self-signed"
	serviceName    = "eventquota"
	// strangerPort is where a pod of the shipped Deployment serves the webhook.
	strangerPort = 10250
)

// absentEnv is a cluster with all that is shipped, but no replica.
type absentEnv struct {
	*env
	strangers int
	sliced    bool // the Service has its EndpointSlice
}

// in is e for a subtest.
func (e *absentEnv) in(t *testing.T) *absentEnv {
	t.Helper()
	sub := *e
	sub.env = e.env.in(t)
	return &sub
}

// stranger is at the endpoint of the webhook, in its place.
type stranger struct {
	addresses []string
	listens   bool
	met       atomic.Int64 // connections
}

// nobody is no endpoint at all.
func (e *absentEnv) nobody() *stranger { return &stranger{} }

// refuser is an endpoint whose process has ended.
func (e *absentEnv) refuser() *stranger {
	e.strangers++
	return &stranger{addresses: []string{fmt.Sprintf("10.77.1.%d", e.strangers)}}
}

// listener is an endpoint that listens until the test ends.
func (e *absentEnv) listener() (*stranger, net.Listener) {
	e.Helper()
	s := e.refuser()
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", s.addresses[0], strangerPort))
	e.must(err)
	e.Cleanup(func() { _ = l.Close() })
	s.listens = true
	return s, l
}

// silent is an endpoint that accepts connections and says nothing.
func (e *absentEnv) silent() *stranger {
	e.Helper()
	s, l := e.listener()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			s.met.Add(1)
			go func() {
				defer c.Close()
				_, _ = io.Copy(io.Discard, c) // until the API server gives it up
			}()
		}
	}()
	return s
}

// server is an endpoint that serves with the certificate in dir, reads each review, and
// does not answer.
func (e *absentEnv) server(dir string) *stranger {
	e.Helper()
	s, l := e.listener()
	srv := &http.Server{
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.met.Add(1)
			}
		},
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}),
	}
	e.Cleanup(func() { _ = srv.Close() })
	go func() { _ = srv.ServeTLS(l, filepath.Join(dir, certs.CertFile), filepath.Join(dir, certs.KeyFile)) }()
	return s
}

// certificate makes a CA and a serving certificate for the Service, and returns where.
func (e *absentEnv) certificate() (dir string) {
	e.Helper()
	dir = e.TempDir()
	_, err := certs.SelfSigned(dir, []string{serviceName + "." + cluster.ServiceNamespace + ".svc"})
	e.must(err)
	return dir
}

// trust writes the CA in dir into the webhook configurations, as who makes the certificate
// does.
func (e *absentEnv) trust(dir string) {
	e.Helper()
	ca, err := os.ReadFile(filepath.Join(dir, certs.CAFile))
	e.must(err)
	for kind, name := range configurations() {
		e.kubectl("", "patch", kind, name, "--patch", fmt.Sprintf(
			`{"webhooks":[{"name":%q,"clientConfig":{"caBundle":%q}}]}`, name, base64.StdEncoding.EncodeToString(ca)))
	}
}

// configurations are the kinds of the shipped webhook configurations, and their names.
func configurations() map[string]string {
	return map[string]string{
		"mutatingwebhookconfiguration":   cluster.MutatingWebhook,
		"validatingwebhookconfiguration": cluster.ValidatingWebhook,
	}
}

// route makes the ready endpoints of the shipped Service be those at the addresses.
func (e *absentEnv) route(addresses ...string) {
	e.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: serviceName, Labels: map[string]string{discoveryv1.LabelServiceName: serviceName}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("webhook"), Port: new(int32(strangerPort))}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	slices := e.client.DiscoveryV1().EndpointSlices(cluster.ServiceNamespace)
	var err error
	if e.sliced {
		_, err = slices.Update(e.Context(), slice, metav1.UpdateOptions{})
	} else {
		_, err = slices.Create(e.Context(), slice, metav1.CreateOptions{})
	}
	e.must(err)
	e.sliced = true
}
