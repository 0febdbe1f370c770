package cluster

import (
	"context"
)

// WebhookCalls is how the API server's calls to one webhook went since its start, by
// its own count. Dry-runs count too.
type WebhookCalls struct {
	Total        int64 // calls, however they ended
	Denied       int64 // the webhook answered and denied
	FailedOpen   int64 // the call failed and failurePolicy Ignore let the write pass
	FailedClosed int64 // the call failed and the write with it
	Excluded     int64 // not called, because of matchConditions
}

// WebhookCalls returns the calls of every webhook by its name.
func (c *Cluster) WebhookCalls(ctx context.Context) (map[string]WebhookCalls, error) {
	families, err := c.apiServerMetrics(ctx)
	if err != nil {
		return nil, err
	}
	calls := map[string]WebhookCalls{}
	add := func(metric string, to func(calls *WebhookCalls, labels map[string]string, value int64)) {
		for _, m := range families[metric].GetMetric() {
			labels := labelsOf(m)
			one := calls[labels["name"]]
			to(&one, labels, int64(m.GetCounter().GetValue()))
			calls[labels["name"]] = one
		}
	}
	add("apiserver_admission_webhook_request_total", func(c *WebhookCalls, _ map[string]string, value int64) {
		c.Total += value
	})
	add("apiserver_admission_webhook_fail_open_count", func(c *WebhookCalls, _ map[string]string, value int64) {
		c.FailedOpen += value
	})
	add("apiserver_admission_webhook_rejection_count", func(c *WebhookCalls, labels map[string]string, value int64) {
		if labels["error_type"] == "no_error" {
			c.Denied += value
		} else {
			c.FailedClosed += value
		}
	})
	add("apiserver_admission_match_condition_exclusions_total", func(c *WebhookCalls, _ map[string]string, value int64) {
		c.Excluded += value
	})
	return calls, nil
}

// WebhookFailures returns how many webhook calls of any webhook failed, whether the
// write passed or not. A denial is no failure.
func (c *Cluster) WebhookFailures(ctx context.Context) (int64, error) {
	calls, err := c.WebhookCalls(ctx)
	if err != nil {
		return 0, err
	}
	var failures int64
	for _, one := range calls {
		failures += one.FailedOpen + one.FailedClosed
	}
	return failures, nil
}
