// Package replicas is how commands ask what replicas know: one of them answers for all that share its Redis.
package replicas

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eventquota/eventquota/cmd/webhook/text"
)

// Bounds of one question to a replica. What it answers is far shorter.
const (
	timeout  = 10 * time.Second
	maxBytes = 16 << 20
)

// Replica is one that can be asked. It is for one goroutine at a time.
type Replica struct {
	name string // what errors call it
	url  *url.URL
	// transport is called for each question, and so is token; empty for none.
	transport func() (*http.Transport, error)
	token     func(context.Context) (string, error)
	// Close ends what leads to it.
	Close func()
}

// Get asks for path, such as /busiest, with query, and puts the JSON it gets into what into points to. It
// takes 10 s at most and follows no redirection, so that a token goes nowhere else.
func (r *Replica) Get(ctx context.Context, path string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u := r.url.JoinPath(path)
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	token, err := r.token(ctx)
	if err != nil {
		return err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport, err := r.transport()
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && string(plain.RecordHeader[:4]) == "HTTP" {
		return fmt.Errorf("%s: serves metrics without TLS: use an --endpoint with http", r.name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return r.refused(response, token)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxBytes)).Decode(into); err != nil {
		return fmt.Errorf("%s: the answer to %s is not what a replica says: %w", r.name, path, err)
	}
	return nil
}

// refused says in one line what an answer other than 200 means.
func (r *Replica) refused(response *http.Response, token string) error {
	const most = 256 // bytes of what the other side says
	said, _ := io.ReadAll(io.LimitReader(response.Body, most))
	says := r.name + ": " + response.Status
	if more := strings.TrimSpace(text.Visible(string(said))); more != "" {
		says += ": " + more
	}
	switch {
	case response.StatusCode == http.StatusUnauthorized && token == "":
		says += "; it wants a token, see --endpoint-token-file"
	case response.StatusCode == http.StatusNotFound:
		says += "; is it the metrics address of a replica of this version?"
	}
	return errors.New(says)
}
