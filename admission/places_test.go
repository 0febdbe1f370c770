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

// TestLongReviewsTakeMorePlaces has a store that decides nothing before a call's
// time is over, so whoever has places keeps them for as long.
func TestLongReviewsTakeMorePlaces(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		places  int
		held    []int // lengths of the reviews that came before
		length  int
		unknown bool // its length
		want    string
	}{
		"a short one takes one":                           {places: 3, held: []int{0, 0}, want: "200 after 200ms"},
		"a short one that finds none is answered at once": {places: 2, held: []int{0, 0}, want: "200 after 0s"},
		"a long one takes one for each 64Ki":              {places: 4, held: []int{0, 0}, length: 100 << 10, want: "200 after 200ms"},
		"a long one that finds too few is not read":       {places: 4, held: []int{0, 100 << 10}, length: 100 << 10, want: "503 after 0s"},
		"a short one finds what long ones left":           {places: 4, held: []int{0, 100 << 10}, want: "200 after 200ms"},
		"the longest takes all, and not more":             {places: 4, length: maxBytes, want: "200 after 200ms"},
		"one of unknown length takes all":                 {places: 4, held: []int{0}, unknown: true, want: "503 after 0s"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := serveIn(&stuck{}, tt.places)
				h.mutate.Deadline = 0
				review := reviewOf(t, newRequest(time.Now(), "a", nil))
				long := func(length int) []byte {
					return append(bytes.Clone(review), bytes.Repeat([]byte(" "), max(0, length-len(review)))...)
				}
				var before sync.WaitGroup
				for _, length := range tt.held {
					before.Go(func() { post(t, h.mutate, long(length), "?timeout=30s") })
				}
				synctest.Wait()
				began := time.Now()
				req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/?timeout=1s", bytes.NewReader(long(tt.length)))
				if tt.unknown {
					req.ContentLength = -1
				}
				w := postAs(t, h.mutate, req)
				if got := fmt.Sprintf("%d after %v", w.Code, time.Since(began)); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				if w.Code == http.StatusOK {
					answered(t, w)
				}
				before.Wait()
				if !h.mutate.InFlight.AllFree(t.Context()) {
					t.Error("a place is not given back")
				}
			})
		})
	}
}
