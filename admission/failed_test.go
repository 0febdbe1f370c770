package admission_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestWhatTheAPIServerTakesForFailed holds that a call without a review, or that nobody waits for, is known.
func TestWhatTheAPIServerTakesForFailed(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	review := string(reviewOf(t, newRequest(time.Now(), "a", nil)))
	for says, test := range map[string]struct {
		ctx                 context.Context //nolint:containedctx // of one call
		method, query, body string
		failed              int
	}{
		"a review in time":   {t.Context(), http.MethodPost, unhurried, review, 0},
		"no review":          {t.Context(), http.MethodPost, unhurried, "no review", 1},
		"another method":     {t.Context(), http.MethodPut, unhurried, review, 1},
		"no such timeout":    {t.Context(), http.MethodPost, "?timeout=x", review, 1},
		"an answer too late": {t.Context(), http.MethodPost, "?timeout=1ns", review, 1},
		"a caller who left":  {left, http.MethodPost, unhurried, review, 1},
	} {
		t.Run(says, func(t *testing.T) {
			h := serve(newMemory(t)).mutate
			failed := 0
			h.Failed = func() { failed++ }
			req := httptest.NewRequestWithContext(test.ctx, test.method, "/mutate"+test.query, strings.NewReader(test.body))
			req.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if failed != test.failed {
				t.Errorf("status %d: called failed %d times, want %d", w.Code, failed, test.failed)
			}
		})
	}
}
