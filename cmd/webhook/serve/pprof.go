package serve

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"net/netip"
)

// pprofOff tells whether no profiles are served at an address.
func pprofOff(address string) bool { return address == "" || address == "0" }

// checkPprofAddress takes an address of this machine alone: a profile shows what is
// in memory, and one of the CPU slows the webhook down. A name is refused, as who
// resolves it decides where it leads.
func checkPprofAddress(address string) error {
	if pprofOff(address) {
		return nil
	}
	if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf("--pprof-address %q: must be a loopback IP address and a port, such as 127.0.0.1:6060, or 0 for none", address)
	}
	return nil
}

// pprofMux is all that is served at --pprof-address.
func pprofMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index) // heap, goroutine and other profiles by name, too
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
