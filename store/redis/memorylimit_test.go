package redis_test

import (
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// shippedLimit reads a limit in MiB from the manifest of the webhook, and returns it in bytes.
func shippedLimit(t *testing.T, pattern string) int64 {
	t.Helper()
	manifest, err := os.ReadFile("../../manifests/base/60-deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(manifest)
	if found == nil {
		t.Fatalf("the manifest has no %s", pattern)
	}
	mib, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mib << 20
}

// resident returns the memory that the Go runtime has from the operating system.
func resident() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}

// TestStormWithoutRedisFitsMemoryLimit writes Events of 128 KiB while Redis is unavailable. The replica stays within the
// memory limit of the manifest. Each occurrence that was not stored is reported to Redis later, or handed over.
func TestStormWithoutRedisFitsMemoryLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("it decides 16 GB of Events") //nolint:forbidigo // -short asks for it
	}
	const decisions, objects, long = 131_072, 16_384, 128 << 10
	soft, hard := shippedLimit(t, `GOMEMLIMIT\n +value: (\d+)MiB`), shippedLimit(t, `limits:\n +memory: (\d+)Mi`)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(soft))
	debug.FreeOSMemory()
	var down atomic.Bool
	var unreported int64
	s := newInterruptibleStore(t, &down, &unreported)
	text := strings.Repeat("x", long)
	l, wanted, most := limits(2), int64(0), int64(0)
	down.Store(true)
	for n := range decisions {
		w := eventWrite(fmt.Sprint("pod-", n%objects), fmt.Sprint(n/objects/2), n)
		w.Namespace, w.Text = fmt.Sprint("namespace-", n%8), strings.Clone(text) // each request has its own copy
		if w.InvolvedObject.UID = w.Text; n%16 == 0 {
			w.Reason = w.Text
		}
		if d := s.DecideLocally(w, l); !d.Verdict.Admits() {
			wanted += d.Occurrences
		}
		if n%1000 == 0 {
			s.SpillExcess()
			most = max(most, resident())
			if most > hard {
				t.Fatalf("%d MiB used, want at most the %d MiB of the manifest", most>>20, hard>>20)
			}
		}
	}
	down.Store(false)
	for s.Waiting() > 0 {
		s.Flush(t.Context())
	}
	reported := int64(0)
	for _, p := range claimAll(t, s) {
		reported += p.Unreported()
	}
	t.Logf("at most %d MiB used; of %d occurrences %d were reported to Redis and %d handed over", most>>20, wanted, reported, unreported)
	if reported+unreported != wanted || reported == 0 || unreported == 0 {
		t.Errorf("of %d occurrences %d were reported and %d handed over, want all in total, and some of each", wanted, reported, unreported)
	}
}
