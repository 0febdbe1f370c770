package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// TestKubeletWaitsForAnswers lets a kubelet write to a server, and counts the answered Events once run has returned.
func TestKubeletWaitsForAnswers(t *testing.T) {
	var mu sync.Mutex
	reasons, users := map[string]int{}, map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var e corev1.Event
		if err != nil || r.Method != http.MethodPost || json.Unmarshal(body, &e) != nil {
			t.Errorf("%s %s: %q: %v", r.Method, r.URL, body, err)
		}
		mu.Lock()
		reasons[e.Reason]++
		users[r.Header.Get("Impersonate-User")+" in "+strings.Join(r.Header["Impersonate-Group"], ", ")] = true
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	}))
	defer server.Close()
	admin := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	k, err := newKubelet(t.Context(), admin, "wide", 7)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	const each = 2 * podsPerNode // containers
	if len(reasons) != 4 || reasons["Pulled"] != each || reasons["Created"] != each || reasons["Started"] != each || reasons["Killing"] != each {
		t.Errorf("Events by reason: %v, want %d each of Pulled, Created, Started and Killing", reasons, each)
	}
	if user := "system:node:node-7 in system:nodes, system:authenticated"; len(users) != 1 || !users[user] {
		t.Errorf("the Events were written by %v, want %s", users, user)
	}
}
