package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/flood"
)

// churnPerSecond is the number of Events in a churn of pods for each second that a measurement takes.
const churnPerSecond = 4000

// churn names a namespace in which Events of a churn of pods are stored.
type churn struct {
	name      string // with or without, the suffix of the figures' names
	namespace string
}

// writeChurns writes the Events of a wide storm twice: without eventquota, and with eventquota and a quota. It returns after the webhook
// has written its pending counts and notices.
func (env *testEnv) writeChurns(ctx context.Context, events int64) (all []*churn, err error) {
	for _, s := range []scenario{
		{name: "without", event: flood.Wide},
		{name: "with", event: flood.Wide, webhook: &webhook{realWebhook, nil}, limit: wideLimit()},
	} {
		namespace := "list-" + s.name
		e, err := env.newEntrant(ctx, s, namespace)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", namespace, err)
		}
		begun := time.Now()
		if err := e.load.writeUntil(ctx, events); err != nil {
			return nil, fmt.Errorf("%s: %w", namespace, err)
		}
		if err := e.stop(); err != nil {
			return nil, err
		}
		progress("%s: %d Events of a churn of pods in %.0f s", namespace, events, time.Since(begun).Seconds())
		all = append(all, &churn{s.name, namespace})
	}
	return all, nil
}

// measureList measures a LIST of all stored Events of a churn, in JSON and without compression. It adds milliseconds, bytes and the
// number of Events to result.
func (env *testEnv) measureList(ctx context.Context, c *churn, result figures) error {
	config := rest.CopyConfig(env.cluster.Config)
	config.DisableCompression = true
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	begun := time.Now()
	content, err := clients.CoreV1().RESTClient().Get().Namespace(c.namespace).Resource("events").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("list Events: %w", err)
	}
	result["list_ms_"+c.name] = float64(time.Since(begun)) / float64(time.Millisecond)
	result["list_bytes_"+c.name] = float64(len(content))
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(content, &list); err != nil {
		return fmt.Errorf("decode the list of Events: %w", err)
	}
	result["list_events_"+c.name] = float64(len(list.Items))
	return nil
}
