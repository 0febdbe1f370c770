package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Etcd calls etcd's gRPC gateway, which has the methods of etcdctl as JSON over HTTP. The path is that of a method, such as
// v3/maintenance/status, request its fields, and response, if not nil, receives the answer. In both, 64-bit numbers are strings and
// bytes are base64. An answer other than 200 is an error with etcd's text.
func (c *Cluster) Etcd(ctx context.Context, path string, request, response any) error {
	content, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("call etcd's %s: %w", path, err)
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, c.plane.Etcd.URL.JoinPath(path).String(), bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("call etcd's %s: %w", path, err)
	}
	answer, err := http.DefaultClient.Do(call)
	if err != nil {
		return fmt.Errorf("call etcd's %s: %w", path, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("call etcd's %s: %w", path, err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("call etcd's %s: status %d: %s", path, answer.StatusCode, body)
	}
	if response == nil {
		return nil
	}
	if err := json.Unmarshal(body, response); err != nil {
		return fmt.Errorf("call etcd's %s: %w", path, err)
	}
	return nil
}

// EtcdURL returns the URL of etcd's client port, without a slash at its end.
func (c *Cluster) EtcdURL() string { return c.plane.Etcd.URL.String() }
