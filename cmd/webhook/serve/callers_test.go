package serve

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/eventquota/eventquota/certs"
	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/prom"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestOnlyAPIServerMayCall checks that other callers are refused before their body is read, and that serve logs a warning if nothing
// protects the port.
func TestOnlyAPIServerMayCall(t *testing.T) {
	files, err := redistest.NewCerts(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(files.ClientCertFile, files.ClientKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	const warning = "Anyone who reaches the port can send reviews"
	for name, test := range map[string]struct {
		change   func(o *options)
		with     *tls.Config // of the API server
		by       string      // the check in the metric; empty for none
		stranger string      // the beginning of the response to a stranger; empty for none
	}{
		"no protection": {func(*options) {}, &tls.Config{}, "", ""},
		"client certificate": {func(o *options) {
			o.ClientCAFile, o.ClientNames = files.CAFile, []string{pair.Leaf.Subject.CommonName}
		}, &tls.Config{Certificates: []tls.Certificate{pair}}, "certificate", ""},
		"secret path": {func(o *options) { o.SelfManaged = true }, &tls.Config{}, "path", "HTTP/1.1 404"},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPIServer(t)
			var warned atomic.Bool
			log := funcr.New(func(_, line string) {
				if strings.Contains(line, warning) {
					warned.Store(true)
				}
			}, funcr.Options{})
			s := startServerWithLog(t, api, log, test.change)
			s.readyForEvents(t)
			if want := test.by == ""; warned.Load() != want {
				t.Errorf("logged the warning: %t, want %t", !want, want)
			}
			if test.by != "" {
				if answer := callAsStranger(t, s.opts.Port); (answer == "") != (test.stranger == "") || !strings.HasPrefix(answer, test.stranger) {
					t.Errorf("a stranger got the response %q, want %q", answer, test.stranger)
				}
				if page := prom.Lines(t, s.metrics.Gatherer, "eventquota_decisions_total"); page != "" {
					t.Errorf("a stranger's review was decided:\n%s", page)
				}
				cli.Eventually(t, "the refused call is counted", func() bool {
					page := prom.Lines(t, s.metrics.Gatherer, "eventquota_callers_refused_total")
					return strings.Contains(page, fmt.Sprintf(`{by=%q} 1`, test.by))
				})
			}
			callWith(t, test.with, s.opts.Port, "mutate"+api.segment(t), "first", "", true)
			callWith(t, test.with, s.opts.Port, "mutate"+api.segment(t), "second", "", false)
			if test.by != "path" { // a webhook configuration may still have the segment of earlier self-managed certificates
				callWith(t, test.with, s.opts.Port, "mutate/left", "third", "", false)
			}
			s.end(t)
		})
	}
}

// callAsStranger announces a body, sends one byte of it, and returns the response until the connection ends.
func callAsStranger(t *testing.T, port int) string {
	t.Helper()
	connection, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return ""
	}
	defer connection.Close()
	_, _ = io.WriteString(connection, "POST /mutate?timeout=1s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
	answer, _ := io.ReadAll(connection)
	return string(answer)
}

// segment returns the secret suffix of the webhook's paths, or an empty string if there is no Secret.
func (a *apiServer) segment(t *testing.T) string {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.secret == nil {
		return ""
	}
	var stored corev1.Secret
	if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), a.secret, &stored); err != nil {
		t.Fatal(err)
	}
	return "/" + certs.Segment(stored.Data[certs.KeyFile])
}
