// Package binaries builds etcd, kube-apiserver, kube-scheduler,
// kube-controller-manager and kubectl from their Go modules and keeps them in the user's
// cache directory, so that every test runs against the real programs without downloading
// any, and only the first run on a machine pays for the build.
//
// Callers name the programs that they start, and only these are built. A cold build takes
// some minutes. Every later run takes what is in the cache.
package binaries
