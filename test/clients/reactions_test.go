package clients

import (
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/eventquota/eventquota/admission"
)

// reactions counts what a client has done after refusals. GoesOn is not counted.
type reactions map[admission.Reaction]int

// observations counts the reactions in each namespace. It is safe for concurrent use.
type observations struct {
	mu          sync.Mutex
	byNamespace map[string]reactions
	lost        map[string]int
}

// lose counts an occurrence that the API server refused because the Event had changed since the client read it, as without the webhook.
func (o *observations) lose(namespace string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost == nil {
		o.lost = map[string]int{}
	}
	o.lost[namespace]++
}

func (o *observations) lostIn(namespace string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost[namespace]
}

func (o *observations) add(namespace string, r admission.Reaction, times int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byNamespace == nil {
		o.byNamespace = map[string]reactions{}
	}
	if o.byNamespace[namespace] == nil {
		o.byNamespace[namespace] = reactions{}
	}
	if r != admission.GoesOn && times > 0 {
		o.byNamespace[namespace][r] += times
	}
}

// take returns the reactions in a namespace since the last call.
func (o *observations) take(namespace string) reactions {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.byNamespace[namespace]
	delete(o.byNamespace, namespace)
	if taken == nil {
		return reactions{}
	}
	return taken
}

// recorderLog has the errors that client-go's recorders log in this process, by the namespace of the Event. Namespaces of different
// tests have different names. An error without an Event is in namespace "".
var recorderLog = &errorLog{}

// errorLog is a logr.LogSink that counts errors.
type errorLog struct {
	observations
}

var _ logr.LogSink = (*errorLog)(nil)

// Init implements logr.LogSink.
func (*errorLog) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink. Recorders log what is no error at higher levels.
func (*errorLog) Enabled(int) bool { return false }

// Info implements logr.LogSink.
func (*errorLog) Info(int, string, ...any) {}

// Error implements logr.LogSink.
func (l *errorLog) Error(_ error, _ string, keysAndValues ...any) {
	namespace := ""
	for i := 1; i < len(keysAndValues); i += 2 {
		if object, err := meta.Accessor(keysAndValues[i]); err == nil {
			namespace = object.GetNamespace()
		}
	}
	l.add(namespace, admission.LogsError, 1)
}

// WithValues implements logr.LogSink.
func (l *errorLog) WithValues(...any) logr.LogSink { return l }

// WithName implements logr.LogSink.
func (l *errorLog) WithName(string) logr.LogSink { return l }
