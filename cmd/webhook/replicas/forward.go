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

// forward leads from a local address to a port of a pod, until it is closed or ends by itself.
type forward struct {
	address string
	close   context.CancelFunc
	ended   <-chan struct{}
}

// newForward forwards a port as kubectl does: by WebSockets, or by SPDY where these are not understood.
func newForward(ctx context.Context, config *rest.Config, client kubernetes.Interface, pod *corev1.Pod, port int32) (_ *forward, err error) {
	lives, end := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			end()
			err = fmt.Errorf("forward a port to pod %s: %w", pod.Name, err)
		}
	}()
	config = rest.CopyConfig(config)
	config.Timeout = 0 // it stays open
	u := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	sockets, err := portforward.NewSPDYOverWebsocketDialer(u, config)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialer(sockets, spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u), func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	ready := make(chan struct{})
	ports, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprint("0:", port)}, lives.Done(), ready, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	var why error
	go func() {
		defer close(ended)
		why = ports.ForwardPorts()
	}()
	select {
	case <-ready:
	case <-ended:
		return nil, fmt.Errorf("it has ended: %w", why)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	all, err := ports.GetPorts()
	if err != nil {
		return nil, err
	}
	return &forward{address: fmt.Sprint("127.0.0.1:", all[0].Local), close: end, ended: ended}, nil
}

// open reports whether it still leads there.
func (f *forward) open() bool {
	select {
	case <-f.ended:
		return false
	default:
		return true
	}
}
