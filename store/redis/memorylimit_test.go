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

// shippedLimit reads a limit in MiB from the manifest of the webhook.
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

// resident is what the Go runtime holds of the memory of the machine.
func resident() int64 {
	of := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(of)
	return int64(of[0].Value.Uint64() - of[1].Value.Uint64())
}

// A storm of Events of 128 KiB while Redis is away stays within the memory that the manifest gives the webhook. Each
// occurrence that was not stored is counted once Redis is back, or handed over.
func TestStormWithoutRedisFitsMemoryLimit(t *testing.T) {
	const decisions, objects, long = 131_072, 16_384, 128 << 10
	soft, hard := shippedLimit(t, `GOMEMLIMIT\n +value: (\d+)MiB`), shippedLimit(t, `limits:\n +memory: (\d+)Mi`)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(soft))
	debug.FreeOSMemory()
	var away atomic.Bool
	var unreported int64
	s := newInterruptibleStore(t, &away, &unreported)
	text := strings.Repeat("x", long)
	l, wanted, most := limits(2), int64(0), int64(0)
	away.Store(true)
	for n := range decisions {
		w := eventWrite(fmt.Sprint("pod-", n%objects), fmt.Sprint(n/objects/2), n)
		w.Namespace, w.Text = fmt.Sprint("namespace-", n%8), strings.Clone(text) // each has come in a request of its own
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
				t.Fatalf("%d MiB are used, want the %d MiB of the manifest at most", most>>20, hard>>20)
			}
		}
	}
	away.Store(false)
	for s.Waiting() > 0 {
		s.Flush(t.Context())
	}
	reported := int64(0)
	for _, p := range claimAll(t, s) {
		reported += p.Unreported()
	}
	t.Logf("%d MiB used at most; of %d occurrences %d were reported to Redis and %d handed over", most>>20, wanted, reported, unreported)
	if reported+unreported != wanted || reported == 0 || unreported == 0 {
		t.Errorf("of %d occurrences %d were reported and %d handed over, want all, and some of each", wanted, reported, unreported)
	}
}
