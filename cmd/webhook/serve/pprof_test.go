package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

func TestProfilesAreForThisMachineAlone(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct {
		address string
		taken   bool
	}{
		"none is the default":             {defaultOptions().PprofAddress, true},
		"none may be said by nothing too": {"", true},
		"IPv4 loopback":                   {"127.0.0.1:6060", true},
		"all of it":                       {"127.8.9.1:6060", true},
		"IPv6 loopback":                   {"[::1]:6060", true},
		"all addresses":                   {"0.0.0.0:6060", false},
		"all addresses of IPv6":           {"[::]:6060", false},
		"no host, which is all":           {":6060", false},
		"an address of a network":         {"10.0.0.1:6060", false},
		"one that only looks like it":     {"[::ffff:10.0.0.1]:6060", false},
		"a name, even this one":           {"localhost:6060", false},
		"no port":                         {"127.0.0.1", false},
		"a port that is none":             {"127.0.0.1:65536", false},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			o := defaultOptions()
			o.PprofAddress = test.address
			err := o.validate()
			if test.taken && err != nil {
				t.Errorf("it is refused: %v", err)
			}
			want := fmt.Sprintf("--pprof-address %q: must be a loopback IP address and a port, such as 127.0.0.1:6060, or 0 for none", test.address)
			if !test.taken && (err == nil || err.Error() != want) {
				t.Errorf("it is refused by\n%v\nwant\n%s", err, want)
			}
		})
	}
}

func TestAProfileCanBeFetchedWhereItIsToldToBe(t *testing.T) {
	s := serving(t, newAPIServer(t), func(o *options) { o.PprofAddress = fmt.Sprintf("127.0.0.1:%d", freePort(t)) })
	o := s.opts
	cli.Eventually(t, "profiles", func() bool { return get(t, "http://"+o.PprofAddress+"/debug/pprof/") == http.StatusOK })
	cli.Eventually(t, "ready", func() bool { return get(t, "http://"+o.HealthAddress+"/readyz") == http.StatusOK })
	cli.Eventually(t, "metrics", func() bool { return get(t, "http://"+o.MetricsAddress+"/metrics") == http.StatusOK })
	for _, profile := range []string{"heap", "allocs", "profile?seconds=1", "trace?seconds=1"} {
		if status, content := page(t, "http://"+o.PprofAddress+"/debug/pprof/"+profile); status != http.StatusOK || content == "" {
			t.Errorf("%s is answered %d with %d bytes", profile, status, len(content))
		}
	}
	if _, content := page(t, "http://"+o.PprofAddress+"/debug/pprof/goroutine?debug=2"); !strings.Contains(content, "(*server).run") {
		t.Error("the goroutines that serve are not in the profile of goroutines")
	}
	for _, elsewhere := range []string{o.MetricsAddress, o.HealthAddress} {
		if got := get(t, "http://"+elsewhere+"/debug/pprof/"); got != http.StatusNotFound {
			t.Errorf("at %s profiles are answered %d too", elsewhere, got)
		}
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}
