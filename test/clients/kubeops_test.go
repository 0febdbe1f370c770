package clients

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
)

// kubeOpsVersion is the version of dotnet/dotnet-operator-sdk whose source was read, commit 4cac106a.
const kubeOpsVersion = "13.1.3"

// kubeOps is a play of KubeOps (src/KubeOps.Operator/Events/KubeOpsEventPublisherFactory.cs:23-94). It gets the Event by its name, and posts
// it with a count of 1, or puts what it got with a count of one more. It sends nothing again: C#'s client does not either.
type kubeOps struct{ *play }

func startKubeOps(s *session) (client, error) {
	p, err := newPlay(s)
	return kubeOps{p}, err
}

func (k kubeOps) publish(ctx context.Context, namespace string, some []occurrence) error {
	for _, o := range some {
		now, name := micro(k.tick()), nameOf(o)
		path := eventsPath(coreAPI, namespace)
		found, err := k.send(ctx, http.MethodGet, path+"/"+name, nil)
		if err != nil {
			return err
		}
		var s status
		if found.code == http.StatusNotFound {
			s, err = k.send(ctx, http.MethodPost, path, coreEvent(namespace, name, "dotnet-operator", now, o))
		} else {
			event := found.body
			event["count"], event["lastTimestamp"] = event["count"].(float64)+1, now
			s, err = k.send(ctx, http.MethodPut, path+"/"+name, event)
		}
		if err != nil {
			return err
		}
		switch {
		case s.reason == metav1.StatusReasonConflict:
			k.observed.lose(namespace)
		case s.failed():
			k.observed.add(namespace, admission.LogsError, 1)
		}
	}
	return nil
}

// nameOf returns the name of the Event of an occurrence and its repeats, as KubeOpsEventResourceFactory.cs:31 makes it.
func nameOf(o occurrence) string {
	sum := sha512.Sum512([]byte(o.object + "." + o.object + "." + o.reason + "." + o.message + ".Normal"))
	return hex.EncodeToString(sum[:])
}
