package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/ports"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestGracefulStop checks the order of a stop. Readiness fails first, calls are still served during the shutdown delay, and the counts
// that these merge are written.
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t)
	// The delay must be longer than the calls below take.
	s := startServer(t, api, func(o *options) { o.ShutdownDelay = 3 * time.Second })
	o := s.opts
	s.readyForEvents(t)
	callWebhook(t, o.Port, "mutate", "first", true)
	callWebhook(t, o.Port, "mutate", "second", false)

	s.stop()
	cli.Eventually(t, "not ready", func() bool { return get(t, "http://"+o.HealthAddress+"/readyz") == http.StatusInternalServerError })
	if got := get(t, "http://"+o.HealthAddress+"/healthz"); got != http.StatusOK {
		t.Errorf("/healthz answers %d during the stop, want 200", got)
	}
	callWebhook(t, o.Port, "mutate", "third", false)
	if err := <-s.ended; err != nil {
		t.Errorf("run failed: %v", err)
	}
	if got := api.counts(); len(got) != 1 || got["first"] != 3 {
		t.Errorf("written counts are %v, want 3 for first", got)
	}
}

// TestStartsWithoutRedis checks that a replica that starts while Redis is down becomes ready, and merges.
func TestStartsWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	if err := redis.Stop(); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, newAPIServer(t), func(o *options) { o.Redis.Addresses = []string{redis.Addr()} })
	s.readyForEvents(t)
	callWebhook(t, s.opts.Port, "mutate", "first", true)
	callWebhook(t, s.opts.Port, "mutate", "second", false)
	s.stop()
	if err := <-s.ended; err != nil {
		t.Errorf("run failed: %v", err)
	}
}

// TestRunFailsWithItsTasks checks that run stops if an address is in use, with an error that names the flag.
func TestRunFailsWithItsTasks(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for flag, set := range map[string]func(*options){
		"--port":            func(o *options) { o.Port = taken.Addr().(*net.TCPAddr).Port },
		"--health-address":  func(o *options) { o.HealthAddress = taken.Addr().String() },
		"--metrics-address": func(o *options) { o.MetricsAddress = taken.Addr().String() },
	} {
		s := startServer(t, newAPIServer(t), set)
		if err := <-s.ended; err == nil || !strings.HasPrefix(err.Error(), flag+": listen tcp") {
			t.Errorf("run with an address in use: error %v, want one that begins with %s", err, flag)
		}
	}
}

// apiServer has the Event of callWebhook under any name. It accepts the settler's patches, and a Secret.
type apiServer struct {
	*httptest.Server
	mu      sync.Mutex
	written map[string]int32
	secret  []byte // as it was written; nil for an empty Secret
	// noSecrets makes requests for Secrets fail.
	noSecrets bool
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	a := &apiServer{written: map[string]int32{}}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := filepath.Base(r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/events/") {
			_, _ = w.Write(stored(name))
			return
		}
		if name == "subjectaccessreviews" {
			_, _ = io.WriteString(w, `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": {"allowed": true}}`)
			return
		}
		if strings.Contains(r.URL.Path, "/secrets") && !a.noSecrets {
			a.serveSecret(w, r)
			return
		}
		if r.Method == http.MethodGet { // there are no policies and no namespaces
			http.NotFound(w, r)
			return
		}
		var patch corev1.Event
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.written[name] = patch.Count
		_, _ = w.Write(stored(name))
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *apiServer) serveSecret(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Method == http.MethodPut {
		a.secret, _ = io.ReadAll(r.Body)
	}
	if a.secret == nil {
		_, _ = io.WriteString(w, `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "eventquota-serving-cert"}}`)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf) // as the client wrote it
	_, _ = w.Write(a.secret)
}

// counts returns the last written count of each Event by its name.
func (a *apiServer) counts() map[string]int32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.written
}

// backOff returns an Event about a pod in namespace shop.
func backOff(name string) corev1.Event {
	return corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-0"},
		Reason:         "BackOff", Message: "the password is " + password, Type: "Warning",
	}
}

// stored returns the JSON of backOff as the API server has just stored it.
func stored(name string) []byte {
	e := backOff(name)
	e.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}
	e.UID, e.ResourceVersion, e.CreationTimestamp = types.UID("uid of "+name), "1", metav1.Now()
	content, _ := json.Marshal(e) // cannot fail
	return content
}

