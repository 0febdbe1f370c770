package clients

import (
	"context"
	"net/http"

	"github.com/eventquota/eventquota/admission"
)

// kopfVersion is the tag of nolar/kopf whose source was read, commit 60d02aef.
const kopfVersion = "1.44.6"

// kopfTries is the number of delays in error_backoffs (kopf/_cogs/configs/configuration.py:391).
const kopfTries = 8

// kopf is a play of kopf. It posts to core/v1 with generateName and never a count (kopf/_cogs/clients/events.py:53-82). One task posts all
// Events of an operator (kopf/_core/engines/posting.py:149-181), so a delay holds up all of them.
type kopf struct{ *play }

func startKopf(s *session) (client, error) {
	p, err := newPlay(s)
	return kopf{p}, err
}

func (k kopf) publish(ctx context.Context, namespace string, some []occurrence) error {
	for _, o := range some {
		now := micro(k.tick())
		s, err := k.sendAgain(ctx, kopfTries, kopfSendsAgain, http.MethodPost, eventsPath(coreAPI, namespace), object{
			"metadata": object{"namespace": namespace, "generateName": "kopf-event-"},
			"action":   "Action?", "type": "Normal", "reason": o.reason, "message": o.message,
			"reportingComponent": "kopf", "reportingInstance": "dev", "source": object{"component": "kopf"},
			"involvedObject": object{"apiVersion": "example.com/v1", "kind": "Widget", "name": o.object, "namespace": namespace, "uid": o.object},
			"firstTimestamp": now, "lastTimestamp": now, "eventTime": now,
		})
		if err != nil {
			return err
		}
		if s.failed() {
			k.observed.add(namespace, admission.LogsWarning, 1) // events.py:86
		}
	}
	return nil
}

// kopfSendsAgain is the choice of kopf/_cogs/clients/api.py:98-125, by the code only (errors.py:181-191).
func kopfSendsAgain(code int) bool {
	return code == http.StatusForbidden || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}
