// Package sink tests the sink with a real OpenTelemetry Collector and a real log store.
package sink
