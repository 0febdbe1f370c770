package certmanager

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/storm"
)

// rate is the number of requests per second in a storm.
const rate = 120

// storm runs storms of real recorders, one after another, until end is called. end returns when the API server has answered
// all requests.
func (e *env) storm() (end func() error) {
	e.Helper()
	_, err := e.client.CoreV1().Namespaces().Create(e.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "storm"}}, metav1.CreateOptions{})
	e.must(err)
	config, _, err := e.cluster.User("writer", "system:masters")
	e.must(err)
	return storm.RunPaced(e.Context(), config, rate, 2, func(int, int) (storm.Storm, error) {
		return storm.Storm{Namespace: "storm", Pods: 30, Events: 60, Repeating: 1, Similar: 4, Series: 2, Reasons: 1}, nil
	})
}

// waitServes waits until a replica serves the certificate of a Secret and is ready.
func (e *env) waitServes(i int, secret *corev1.Secret) {
	e.Helper()
	host := strings.TrimPrefix(e.set.Replicas[i].URL, "https://")
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // the serial number identifies the certificate
	e.eventually("a replica serves the certificate that was issued", func() bool {
		connection, err := dialer.DialContext(e.Context(), "tcp", host)
		e.must(err)
		defer connection.Close()
		return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String() == serial(e.T, secret)
	})
	// A replica checks the CAs that the API server trusts about every 10 seconds.
	e.eventually("a replica is ready with it", func() bool {
		ready, err := http.NewRequestWithContext(e.Context(), http.MethodGet,
			"http://"+strings.TrimSuffix(host, ":10250")+":8081/readyz", http.NoBody)
		e.must(err)
		response, err := http.DefaultClient.Do(ready)
		e.must(err)
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// decisions returns the number of reviews that each replica has answered.
func (e *env) decisions() (each []int64) {
	e.Helper()
	for _, r := range e.set.Replicas {
		answered, err := r.Decisions(e.Context(), "phase")
		e.must(err)
		each = append(each, answered["mutate"]+answered["validate"])
	}
	return each
}

// allAnsweredSince reports whether each replica has answered enough reviews since before to have new connections too.
func (e *env) allAnsweredSince(before []int64) bool {
	e.Helper()
	for i, n := range e.decisions() {
		if n < before[i]+newConnections {
			return false
		}
	}
	return true
}

// waitForCalls waits until replicas have answered n more reviews.
func (e *env) waitForCalls(n int64) {
	e.Helper()
	all := func() (sum int64) {
		for _, one := range e.decisions() {
			sum += one
		}
		return sum
	}
	before := all()
	e.eventually("the storm goes on", func() bool { return all() >= before+n })
}

// serial returns the serial number of the certificate in a Secret.
func serial(t *testing.T, secret *corev1.Secret) string {
	t.Helper()
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		t.Fatalf("Secret %s has no certificate", secret.Name)
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.SerialNumber.String()
}
