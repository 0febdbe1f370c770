package replicas

import (
	"context"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// forward leads from a local address to a port of a pod. A nil one is closed.
type forward struct {
	address string
	stop    chan struct{}
	ended   chan struct{}
	err     error // why it ended
}

// newForward forwards a port as kubectl does: by WebSockets, or by SPDY where these are not understood.
func newForward(ctx context.Context, config *rest.Config, client kubernetes.Interface, pod *corev1.Pod, port int32) (*forward, error) {
	failed := func(err error) (*forward, error) {
		return nil, fmt.Errorf("forward a port to pod %s: %w", pod.Name, err)
	}
	config = rest.CopyConfig(config)
	config.Timeout = 0 // it stays open
	u := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return failed(err)
	}
	sockets, err := portforward.NewSPDYOverWebsocketDialer(u, config)
	if err != nil {
		return failed(err)
	}
	dialer := portforward.NewFallbackDialer(sockets, spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u), func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	f := &forward{stop: make(chan struct{}), ended: make(chan struct{})}
	ready := make(chan struct{})
	ports, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprint("0:", port)}, f.stop, ready, io.Discard, io.Discard)
	if err != nil {
		return failed(err)
	}
	go func() {
		f.err = ports.ForwardPorts()
		close(f.ended)
	}()
	select {
	case <-ready:
	case <-f.ended:
		return failed(f.err)
	case <-ctx.Done():
		f.close()
		return failed(ctx.Err())
	}
	all, err := ports.GetPorts()
	if err != nil {
		f.close()
		return failed(err)
	}
	f.address = fmt.Sprint("127.0.0.1:", all[0].Local)
	return f, nil
}

// open reports whether it still leads there.
func (f *forward) open() bool {
	if f == nil {
		return false
	}
	select {
	case <-f.ended:
		return false
	default:
		return true
	}
}

func (f *forward) close() {
	if f != nil {
		close(f.stop)
	}
}
