package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"path"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/cli"     //nolint:depguard // of tests alone
	"github.com/eventquota/eventquota/test/cluster" //nolint:depguard // a real API server verifies the certificates
)

// TestRotationFailsNoCall checks that no call fails during three rotations. The API server makes a new connection for
// each call, to any of three replicas.
func TestRotationFailsNoCall(t *testing.T) {
	t.Parallel()
	if !cluster.RunIsolated(t) {
		return
	}
	w, replicas, servers := newServedReplicas(t, 3)
	first := w.segments()[0]
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	pace := rate.NewLimiter(25, 1) // calls a second
	for range 2 {
		writers.Go(func() {
			for pace.Wait(ctx) == nil {
				if err := w.write(); err != nil {
					t.Errorf("a call failed: %v", err)
					return
				}
			}
		})
	}
	cli.Eventually(t, "three rotations, and the first path is not accepted any more", func() bool {
		for i, s := range servers { // each replica serves each certificate to the API server
			if s.certificates() < 4 || replicas[i].Accepts(first) {
				return t.Failed()
			}
		}
		return true
	})
	stop()
	writers.Wait()
	// The CAs of the served certificate, of the next one, and of those that replicas may still serve.
	if n := bytes.Count(w.secret().Data[CAFile], []byte("BEGIN")); n < 2 || n > maxTrusted {
		t.Errorf("%d CAs are trusted in the end, want 2 to %d", n, maxTrusted)
	}
	if got := w.segments()[0]; got == first || got == "" {
		t.Errorf("the path of the webhook ends in %q, want another segment than the first, %q", got, first)
	}
	for _, m := range replicas {
		if n := m.Repairs(); n > 0 {
			t.Errorf("a replica counts %d repairs, want none", n)
		}
	}
}

// newServedReplicas starts n replicas that a real API server calls.
func newServedReplicas(t *testing.T, n int) (*world, []*Managed, []*servedCertificates) {
	t.Helper()
	w := newWorld(t, cluster.Options{Services: true})
	w.shipEmpty()
	w.install()
	replicas := w.replicas(n, w.user("updater", []string{"get", "update"}, []string{"get", "patch"}))
	servers := make([]*servedCertificates, n)
	var addresses []string
	for i, m := range replicas {
		// The next certificate is issued after a second (validity times have whole seconds), and served 8 seconds later.
		m.timing.lifetime, m.timing.renewAfter, m.timing.overlap = backdated+time.Minute, time.Second, 8*time.Second
		addresses = append(addresses, net.IPv4(10, 77, 0, byte(11+i)).String())
		servers[i] = serveAt(t, m, addresses[i])
	}
	w.route(addresses)
	t.Cleanup(w.start(replicas))
	w.agreed(replicas)
	cli.Eventually(t, "a call succeeds", func() bool { return w.write() == nil })
	return w, replicas, servers
}

// route makes the addresses the endpoints of the Service.
func (w *world) route(addresses []string) {
	w.Helper()
	_, err := w.admin.CoreV1().Services(w.service.Namespace).Create(w.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: w.service.Name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "webhook", Port: 443}}},
	}, metav1.CreateOptions{})
	w.must(err)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: w.service.Name, Labels: map[string]string{discoveryv1.LabelServiceName: w.service.Name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("webhook"), Port: new(int32(10250))}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	_, err = w.admin.DiscoveryV1().EndpointSlices(w.service.Namespace).Create(w.Context(), slice, metav1.CreateOptions{})
	w.must(err)
}

// write makes the API server call the webhook.
func (w *world) write() error {
	_, err := w.admin.CoreV1().ConfigMaps(w.service.Namespace).Create(w.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "call-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// servedCertificates records the certificates that a server has sent to clients.
type servedCertificates struct {
	mu      sync.Mutex
	serials map[string]bool
}

func (s *servedCertificates) certificates() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.serials)
}

// serveAt serves reviews at an address, one for each connection. It allows all that come at an accepted path.
func serveAt(t *testing.T, m *Managed, address string) *servedCertificates {
	t.Helper()
	s := &servedCertificates{serials: map[string]bool{}}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !m.Accepts(path.Base(r.URL.Path)) {
				http.NotFound(w, r)
				return
			}
			var review admissionv1.AdmissionReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
			_ = json.NewEncoder(w).Encode(review)
		}),
		TLSConfig: &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			served, err := m.GetCertificate(hello)
			if err == nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.serials[served.Leaf.SerialNumber.String()] = true
			}
			return served, err
		}},
	}
	server.SetKeepAlivesEnabled(false)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(address, "10250"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.ServeTLS(listener, "", "") }() // ends with the server
	t.Cleanup(func() { _ = server.Close() })
	return s
}
