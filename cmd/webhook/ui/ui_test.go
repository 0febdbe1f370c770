package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
	"github.com/eventquota/eventquota/test/cli"
)

func TestBadFlagsReturnOneError(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"an argument":                   {[]string{"pods"}, `unknown command "pods" for "eventquota ui"`},
		"no kubeconfig":                 {[]string{"--kubeconfig", "/nowhere"}, "ui: --kubeconfig: "},
		"an endpoint without a scheme":  {[]string{"--endpoint", "127.0.0.1"}, "ui: --endpoint: must be http://host:port or https://host:port"},
		"an empty namespace":            {[]string{"--namespace="}, `invalid argument "" for "-n, --namespace" flag: must not be empty`},
		"a privileged port":             {[]string{"--port", "80"}, "--port 80: must be 0, or from 1024 to 65535"},
		"a port above the range":        {[]string{"--port", "65536"}, "--port 65536: must be 0, or from 1024 to 65535"},
		"a negative port":               {[]string{"--port", "-1"}, "--port -1: must be 0, or from 1024 to 65535"},
		"an interval that is too short": {[]string{"--interval", "1s"}, "--interval 1s: must be from 2s to 1h"},
		"an interval that is too long":  {[]string{"--interval", "61m"}, "--interval 1h1m0s: must be from 2s to 1h"},
	} {
		t.Run(name, func(t *testing.T) {
			cli.WantError(t, cli.WithRoot(Command()), test.want, append([]string{"ui"}, test.args...)...)
		})
	}
	help, _, err := cli.Run(t, cli.WithRoot(Command()), strings.NewReader(""), "ui", "--help")
	if err != nil {
		t.Error(err)
	}
	cli.CompareGolden(t, "testdata/help.txt", help)
}

// storm is a replica whose counts grow with each poll. It may fail.
type storm struct {
	*httptest.Server

	failing atomic.Bool
	polls   atomic.Int64
}

func newStorm(t *testing.T) *storm {
	t.Helper()
	s := &storm{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/live" {
			t.Errorf("unexpected request for %s", r.URL)
		}
		if s.failing.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		n := s.polls.Add(1)
		shop := busiest.Counts{Admitted: n, Merged: 2 * n, Dropped: 7 * n}
		live := busiest.Live{Sum: busiest.Sum{
			Replicas: []busiest.Replica{{Name: "a", At: time.Now()}},
			Rankings: map[busiest.Dimension]busiest.Ranking{busiest.Namespace: {Total: shop, Rows: []busiest.Row{{Name: "shop", Counts: shop}}}},
		}, Now: time.Now()}
		_ = json.NewEncoder(w).Encode(live)
	}))
	t.Cleanup(s.Close)
	return s
}

// ui is a running command.
type ui struct {
	url   string
	end   context.CancelFunc
	ended chan error
	rest  *bufio.Reader
}

// newUI runs the command with a shorter interval than its flag allows.
func newUI(t *testing.T, o *options) *ui {
	t.Helper()
	o.Interval = 10 * time.Millisecond
	ctx, end := context.WithCancel(t.Context())
	out, in := io.Pipe()
	u := &ui{end: end, ended: make(chan error, 1), rest: bufio.NewReader(out)}
	go func() {
		err := o.run(ctx, in)
		_ = in.Close() // cannot fail
		u.ended <- err
	}()
	t.Cleanup(end)
	line, err := u.rest.ReadString('\n')
	if err != nil {
		t.Fatalf("ui printed no address: %v", <-u.ended)
	}
	u.url = strings.TrimSpace(line)
	go func() { _, _ = io.Copy(io.Discard, u.rest) }()
	return u
}

// stream is a stream of server-sent events.
type stream struct {
	t    *testing.T
	body *bufio.Reader
}

func (u *ui) follow(t *testing.T, client *http.Client, query string) *stream {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.url+"live?"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("status %s, content type %s, want 200 text/event-stream", response.Status, got)
	}
	return &stream{t, bufio.NewReader(response.Body)}
}

// next reads the next message, and the name of its server-sent event.
func (s *stream) next() (event string, m message) {
	s.t.Helper()
	var lines [3]string
	for i := range lines {
		line, err := s.body.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the stream ended without the event end: %v after %q", err, lines)
		}
		lines[i] = strings.TrimSuffix(line, "\n")
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(lines[1], "data: ")), &m); err != nil || lines[2] != "" {
		s.t.Fatalf("%q is not a message: %v", lines, err)
	}
	return strings.TrimPrefix(lines[0], "event: "), m
}

