package admission_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// held is a review that came before.
type held struct {
	length    int
	namespace string
}

// TestPlacesAreForWhatIsThere has a store that decides nothing before a call's time is over, so whoever has places
// keeps them for as long.
func TestPlacesAreForWhatIsThere(t *testing.T) {
	t.Parallel()
	const a, b = "default", "b"
	for says, tt := range map[string]struct {
		places  int
		held    []held
		later   time.Duration
		length  int
		unknown bool // its length
		want    string
	}{
		"a short one takes one":                           {places: 3, held: []held{{0, a}, {0, b}}, want: "200 after 200ms"},
		"a short one that finds none is answered at once": {places: 2, held: []held{{0, a}, {0, b}}, want: "200 after 0s"},
		"a long one takes one more for each 64Ki":         {places: 8, held: []held{{0, b}, {150 << 10, b}}, length: 150 << 10, want: "200 after 200ms"},
		"one that finds too few of these is not read on":  {places: 8, held: []held{{270 << 10, a}}, length: 150 << 10, want: "200 after 200ms, without its content"},
		"one of a length that is not known, too":          {places: 8, held: []held{{270 << 10, a}}, length: 150 << 10, unknown: true, want: "200 after 200ms, without its content"},
		"but not for a length that is not there":          {places: 8, held: []held{{270 << 10, a}}, length: 100 << 10, unknown: true, want: "200 after 200ms"},
		"nor for those of another namespace":              {places: 8, held: []held{{270 << 10, b}}, length: 150 << 10, want: "200 after 200ms"},
		"nor a while later":                               {places: 8, held: []held{{270 << 10, a}}, later: time.Minute, length: 150 << 10, want: "200 after 200ms"},
		"long ones leave all others to short ones":        {places: 4, held: []held{{maxBytes, b}}, want: "200 after 200ms"},
		"short ones leave all others to long ones":        {places: 4, held: []held{{0, a}, {0, b}}, length: maxBytes, want: "200 after 200ms"},
		"the longest takes all, and not more":             {places: 4, length: maxBytes, want: "200 after 200ms"},
		"a namespace may have as many as are free":        {places: 5, held: []held{{0, b}, {0, a}, {0, a}}, want: "200 after 200ms"},
		"and no more": {places: 5, held: []held{{0, b}, {0, a}, {0, a}, {0, a}}, want: "200 after 0s"},
		"nobody's many keep out another namespace": {places: 3, held: []held{{0, b}, {0, b}, {0, b}, {0, b}}, want: "200 after 200ms"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &stuck{}
				h := serveIn(s, tt.places)
				h.mutate.Deadline = 0
				review := func(r held) []byte {
					text := reviewOf(t, newRequest(time.Now(), "a", details{in(r.namespace)}))
					return append(text, bytes.Repeat([]byte(" "), max(0, r.length-len(text)))...)
				}
				var before sync.WaitGroup
				for _, one := range tt.held {
					before.Go(func() { post(t, h.mutate, review(one), "?timeout=30s") })
					synctest.Wait()
				}
				<-time.After(tt.later) // on the clock of the bubble
				began := time.Now()
				req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/?timeout=1s", bytes.NewReader(review(held{tt.length, a})))
				if tt.unknown {
					req.ContentLength = -1
				}
				w := postAs(t, h.mutate, req)
				got := fmt.Sprintf("%d after %v", w.Code, time.Since(began))
				if s.unread {
					got += ", without its content"
				}
				if got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				if w.Code == http.StatusOK {
					answered(t, w)
				}
				before.Wait()
				if !h.mutate.InFlight.AllFree() {
					t.Error("a place is not given back")
				}
			})
		})
	}
}
