package sample

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	narrowObjects  = 5
	narrowEvents   = 12_000 // per object
	narrowDuration = 5 * time.Minute
)

// narrow yields many Events about few objects, by an operator whose client does not merge Events. All messages differ.
func narrow(random *rand.Rand) iter.Seq[write] {
	return func(yield func(write) bool) {
		for n := range narrowEvents {
			for i := range narrowObjects {
				w := write{
					at: randomInSlot(random, narrowDuration, n, narrowEvents), by: writer{"system:serviceaccount:databases:operator", "database-operator", ""},
					object:   object{"example.com/v1", "Database", "databases", fmt.Sprint("db-", i)},
					severity: corev1.EventTypeWarning, reason: "SyncFailed",
					message: fmt.Sprintf("sync %d failed: the primary does not answer", n+1),
				}
				if !yield(w) {
					return
				}
			}
		}
	}
}