func (a *apiServer) kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"a",
		"contexts":[{"name":"a","context":{"cluster":"a"}}],
		"clusters":[{"name":"a","cluster":{"server":%q}}]}`, a.URL)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// callWebhook sends a review of a CREATE of backOff(name) to a phase, and checks whether the Event is allowed.
func callWebhook(t *testing.T, port int, phase, name string, allowed bool) {
	t.Helper()
	callWith(t, &tls.Config{}, port, phase, name, "", allowed)
}

// callAs sends such a review to mutate with a traceparent, as an API server with tracing does. Only the name first must be allowed.
func (s *runningServer) callAs(t *testing.T, name, traceparent string) {
	t.Helper()
	callWith(t, &tls.Config{}, s.opts.Port, "mutate", name, traceparent, name == "first")
}

// writer is the user of callWith. apiServer allows everything.
const writer = "system:node:a"

// callWith is callWebhook with a TLS configuration and a traceparent. An empty traceparent is not sent.
func callWith(t *testing.T, config *tls.Config, port int, phase, name, traceparent string, allowed bool) {
	t.Helper()
	event, err := json.Marshal(backOff(name))
	if err != nil {
		t.Fatal(err)
	}
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/v1"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Namespace: "shop",
			UserInfo: authenticationv1.UserInfo{Username: writer},
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Event"},
			Object:   runtime.RawExtension{Raw: event},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	config.InsecureSkipVerify = true
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	defer client.CloseIdleConnections()
	url := fmt.Sprintf("https://127.0.0.1:%d/%s?timeout=30s", port, phase)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(review))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if traceparent != "" {
		request.Header.Set("traceparent", traceparent)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Response.Allowed != allowed {
		t.Errorf("/%s of %s: allowed is %t, want %t", phase, name, answer.Response.Allowed, allowed)
	}
}

// runningServer is a server whose run has been called.
type runningServer struct {
	*server

	stop  context.CancelFunc
	ended chan error // gets the error of run
}

// startServer runs a server on free ports until stop is called. It has no shutdown delay, unless change sets one.
func startServer(t *testing.T, api *apiServer, change func(o *options)) *runningServer {
	t.Helper()
	return startServerWithLog(t, api, logr.Discard(), change)
}

func startServerWithLog(t *testing.T, api *apiServer, log logr.Logger, change func(o *options)) *runningServer {
	t.Helper()
	o := defaultOptions()
	o.Host, o.Port = "127.0.0.1", freePort(t)
	o.CertDir = certificate(t)
	o.HealthAddress = ports.Address(freePort(t))
	o.MetricsAddress, o.MetricsSecure = ports.Address(freePort(t)), false
	o.Kubeconfig = api.kubeconfig(t)
	o.ShutdownDelay, o.Deadline = 0, 10*time.Second // for a busy machine
	change(o)
	s := &runningServer{ended: make(chan error, 1)}
	var err error
	if s.server, err = newServer(o, log); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(t.Context())
	go func() { s.ended <- s.run(ctx) }()
	return s
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := ports.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// certificate returns a directory with a serving certificate.
func certificate(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if _, err := cluster.ServingCertificate(dir, "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// end stops the server and waits until run has returned, so that all traces are sent.
func (s *runningServer) end(t *testing.T) {
	t.Helper()
	s.stop()
	select {
	case err := <-s.ended:
		if err != nil {
			t.Errorf("run failed: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("run did not return within a minute after the stop")
	}
}

// ready waits until the server is ready.
func (s *runningServer) ready(t *testing.T) {
	t.Helper()
	cli.Eventually(t, "ready", func() bool {
		select {
		case err := <-s.ended:
			t.Fatalf("run returned before the server was ready: %v", err)
		default:
		}
		return get(t, "http://"+s.opts.HealthAddress+"/readyz") == http.StatusOK
	})
}

// readyForEvents is ready, and also waits until the server knows that the user of callWith may patch Events, so that Events get no annotation.
func (s *runningServer) readyForEvents(t *testing.T) {
	t.Helper()
	s.ready(t)
	cli.Eventually(t, "the writer's rights are known", func() bool {
		return s.rights.MayPatchEvents("shop", "", &policy.UserInfo{Username: writer})
	})
}
