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

// Record is one that has arrived.
type Record struct {
	Body string
	// Texts and Numbers are attributes by their names.
	Texts   map[string]string
	Numbers map[string]int64
}

// Store is where a collector passes logs on to. It keeps each record once, by its log.record.uid.
type Store struct {
	mu      sync.Mutex
	records map[string]Record
	repeats int
	hook    func(r *http.Request) (status int)
}

// SetHook sets what is asked before a request is kept: a status other than 0 is its answer.
func (s *Store) SetHook(ask func(r *http.Request) (status int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = ask
}

// ServeHTTP takes OTLP.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	before := s.hook
	s.mu.Unlock()
	if before != nil {
		if status := before(r); status != 0 {
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

// Records are all that have arrived, by their ids, and how many of them came again.
func (s *Store) Records() (all []Record, repeats int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		all = append(all, r)
	}
	return all, s.repeats
}

// Occurrences are those that all records stand for.
func (s *Store) Occurrences() (n int64) {
	all, _ := s.Records()
	for _, r := range all {
		n += r.Numbers["eventquota.occurrences"]
	}
	return n
}