// until reads the stream until wanted returns true, and returns that message.
func (s *stream) until(wanted func(event string, m *message) bool) message {
	s.t.Helper()
	for {
		if event, m := s.next(); wanted(event, &m) {
			return m
		}
	}
}

func client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestStreamSurvivesReplicaOutage(t *testing.T) {
	replica := newStorm(t)
	u := newUI(t, &options{Replicas: &replicas.Options{Endpoint: replica.URL}})
	web := client(t)
	s, other := u.follow(t, web, "by=namespace"), u.follow(t, web, "by=quota&sort=dropped")
	m := s.until(func(_ string, m *message) bool { return m.Seconds > 0 })
	if len(m.Rows) != 1 || m.Rows[0].Name != "shop" || m.Rates.Dropped <= 0 || m.Rows[0].Rates.Dropped != m.Rates.Dropped || m.Replicas != 1 || len(m.Timeline) == 0 {
		t.Errorf("the message is %+v, want the row shop with its rates", m)
	}
	replica.failing.Store(true)
	m = s.until(func(_ string, m *message) bool { return m.Problem != "" })
	if !strings.Contains(m.Problem, "503 Service Unavailable: down") || len(m.Rows) != 1 {
		t.Errorf("the message is %+v during the outage, want the problem and the last row", m)
	}
	replica.failing.Store(false)
	s.until(func(_ string, m *message) bool { return m.Problem == "" && m.Seconds > 0 })
	u.end()
	for _, s := range []*stream{s, other} {
		s.until(func(event string, _ *message) bool { return event == "end" })
		if more, err := s.body.ReadString('\n'); err != io.EOF {
			t.Errorf("after the event end: %q, error %v, want EOF", more, err)
		}
	}
	if err := <-u.ended; err != nil {
		t.Errorf("ui failed: %v", err)
	}
	at, err := url.Parse(u.url)
	if err != nil {
		t.Fatal(err)
	}
	var dialer net.Dialer
	if c, err := dialer.DialContext(t.Context(), "tcp", at.Host); err == nil {
		c.Close()
		t.Error("the port is still open")
	}
}

func TestPageListensOnLoopbackOnly(t *testing.T) {
	u := newUI(t, &options{Replicas: &replicas.Options{Endpoint: newStorm(t).URL}})
	at, err := url.Parse(u.url)
	if err != nil || at.Scheme != "http" || at.Hostname() != "127.0.0.1" || at.Port() == "0" || len(at.Path) < 28 {
		t.Errorf("the address is %s, error %v, want http://127.0.0.1:PORT/TOKEN/", u.url, err)
	}
	var dialer net.Dialer
	for _, host := range []string{"127.0.0.2", "::1"} { // other addresses of this machine
		if c, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(host, at.Port())); err == nil {
			c.Close()
			t.Errorf("%s accepted a connection", host)
		}
	}
	u.end()
	if err := <-u.ended; err != nil {
		t.Error(err)
	}
}

func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // it does not block
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at, ok := taken.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("%s is not a TCP address", taken.Addr())
	}
	o := &options{Replicas: &replicas.Options{Endpoint: newStorm(t).URL}, Port: at.Port, Interval: time.Hour}
	if err := o.run(t.Context(), io.Discard); err == nil || !strings.HasPrefix(err.Error(), "--port: ") {
		t.Errorf("error %v, want one about --port", err)
	}
}

// TestSlowBrowserBlocksNobody has a browser that reads nothing. Another one still gets all messages.
func TestSlowBrowserBlocksNobody(t *testing.T) {
	u := newUI(t, &options{Replicas: &replicas.Options{Endpoint: newStorm(t).URL}})
	web := client(t)
	u.follow(t, web, "")
	s := u.follow(t, web, "")
	for range 50 {
		s.next()
	}
	u.end()
	if err := <-u.ended; err != nil {
		t.Error(err)
	}
}

func TestStreamOfUnknownSelection(t *testing.T) {
	p := newPage(address, newLatestView(), explainNothing)
	for query, want := range map[string]string{
		"by=cluster":                "by: must be one of quota, namespace, source, object, reason, policy\n",
		"by=source&sort=%3Cscript>": "sort: must be one of total, admitted, merged, dropped\n",
		"by=%zz":                    "the query is malformed\n",
	} {
		if w := getPage(t, p, "/live?"+query, nil); w.Code != http.StatusBadRequest || w.Body.String() != want {
			t.Errorf("query %s: status %d, body %q, want 400, %q", query, w.Code, w.Body, want)
		}
	}
}
