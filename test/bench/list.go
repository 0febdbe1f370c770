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

// churnPerSecond is how many Events a churn of pods makes for each second of a measurement.
const churnPerSecond = 4000

// churn is what is left of the Events of a churn of pods.
type churn struct {
	name      string // with or without eventquota, in the names of the figures
	namespace string
}

// writeChurns writes the Events of a wide storm twice, with eventquota under a quota and without, and returns when all is settled.
func (b *testEnv) writeChurns(ctx context.Context, events int64) (all []*churn, err error) {
	for _, s := range []scenario{
		{name: "without", event: flood.Wide},
		{name: "with", event: flood.Wide, webhook: &webhook{realWebhook, nil}, limit: wideLimit()},
	} {
		namespace := "list-" + s.name
		e, err := b.newEntrant(ctx, s, namespace)
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

// measureList measures a LIST of all Events that are left, in JSON, as an administrator gets it without compression.
func (b *testEnv) measureList(ctx context.Context, of *churn, to figures) error {
	config := rest.CopyConfig(b.cluster.Config)
	config.DisableCompression = true
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	begun := time.Now()
	content, err := clients.CoreV1().RESTClient().Get().Namespace(of.namespace).Resource("events").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("list Events: %w", err)
	}
	to["list_ms_"+of.name] = float64(time.Since(begun)) / float64(time.Millisecond)
	to["list_bytes_"+of.name] = float64(len(content))
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(content, &list); err != nil {
		return fmt.Errorf("list Events: %w", err)
	}
	to["list_events_"+of.name] = float64(len(list.Items))
	return nil
}
