package clients

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/eventquota/eventquota/admission"
)

// kubeRSVersion is the version of kube-rs/kube whose source was read, commit ac95b199.
const kubeRSVersion = "4.2.0"

// kubeRSTries is the number of retries of server_retry() (kube-client/src/client/retry.rs:108).
const kubeRSTries = 15

// kubeRS is a play of the Recorder of kube-rs (kube-runtime/src/events.rs:308-354). It keeps the Event that it sent, after success only. Then
// it counts and sends the whole of it as a merge patch.
type kubeRS struct {
	*play
	cache map[string]object // by what get_event_key has of an occurrence, which is not the note
}

func startKubeRS(s *session) (client, error) {
	p, err := newPlay(s)
	return &kubeRS{p, map[string]object{}}, err
}

func (k *kubeRS) publish(ctx context.Context, namespace string, some []occurrence) error {
	for _, o := range some {
		if err := k.publishOne(ctx, namespace, o); err != nil {
			return err
		}
	}
	return nil
}

func (k *kubeRS) publishOne(ctx context.Context, namespace string, o occurrence) error {
	now := k.tick()
	key := fmt.Sprint(namespace, "/", o.object, "/", o.reason)
	event, path, method := maps.Clone(k.cache[key]), eventsPath(eventsAPI, namespace), http.MethodPatch
	if event == nil {
		method = http.MethodPost
		event = object{
			"metadata": object{"name": fmt.Sprintf("%s.%x", o.object, now.UnixNano()), "namespace": namespace},
			"action":   "Sync", "reason": o.reason, "note": o.message, "type": "Normal", "eventTime": micro(now),
			"regarding":           object{"apiVersion": "example.com/v1", "kind": "Widget", "name": o.object, "namespace": namespace, "uid": o.object},
			"reportingController": "widget-operator", "reportingInstance": "widget-operator",
		}
	} else {
		path += "/" + event["metadata"].(object)["name"].(string)
		count := 2
		if series, ok := event["series"].(object); ok {
			count = series["count"].(int) + 1
		}
		event["series"] = object{"count": count, "lastObservedTime": micro(now)}
	}
	s, err := k.sendAgain(ctx, kubeRSTries, kubeRSSendsAgain, method, path, event)
	if err != nil {
		return err
	}
	if s.failed() {
		k.observed.add(namespace, admission.ReturnsError, 1)
		return nil
	}
	k.cache[key] = event
	return nil
}

// kubeRSSendsAgain is the choice of kube-client/src/client/retry.rs:113-119.
func kubeRSSendsAgain(code int) bool {
	return slices.Contains([]int{http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, code)
}
