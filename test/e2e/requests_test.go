package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// requestLog logs a client's requests and their status codes. It sits below everything in the client that may retry.
type requestLog struct {
	mu   sync.Mutex
	list []string
	done int
}

// client returns a client whose requests are logged.
func (l *requestLog) client(e *env) kubernetes.Interface {
	e.Helper()
	config := rest.CopyConfig(e.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil {
				l.add(r.Method, response.StatusCode)
			}
			return response, err
		})
	})
	client, err := kubernetes.NewForConfig(config)
	e.must(err)
	return client
}

func (l *requestLog) add(method string, code int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	verb := map[string]string{http.MethodPost: "create", http.MethodPatch: "patch"}[method]
	l.list = append(l.list, fmt.Sprint(verb, " ", code))
	// After a patch of a missing Event, the recorder creates it.
	if verb != "patch" || code != http.StatusNotFound {
		l.done++
	}
}

// completed returns the number of Events that were written or finally refused.
func (l *requestLog) completed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

// take returns the requests since the last call, each with its status code.
func (l *requestLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := strings.Join(l.list, ", ")
	l.list = nil
	return list
}

// roundTripper is a function that is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
