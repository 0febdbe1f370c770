package clients

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
)

// fabric8Version is the version of fabric8io/kubernetes-client whose source was read, commit ceb92181. Strimzi was read at 8541da1e.
const fabric8Version = "7.8.0"

// fabric8Tries is the default of requestRetryBackoffLimit (Config.java:135).
const fabric8Tries = 10

// fabric8SendsAgain is the choice of StandardHttpClient.java:177-211, for any method.
func fabric8SendsAgain(code int) bool {
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// strimzi is a play of Strimzi, which creates Events in events.k8s.io with generateName (KubernetesRestartEventPublisher.java:96-112).
type strimzi struct{ *play }

func startStrimzi(s *session) (client, error) {
	p, err := newPlay(s)
	return strimzi{p}, err
}

func (f strimzi) publish(ctx context.Context, namespace string, some []occurrence) error {
	for _, o := range some {
		s, err := f.sendAgain(ctx, fabric8Tries, fabric8SendsAgain, http.MethodPost, eventsPath(eventsAPI, namespace), object{
			"metadata": object{"generateName": "strimzi-event"},
			"action":   "StrimziInitiatedPodRestart", "reason": o.reason, "note": o.message, "type": "Normal", "eventTime": micro(f.tick()),
			"regarding":           object{"kind": "Kafka", "name": o.object, "namespace": namespace},
			"related":             object{"kind": "Pod", "name": o.object + "-0", "namespace": namespace},
			"reportingController": "strimzi.io/cluster-operator", "reportingInstance": "operator-1",
		})
		if err != nil {
			return err
		}
		if s.failed() {
			f.observed.add(namespace, admission.ReturnsError, 1)
		}
	}
	return nil
}

// update is a play of a program that reads an Event, adds one to its count and calls fabric8's update(). It does not use replace(), which
// sends a PUT again after any 409 (HasMetadataOperation.java:148-209), as docs/clients.md says.
type update struct{ *play }

func startUpdate(s *session) (client, error) {
	p, err := newPlay(s)
	return update{p}, err
}

func (f update) publish(ctx context.Context, namespace string, some []occurrence) error {
	for _, o := range some {
		s, err := f.publishOne(ctx, namespace, o)
		if err != nil {
			return err
		}
		switch {
		case s.reason == metav1.StatusReasonConflict:
			f.observed.lose(namespace)
		case s.failed():
			f.observed.add(namespace, admission.ReturnsError, 1)
		}
	}
	return nil
}

func (f update) publishOne(ctx context.Context, namespace string, o occurrence) (status, error) {
	name, now := nameOf(o), micro(f.tick())
	path := eventsPath(coreAPI, namespace)
	found, err := f.sendAgain(ctx, fabric8Tries, fabric8SendsAgain, http.MethodGet, path+"/"+name, nil)
	if err != nil {
		return found, err
	}
	if found.code == http.StatusNotFound {
		return f.sendAgain(ctx, fabric8Tries, fabric8SendsAgain, http.MethodPost, path, coreEvent(namespace, name, "java-operator", now, o))
	}
	event := found.body
	event["count"], event["lastTimestamp"] = event["count"].(float64)+1, now
	return f.sendAgain(ctx, fabric8Tries, fabric8SendsAgain, http.MethodPut, path+"/"+name, event)
}

// coreEvent returns the first Event of an occurrence, of a client that counts.
func coreEvent(namespace, name, component, now string, o occurrence) object {
	return object{
		"metadata": object{"name": name, "namespace": namespace},
		"type":     "Normal", "reason": o.reason, "message": o.message,
		"reportingComponent": component, "reportingInstance": "host-1", "source": object{"component": component},
		"involvedObject": object{"apiVersion": "example.com/v1", "kind": "Widget", "name": o.object, "namespace": namespace, "uid": o.object},
		"firstTimestamp": now, "lastTimestamp": now, "count": 1,
	}
}
