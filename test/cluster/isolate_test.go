package cluster

import (
	"net"
	"testing"
)

func TestIsolated(t *testing.T) {
	if !Isolated(t) {
		return
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	if len(interfaces) != 1 || interfaces[0].Name != "lo" {
		t.Errorf("interfaces %v, want lo alone", interfaces)
	}
	for _, address := range []string{"127.0.0.1:0", "10.77.0.11:0", "10.77.0.12:0"} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Errorf("listen on %s: %v", address, err)
			continue
		}
		defer l.Close()
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Errorf("reach %s: %v", address, err)
			continue
		}
		defer connection.Close()
	}
	if connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", "192.0.2.1:80"); err == nil {
		connection.Close()
		t.Error("the outside can be reached")
	}
}
