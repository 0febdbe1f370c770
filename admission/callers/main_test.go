package callers

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain holds that no test leaves a goroutine behind, but for the queue of a file that is refused: nobody can end that.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/client-go/util/workqueue.(*delayingType[...]).waitingLoop"))
}
