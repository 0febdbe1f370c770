package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

const (
	protobufMedia = "application/vnd.kubernetes.protobuf"
	// answeredWithin is more than the API server gives itself and its webhooks.
	answeredWithin = 30 * time.Second
)

// writer creates Events, one after the other. It speaks HTTP/2 and protobuf, as
// the components of Kubernetes do, but leaves out what client-go does around
// that: the client shares the machine with what is measured. It is the
// administrator, whose requests the API server does not queue.
type writer struct {
	client *http.Client
	url    string
	codec  *protobuf.Serializer
	event  corev1.Event
	fill   generator
	body   bytes.Buffer
}

// newWriter makes a writer on a connection, which it may share.
func newWriter(client *http.Client, host, namespace string, fill generator) *writer {
	return &writer{
		client: client,
		url:    strings.TrimSuffix(host, "/") + "/api/v1/namespaces/" + namespace + "/events",
		codec:  protobuf.NewSerializer(scheme.Scheme, scheme.Scheme),
		event: corev1.Event{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
			Count:      1,
		},
		fill: fill,
	}
}

// write creates the Event of a serial number within a run and returns the
// status code of the answer.
func (w *writer) write(ctx context.Context, run string, serial int64) (status int, err error) {
	w.event.Name = "bench." + run + "." + strconv.FormatInt(serial, 10)
	w.event.FirstTimestamp = metav1.Now()
	w.event.LastTimestamp = w.event.FirstTimestamp
	w.fill(&w.event, serial)
	w.body.Reset()
	if err := w.codec.Encode(&w.event, &w.body); err != nil {
		return 0, fmt.Errorf("encode an Event: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(w.body.Bytes()))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", protobufMedia)
	request.Header.Set("Accept", protobufMedia)
	response, err := w.client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("create an Event: %w", err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0, fmt.Errorf("create an Event: %w", err)
	}
	return response.StatusCode, nil
}

// connect makes a client with one HTTP/2 connection of its own.
func connect(config *rest.Config) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true},
		Timeout:   answeredWithin,
	}, nil
}
