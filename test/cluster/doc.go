// Package cluster runs a control plane for tests, load runs and the demo: etcd and kube-apiserver, and optionally
// kube-scheduler, as processes on 127.0.0.1.
//
// It also measures the writes to etcd (Proposals, EventWrites), the outcomes of webhook calls (WebhookCalls), and the
// occurrences that clients reported (ReadAudit).
package cluster
