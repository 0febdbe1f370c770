package recording

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxWrapped is how many log entries one may be in another.
const maxWrapped = 3

// Unwrap gives what a log entry of a collector or a cloud has: the line that it is about, or the object. Each of them is said
// to be in a field that is known: "log" of Docker, Fluentd and Fluent Bit, "message" of CloudWatch and Vector, "line" of Loki,
// "jsonPayload" and "textPayload" of Cloud Logging, "properties.log" of Azure, and "_source" of Elasticsearch. It reports whether
// there is one.
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
