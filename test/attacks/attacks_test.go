// Package attacks attacks the real webhook as anyone who reaches its port can.
package attacks

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
	"os"
	"os/exec"
	"strconv"
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

// attacks are all, by what they are.
func attacks() map[string]attack {
	const slow = "POST /mutate?timeout=9000h HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
	return map[string]attack{
		"three that claim 8 MiB and send one byte":    {3, 100, sendAndWait(slow + "Content-Length: 8388608\r\n\r\n{")},
		"1,000 that send a body byte by byte":         {1000, 20, sendByteByByte(slow + "Content-Length: 5000\r\n\r\n{")},
		"100 that send headers byte by byte":          {100, 20, sendByteByByte(slow + "X-Long: ")},
		"1,100 that are connected and say nothing":    {1100, 20, sendAndWait("")},
		"40 that send 7.8 MB":                         {40, 10, sendLongReview},
		"600 that send 20 KB of short headers":        {600, 20, sendAndWait(slow + shortHeaders(20_000))},
		"bodies without an end":                       {8, 2, sendRepeatedly(slow+"Transfer-Encoding: chunked\r\n\r\n", "400\r\n"+strings.Repeat(" ", 1024)+"\r\n")},
		"streams of HTTP/2 that are opened and reset": {8, 20, resetStreams},
	}
}

// attackVariable is the environment variable with the address and the attack for a process of attackers. They have one of
// their own, so that what they keep their own runtime busy with is not taken for what they do to others.
const attackVariable = "EVENTQUOTA_TEST_ATTACK"

// startAttack begins one, and returns when each client has been connected once. stop ends it. From then on all others come
// first on the processors: in the world outside attackers have none of this machine's.
func startAttack(t *testing.T, says, address string) (stop func()) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", attackVariable, address, says))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the attackers said %q: %v", line, err)
	}
	if said, err := exec.CommandContext(t.Context(), "chrt", "--all-tasks", "--idle", "--pid", "0", strconv.Itoa(c.Process.Pid)).CombinedOutput(); err != nil {
		t.Fatalf("put the attackers last: %v\n%s", err, said)
	}
	return func() {
		_ = in.Close() // it has ended where this fails
		if err := c.Wait(); err != nil {
			t.Errorf("the attackers: %v", err)
		}
	}
}

// runAttack is the process of the attackers, until its standard input ends.
func runAttack(does string) {
	address, says, _ := strings.Cut(does, " ")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	attacks()[says].run(ctx, address)
}

// run attacks an address until ctx ends, and says so when each client has been connected once.
func (a attack) run(ctx context.Context, address string) {
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
				c, err := connect(ctx, address)
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
	fmt.Println("connected")
	clients.Wait()
}

// connect makes a connection from an address that others do not have.
func connect(ctx context.Context, address string) (*tls.Conn, error) {
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 5 * time.Second},
		Config:    &tls.Config{InsecureSkipVerify: true},
	}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	secure, ok := c.(*tls.Conn)
	if !ok {
		return nil, errors.New("not a TLS connection")
	}
	return secure, nil
}

// sendAndWait sends a text and waits for the server to end it.
func sendAndWait(text string) func(context.Context, *tls.Conn) {
	return func(_ context.Context, c *tls.Conn) {
		_, _ = io.WriteString(c, text)
		_, _ = io.Copy(io.Discard, c)
	}
}

// shortHeaders are headers of that many bytes, each of another name, which take many times that in memory.
func shortHeaders(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%x:\n", i)
	}
	return b.String()
}

// sendByteByByte sends a text, and then byte after byte.
func sendByteByByte(text string) func(context.Context, *tls.Conn) {
	return func(ctx context.Context, c *tls.Conn) {
		_, err := io.WriteString(c, text)
		pace := rate.NewLimiter(2, 1)
		for err == nil && pace.Wait(ctx) == nil {
			_, err = io.WriteString(c, "x")
		}
	}
}

// sendRepeatedly sends a text, and then another again and again for as long as the server takes it.
func sendRepeatedly(text, more string) func(context.Context, *tls.Conn) {
	return func(_ context.Context, c *tls.Conn) {
		_, err := io.WriteString(c, text)
		for err == nil {
			_, err = io.WriteString(c, more)
		}
	}
}

// sendLongReview sends a review of 7.8 MB.
func sendLongReview(_ context.Context, c *tls.Conn) {
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

// resetStreams opens streams and resets them, as HTTP/2's rapid reset does.
func resetStreams(_ context.Context, c *tls.Conn) {
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
