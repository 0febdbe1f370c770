package replicas

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// forward forwards a local address to a port of the pod whose portforward subresource is at u, until end is called. Like kubectl, it
// uses WebSockets, or SPDY if something in between does not support WebSockets.
func forward(ctx context.Context, config *rest.Config, u *url.URL, port int32) (address string, end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	config = rest.CopyConfig(config)
	config.Timeout = 0 // the connection stays open
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return "", nil, err
	}
	webSockets, err := portforward.NewSPDYOverWebsocketDialer(u, config)
	if err != nil {
		return "", nil, err
	}
	dialer := portforward.NewFallbackDialer(webSockets, spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u), func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ports, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprint("0:", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return "", nil, err
	}
	go func() { ended <- ports.ForwardPorts() }()
	end = sync.OnceFunc(func() { close(stop) })
	select {
	case <-ready:
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		var all []portforward.ForwardedPort
		if all, err = ports.GetPorts(); err == nil {
			return fmt.Sprint("127.0.0.1:", all[0].Local), end, nil
		}
	}
	end()
	return "", nil, err
}
