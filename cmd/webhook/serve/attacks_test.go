package serve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/time/rate"
)

// attack is what clients do on connection after connection. All together make so many a second once each has made one:
// clients share the processors with what they attack.
type attack struct {
	clients int
	rate    rate.Limit
	do      func(ctx context.Context, c *tls.Conn)
}

// start begins it, and returns when each client has been connected once. stop ends it.
func (a attack) start(t *testing.T, port int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var clients, connected sync.WaitGroup
	dialing := make(chan struct{}, 8) // at a time: a backlog that is full would lose some
	pace := rate.NewLimiter(a.rate, a.clients)
	for range a.clients {
		connected.Add(1)
		first := sync.OnceFunc(connected.Done)
		clients.Go(func() {
			defer first()
			for pace.Wait(ctx) == nil {
				dialing <- struct{}{}
				c, err := connect(ctx, port)
				<-dialing
				first()
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { c.NetConn().Close() })
				a.do(ctx, c)
				stop()
				c.NetConn().Close()
			}
		})
	}
	connected.Wait()
	return func() {
		cancel()
		clients.Wait()
	}
}

// connect makes a connection from an address that others do not have.
func connect(ctx context.Context, port int, protocols ...string) (*tls.Conn, error) {
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 5 * time.Second},
		Config:    &tls.Config{InsecureSkipVerify: true, NextProtos: protocols},
	}
	c, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	secure, ok := c.(*tls.Conn)
	if !ok {
		return nil, errors.New("not a TLS connection")
	}
	return secure, nil
}

// held sends a text and waits for the server to end it.
func held(text string) func(context.Context, *tls.Conn) {
	return func(_ context.Context, c *tls.Conn) {
		_, _ = io.WriteString(c, text)
		_, _ = io.Copy(io.Discard, c)
	}
}

// trickled sends a text, and then byte after byte.
func trickled(text string) func(context.Context, *tls.Conn) {
	return func(ctx context.Context, c *tls.Conn) {
		_, err := io.WriteString(c, text)
		pace := rate.NewLimiter(2, 1)
		for err == nil && pace.Wait(ctx) == nil {
			_, err = io.WriteString(c, "x")
		}
	}
}

// flooded sends a text, and then another again and again for as long as the server takes it.
func flooded(text, more string) func(context.Context, *tls.Conn) {
	return func(_ context.Context, c *tls.Conn) {
		_, err := io.WriteString(c, text)
		for err == nil {
			_, err = io.WriteString(c, more)
		}
	}
}

// long sends a review of 7.8 MB.
func long(_ context.Context, c *tls.Conn) {
	review, err := longReview()
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(c, "POST /mutate?timeout=9000h HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(review))
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if response, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
			response.Body.Close()
		}
		c.NetConn().Close()
	}()
	_, _ = c.Write(review)
	<-answered
}

var longReview = sync.OnceValues(func() ([]byte, error) {
	return reviewOf("long", strings.Repeat("long ", 7_800_000/5))
})

// reset opens streams and resets them, as HTTP/2's rapid reset does.
func reset(_ context.Context, c *tls.Conn) {
	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for _, field := range []string{":method POST", ":scheme https", ":path /mutate", ":authority a"} {
		name, value, _ := strings.Cut(field, " ")
		_ = encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) // a Buffer never fails
	}
	_, err := io.WriteString(c, http2.ClientPreface)
	frames := http2.NewFramer(c, c)
	for stream := uint32(1); err == nil; stream += 2 {
		err = errors.Join(
			frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: headers.Bytes(), EndHeaders: true}),
			frames.WriteRSTStream(stream, http2.ErrCodeCancel))
	}
}
