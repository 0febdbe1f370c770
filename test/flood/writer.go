// Package flood writes Events to the API server of a test cluster as fast as it answers, with many writers and as any
// users. The writers run in a separate process, which the kernel schedules only on an idle CPU.
package flood

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
	// answerTimeout is longer than the API server's own request timeout.
	answerTimeout = 70 * time.Second
)

// Writer creates Events one after the other. It uses HTTP/2 and protobuf, like Kubernetes components, without the
// overhead of client-go, because it shares the machine with the measured programs.
type Writer struct {
	client *http.Client
	url    string
	user   User
	codec  *protobuf.Serializer
	event  corev1.Event
	fill   Generator
	body   bytes.Buffer
}

// User is impersonated by a writer. The zero value means no impersonation: the writer is then an administrator, whose
// requests the API server does not queue.
type User struct {
	Name   string
	Groups []string
}

// ServiceAccount returns the user of a service account.
func ServiceAccount(namespace, name string) User {
	return User{"system:serviceaccount:" + namespace + ":" + name, []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}}
}

// Node returns the user of the i-th node's kubelet.
func Node(i int) User {
	return User{"system:node:node-" + strconv.Itoa(i), []string{"system:nodes", "system:authenticated"}}
}

// NewWriter creates a writer on a connection, which other writers may share.
func NewWriter(client *http.Client, host, namespace string, as User, fill Generator) *Writer {
	return &Writer{
		client: client,
		url:    strings.TrimSuffix(host, "/") + "/api/v1/namespaces/" + namespace + "/events",
		user:   as,
		codec:  protobuf.NewSerializer(scheme.Scheme, scheme.Scheme),
		event: corev1.Event{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
			Count:      1,
		},
		fill: fill,
	}
}

// Answer is the API server's answer to a write.
type Answer struct {
	Status int
	// RetryAfter is the wait that the API server requests, or 0. A write with a RetryAfter has not reached any
	// webhook.
	RetryAfter time.Duration
}

// Write creates the Event with a serial number. run is unique for each run.
func (w *Writer) Write(ctx context.Context, run string, serial int64) (Answer, error) {
	w.event.Name = "flood." + run + "." + strconv.FormatInt(serial, 10)
	w.event.FirstTimestamp = metav1.Now()
	w.event.LastTimestamp = w.event.FirstTimestamp
	w.fill(&w.event, serial)
	w.body.Reset()
	if err := w.codec.Encode(&w.event, &w.body); err != nil {
		return Answer{}, fmt.Errorf("encode an Event: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(w.body.Bytes()))
	if err != nil {
		return Answer{}, err
	}
	request.Header.Set("Content-Type", protobufMedia)
	request.Header.Set("Accept", protobufMedia)
	if w.user.Name != "" {
		request.Header.Set("Impersonate-User", w.user.Name)
		request.Header["Impersonate-Group"] = w.user.Groups
	}
	response, err := w.client.Do(request)
	if err != nil {
		return Answer{}, fmt.Errorf("create an Event: %w", err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return Answer{}, fmt.Errorf("create an Event: %w", err)
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 without the header
	return Answer{response.StatusCode, time.Duration(seconds) * time.Second}, nil
}

// Connect creates a client with its own HTTP/2 connection.
func Connect(config *rest.Config) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true},
		Timeout:   answerTimeout,
	}, nil
}
