package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/flood"
)

// watchEvents starts n watches of the Events in all namespaces, each on its own connection. It returns when the API server has accepted
// all watches. stop ends them.
func watchEvents(ctx context.Context, c *cluster.Cluster, n int) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	stop = func() {
		cancel()
		watching.Wait()
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	list, err := clients.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list Events: %w", err)
	}
	url := strings.TrimSuffix(c.Config.Host, "/") + "/api/v1/events?watch=true&resourceVersion=" + list.ResourceVersion
	for range n {
		client, err := flood.Connect(c.Config)
		if err != nil {
			return nil, err
		}
		client.Timeout = 0 // a watch is endless
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return nil, err
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, fmt.Errorf("watch Events: %w", err)
		}
		watching.Go(func() {
			_, _ = io.Copy(io.Discard, response.Body) // returns after stop
			response.Body.Close()
			client.CloseIdleConnections()
		})
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("watch Events: got status %s", response.Status)
		}
	}
	return stop, nil
}
