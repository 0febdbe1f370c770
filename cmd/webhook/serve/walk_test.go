package serve

import (
	"encoding/json"
	"os"
	"testing"

	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/walk/record"
)

// TestCreateOnEachStore records the steps of a CREATE on each store. test/walk reads them from the file in EVENTQUOTA_WALK.
func TestCreateOnEachStore(t *testing.T) {
	steps := map[string][]record.Step{}
	for store, change := range map[string]func(*options){
		"Memory": func(*options) {},
		"Redis":  func(o *options) { o.Redis.Addresses = []string{redistest.Start(t, redistest.Options{}).Addr()} },
	} {
		s := startServer(t, newAPIServer(t), change)
		s.readyForEvents(t)
		record.Start("connections.Recycle") // the outermost handler of a review
		callWebhook(t, s.opts.Port, "mutate", "first", true)
		steps[store] = record.Stop()
		s.end(t)
	}
	if path := os.Getenv("EVENTQUOTA_WALK"); path != "" {
		content, err := json.Marshal(steps)
		if err == nil {
			err = os.WriteFile(path, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
