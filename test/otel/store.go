package otel

import (
	"compress/gzip"
	"io"
	"net/http"
	"sync"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"
)

// Record is a received log record.
type Record struct {
	Body string
	// Texts and Numbers contain the attributes, by name.
	Texts   map[string]string
	Numbers map[string]int64
}

// Store receives a collector's logs. It stores each record once, by its log.record.uid.
type Store struct {
	mu      sync.Mutex
	records map[string]Record
	repeats int
	hook    func(r *http.Request) (status int)
}

// SetHook sets a function that is called before a request is stored. A status other than 0 is the answer.
func (s *Store) SetHook(hook func(r *http.Request) (status int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// ServeHTTP receives OTLP over HTTP.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	if hook != nil {
		if status := hook(r); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	content, err := io.ReadAll(body)
	var request collectorv1.ExportLogsServiceRequest
	if err == nil {
		err = proto.Unmarshal(content, &request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.keep(&request)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (s *Store) keep(request *collectorv1.ExportLogsServiceRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range request.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			for _, log := range scope.GetLogRecords() {
				s.add(log)
			}
		}
	}
}

func (s *Store) add(log *logsv1.LogRecord) {
	r := Record{Body: log.GetBody().GetStringValue(), Texts: map[string]string{}, Numbers: map[string]int64{}}
	for _, a := range log.GetAttributes() {
		r.Texts[a.GetKey()], r.Numbers[a.GetKey()] = a.GetValue().GetStringValue(), a.GetValue().GetIntValue()
	}
	if s.records == nil {
		s.records = map[string]Record{}
	}
	uid := r.Texts["log.record.uid"]
	if _, known := s.records[uid]; known {
		s.repeats++
	}
	s.records[uid] = r
}

// Records returns all records by id, and the number of duplicates.
func (s *Store) Records() (all []Record, repeats int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		all = append(all, r)
	}
	return all, s.repeats
}

// Occurrences returns the sum of the counts of all records.
func (s *Store) Occurrences() (n int64) {
	all, _ := s.Records()
	for _, r := range all {
		n += r.Numbers["eventquota.occurrences"]
	}
	return n
}
