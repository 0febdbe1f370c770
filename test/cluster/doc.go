// Package cluster runs a real control plane for tests, load runs and the demo: etcd and
// kube-apiserver, and kube-scheduler on request, as processes on 127.0.0.1.
//
// It also measures what this project is about: what reached etcd (Proposals,
// EventWrites), how webhook calls went (WebhookCalls), and which occurrences clients
// reported (ReadAudit).
package cluster
