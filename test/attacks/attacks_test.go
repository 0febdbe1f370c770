// Package attacks tests the real webhook under attacks by anyone who can reach its port, and by a tenant of the cluster.
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

// attack describes clients that open one connection after another and do the same on each. After the first connection of each client, all
// clients together open rate connections per second. The rate is low, because the clients share the machine with the webhook.
type attack struct {
	clients int
	rate    rate.Limit
	do      func(ctx context.Context, c *tls.Conn)
}

// attacks returns all attacks by title. make bench derives names of figures from the titles.
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

// attackVariable is the environment variable with the address and the attack for the process of the attackers. In a separate process,
// they do not slow down the clients whose latency is measured by sharing their Go runtime.
const attackVariable = "EVENTQUOTA_TEST_ATTACK"

// startAttack starts an attack and returns when each client has been connected once. stop ends the attack. The attackers get only idle
// processor time, because real attackers would use other machines.
func startAttack(t *testing.T, title, address string) (stop func()) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", attackVariable, address, title))
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
		t.Fatalf("the attackers printed %q and ended: %v", line, err)
	}
	if output, err := exec.CommandContext(t.Context(), "chrt", "--all-tasks", "--idle", "--pid", "0", strconv.Itoa(c.Process.Pid)).CombinedOutput(); err != nil {
		t.Fatalf("lower the priority of the attackers: %v\n%s", err, output)
	}
	return func() {
		_ = in.Close() // fails only if the process has ended
		if err := c.Wait(); err != nil {
			t.Errorf("the process of the attackers failed: %v", err)
		}
	}
}

// runAttack runs the process of the attackers until its standard input ends. The argument is the value of attackVariable.
func runAttack(value string) {
	address, title, _ := strings.Cut(value, " ")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	attacks()[title].run(ctx, address)
}

// run attacks an address until ctx is done. It prints a line when each client has tried to connect once.
func (a attack) run(ctx context.Context, address string) {
	var clients, connected sync.WaitGroup
	dialing := make(chan struct{}, 8) // limits concurrent dials, because a full listen backlog drops connections
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

// connect opens a TLS connection from an address that only attackers use.
func connect(ctx context.Context, address string) (*tls.Conn, error) {
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 5 * time.Second},
		Config:    &tls.Config{InsecureSkipVerify: true},
	}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	tlsConn, ok := c.(*tls.Conn)
	if !ok {
		return nil, errors.New("not a TLS connection")
	}
	return tlsConn, nil
}

// sendAndWait sends a text and reads until the server closes the connection.
func sendAndWait(text string) func(context.Context, *tls.Conn) {
	return func(_ context.Context, c *tls.Conn) {
		_, _ = io.WriteString(c, text)
		_, _ = io.Copy(io.Discard, c)
	}
}

// shortHeaders returns at least size bytes of headers with short, distinct names, which take many times as much memory.
func shortHeaders(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%x:\n", i)
	}
	return b.String()
}

// sendByteByByte sends a text, and then two more bytes per second.
func sendByteByByte(text string) func(context.Context, *tls.Conn) {
	return func(ctx context.Context, c *tls.Conn) {
		_, err := io.WriteString(c, text)
		pace := rate.NewLimiter(2, 1)
		for err == nil && pace.Wait(ctx) == nil {
			_, err = io.WriteString(c, "x")
		}
	}
}

// sendRepeatedly sends a text, and then repeats another one until the connection fails.
func sendRepeatedly(text, more string) func(context.Context, *tls.Conn) {
	return func(_ context.Context, c *tls.Conn) {
		_, err := io.WriteString(c, text)
		for err == nil {
			_, err = io.WriteString(c, more)
		}
	}
}

// sendLongReview sends a review of 7.8 MB and reads the answer.
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

// longReview returns the review of an Event with a message of 7.8 MB.
var longReview = sync.OnceValues(func() ([]byte, error) {
	return reviewOf("long", strings.Repeat("long ", 7_800_000/5))
})

// resetStreams opens HTTP/2 streams and resets them at once, as the rapid reset attack does.
func resetStreams(_ context.Context, c *tls.Conn) {
	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for _, field := range []string{":method POST", ":scheme https", ":path /mutate", ":authority a"} {
		name, value, _ := strings.Cut(field, " ")
		_ = encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) // writes to a Buffer never fail
	}
	_, err := io.WriteString(c, http2.ClientPreface)
	frames := http2.NewFramer(c, c)
	for stream := uint32(1); err == nil; stream += 2 {
		err = errors.Join(
			frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: headers.Bytes(), EndHeaders: true}),
			frames.WriteRSTStream(stream, http2.ErrCodeCancel))
	}
}
