package redis_test

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestPanicInPrepareEndsOnlyItsCalls panics while a caller prepares an attempt. The call fails as after a panic in a
// goroutine of the store.
func TestPanicInPrepareEndsOnlyItsCalls(t *testing.T) {
	var broken atomic.Bool
	s := redis.New(connect(t, redistest.Start(t, redistest.Options{}).Addr()), redis.Options{Prefix: "test:", StepTimeout: longTimeout, Now: func() time.Time {
		if broken.Load() && bytes.Contains(debug.Stack(), []byte(".prepareAttempt(")) {
			panic("broken clock")
		}
		return time.Now()
	}})
	l := limits(10)
	broken.Store(true)
	for n := range 3 {
		if _, err := s.Decide(t.Context(), time.Now(), eventWrite("pod", fmt.Sprint(n), n), l); err == nil || !strings.Contains(err.Error(), "broken clock") {
			t.Errorf("Decide: %v, want the panic", err)
		}
	}
	if !s.Idle() {
		t.Error("the cached register is still in use")
	}
	broken.Store(false)
	if d := decide(t, s, eventWrite("pod", "m", 3), l); d.Verdict != store.Admit {
		t.Errorf("%v after the panics, want Admit", d.Verdict)
	}
}
