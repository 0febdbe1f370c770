package recording

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxWrapped is the maximum number of nested log entries.
const maxWrapped = 3

// Unwrap returns the log line or object in a log entry of a collector or cloud, and whether there is one. It supports these
// fields:
//
//   - "log" of Docker, Fluentd and Fluent Bit
//   - "message" of CloudWatch and Vector
//   - "line" of Loki
//   - "jsonPayload" and "textPayload" of Cloud Logging
//   - "properties.log" of Azure
//   - "_source" of Elasticsearch
func Unwrap(text []byte) (inner []byte, ok bool) {
	for range maxWrapped {
		next := unwrapField(text)
		if next == nil {
			break
		}
		text, ok = next, true
	}
	return text, ok
}

func unwrapField(text []byte) []byte {
	var fields map[string]jsontext.Value
	if json.Unmarshal(text, &fields, Lenient()) != nil {
		return nil
	}
	for _, name := range [...]string{"log", "message", "@message", "line", "jsonPayload", "textPayload", "properties", "_source", "msg"} {
		value := bytes.TrimSpace(fields[name])
		if len(value) > 0 && value[0] == '"' {
			value = bytes.TrimSpace([]byte(unquoted(value)))
		}
		if len(value) > 0 && value[0] == '{' {
			return value
		}
	}
	return nil
}
